//! What systemd's manager is asked (org.freedesktop.systemd1(5)).
//!
//! Each property is asked for by its name. All of them together would include the environment and
//! the command line of a service, which hold secrets.

use super::client::BusClient;
use super::error::BusError;
use super::message::{BusArgument, BusCall};
use super::values::BusValue;
use std::fmt::Write as _;
use std::io::{Read, Write};

const NAME: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// systemd's manager, over the bus.
#[derive(Debug)]
pub(in crate::tools::builtin) struct Systemd<S>(BusClient<S>);

/// One line of the manager's list of units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tools::builtin) struct UnitRow {
    pub(in crate::tools::builtin) name: String,
    /// Such as `loaded` or `not-found`.
    pub(in crate::tools::builtin) load: String,
    /// Such as `active` or `failed`.
    pub(in crate::tools::builtin) active: String,
    /// The state in the words of the unit's type, such as `running`.
    pub(in crate::tools::builtin) sub: String,
}

impl<S: Read + Write> Systemd<S> {
    pub(in crate::tools::builtin) fn new(client: BusClient<S>) -> Self {
        Self(client)
    }

    /// The units in memory whose state is one of `states` and whose name matches one of `patterns`.
    /// An empty list selects all.
    pub(in crate::tools::builtin) fn units(
        &mut self,
        states: &[&str],
        patterns: &[&str],
    ) -> Result<Vec<UnitRow>, BusError> {
        const MEMBER: &str = "ListUnitsByPatterns";
        let body = self.ask(MEMBER, &[BusArgument::Texts(states), BusArgument::Texts(patterns)])?.1;
        let rows = body.first().and_then(BusValue::list).ok_or(BusError::Unexpected(MEMBER))?;
        rows.iter().map(|row| unit_row(row).ok_or(BusError::Unexpected(MEMBER))).collect()
    }

    /// A property of a unit. systemd loads the unit if it is not in memory, and starts nothing.
    pub(in crate::tools::builtin) fn property(
        &mut self,
        unit: &str,
        interface: &str,
        property: &str,
    ) -> Result<BusValue, BusError> {
        let arguments = [BusArgument::Text(interface), BusArgument::Text(property)];
        let path = unit_path(unit);
        let call =
            BusCall { to: NAME, path: &path, interface: PROPERTIES, member: "Get", arguments: &arguments };
        self.0.call(&call)?.body.into_iter().next().ok_or(BusError::Unexpected("Get"))
    }

    /// Restarts a unit and waits until that job ends. Returns how, such as `done` or `failed`.
    pub(in crate::tools::builtin) fn restart(&mut self, unit: &str) -> Result<String, BusError> {
        let wanted = format!("type='signal',sender='{NAME}',interface='{MANAGER}',member='JobRemoved'");
        self.0.ask_the_bus("AddMatch", &[BusArgument::Text(&wanted)])?;
        self.ask("Subscribe", &[])?;
        let (manager, body) =
            self.ask("RestartUnit", &[BusArgument::Text(unit), BusArgument::Text("replace")])?;
        let job = body.first().and_then(BusValue::text).ok_or(BusError::Unexpected("RestartUnit"))?;
        loop {
            let signal = self.0.signal()?;
            // Any peer may send a signal to this connection alone, whatever it matches.
            let is_ended =
                signal.sender == manager && signal.interface == MANAGER && signal.member == "JobRemoved";
            if let ([_, path, _, how], true) = (signal.body.as_slice(), is_ended)
                && path.text() == Some(job)
            {
                return Ok(how.text().unwrap_or_default().to_owned());
            }
        }
    }

    /// Calls a method of the manager. Returns who answered, and what.
    fn ask(
        &mut self,
        member: &'static str,
        arguments: &[BusArgument<'_>],
    ) -> Result<(String, Vec<BusValue>), BusError> {
        let call = BusCall { to: NAME, path: PATH, interface: MANAGER, member, arguments };
        let reply = self.0.call(&call)?;
        Ok((reply.sender, reply.body))
    }
}

/// A row has ten members: name, description, load state, active state, sub state, and five more.
fn unit_row(row: &BusValue) -> Option<UnitRow> {
    let members = row.list()?;
    let text = |at: usize| members.get(at).and_then(BusValue::text).map(str::to_owned);
    Some(UnitRow { name: text(0)?, load: text(2)?, active: text(3)?, sub: text(4)? })
}

/// The object path of a unit: every byte that is not a letter or a digit is `_` and two digits, and
/// so is a first digit (sd_bus_path_encode(3)).
fn unit_path(unit: &str) -> String {
    let mut path = format!("{PATH}/unit/");
    for (at, byte) in unit.bytes().enumerate() {
        if byte.is_ascii_alphabetic() || (byte.is_ascii_digit() && at > 0) {
            path.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(path, "_{byte:02x}");
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::unit_path;

    #[test]
    fn object_paths_are_those_of_systemd() {
        for (unit, path) in [
            ("nginx.service", "nginx_2eservice"),
            ("0pointer.net.service", "_30pointer_2enet_2eservice"),
            ("-.mount", "_2d_2emount"),
            ("a@b\\x2d1.service", "a_40b_5cx2d1_2eservice"),
        ] {
            assert_eq!(unit_path(unit), format!("/org/freedesktop/systemd1/unit/{path}"));
        }
    }
}
