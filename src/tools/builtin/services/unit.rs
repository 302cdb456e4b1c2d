//! Names of units, and how their states are written.

use crate::tools::builtin::bus::{BusError, BusValue, Systemd, UnitRow};
use crate::types::clock::Wall;
use crate::types::json::INTEGER_MAX;
use serde_json::{Map, Value, json};
use std::io::{Read, Write};

/// Members of every unit.
pub(super) const UNIT: &str = "org.freedesktop.systemd1.Unit";
/// Types of units, each with the interface that has its own members (systemd.unit(5)).
const TYPES: [(&str, &str); 11] = [
    ("service", "org.freedesktop.systemd1.Service"),
    ("socket", "org.freedesktop.systemd1.Socket"),
    ("timer", "org.freedesktop.systemd1.Timer"),
    ("mount", "org.freedesktop.systemd1.Mount"),
    ("automount", "org.freedesktop.systemd1.Automount"),
    ("swap", "org.freedesktop.systemd1.Swap"),
    ("path", "org.freedesktop.systemd1.Path"),
    ("scope", "org.freedesktop.systemd1.Scope"),
    ("target", UNIT),
    ("slice", UNIT),
    ("device", UNIT),
];
/// Length of a state, in bytes.
const STATE_BYTES_MAX: usize = 64;
/// The largest number in a result. For one that it does not know, systemd sends a larger one.
const NUMBER_MAX: u64 = INTEGER_MAX.unsigned_abs();

/// The interface of the unit `name` by its type.
pub(super) fn interface(name: &str) -> Result<&'static str, String> {
    let kind = name.rsplit_once('.').map_or("", |(_, kind)| kind);
    let found = TYPES.iter().find(|(known, _)| *known == kind).map(|(_, interface)| *interface);
    found.ok_or_else(|| format!("`{name}` does not end with the type of a unit, such as `.service`"))
}

/// Refuses a name that is not the unit's own: rules decide on names, so that one unit must not be
/// reached by two.
pub(super) fn check_name<S: Read + Write>(systemd: &mut Systemd<S>, name: &str) -> Result<(), String> {
    let id = systemd.property(name, UNIT, "Id").map_err(said)?;
    match id.text() {
        Some(id) if id == name => Ok(()),
        Some(id) => Err(format!("`{name}` is another name of `{}`: ask for that", shown(id))),
        None => Err(said(BusError::Unexpected("Get"))),
    }
}

/// A state in systemd's words, if it has the form of one.
pub(super) fn state(value: &BusValue) -> &str {
    let is_mark = |b: u8| b"._+~-".contains(&b);
    let is_state = |word: &&str| {
        (1..=STATE_BYTES_MAX).contains(&word.len())
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || is_mark(b))
    };
    value.text().filter(is_state).unwrap_or("other")
}

/// Reads a property into `members`, as `name`, in the form that `write` gives it. One that systemd
/// does not have is not seen; so is one whose value it does not know.
pub(super) fn put<S: Read + Write>(
    systemd: &mut Systemd<S>,
    from: [&str; 3],
    name: &str,
    write: impl FnOnce(&BusValue) -> Option<Value>,
    members: &mut Map<String, Value>,
) -> Result<(), BusError> {
    let [unit, interface, property] = from;
    match systemd.property(unit, interface, property) {
        Ok(value) => {
            members.extend(write(&value).map(|value| (name.to_owned(), value)));
            Ok(())
        }
        Err(BusError::Peer { .. }) => Ok(()),
        Err(e) => Err(e),
    }
}

/// A number; nothing if systemd does not know it.
pub(super) fn known(value: &BusValue) -> Option<Value> {
    value.number().filter(|number| *number <= NUMBER_MAX).map(|number| json!(number))
}

/// A state, unless it is empty.
pub(super) fn word(value: &BusValue) -> Option<Value> {
    (value.text() != Some("")).then(|| json!(state(value)))
}

/// A time; nothing if it has not come yet.
pub(super) fn time(value: &BusValue) -> Option<Value> {
    let micros = value.number().filter(|micros| (1..=NUMBER_MAX).contains(micros))?;
    Some(json!(Wall(micros).rfc3339()))
}

/// A unit as one member of a list.
pub(super) fn listed(row: &UnitRow) -> Map<String, Value> {
    let state = |word: &str| json!(state(&BusValue::Text(word.to_owned())));
    Map::from_iter([
        ("name".to_owned(), json!(row.name)),
        ("load".to_owned(), state(&row.load)),
        ("active".to_owned(), state(&row.active)),
        ("sub".to_owned(), state(&row.sub)),
    ])
}

/// The reason that a call over the bus failed.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn said(error: BusError) -> String {
    error.to_string()
}

fn shown(words: &str) -> String {
    crate::types::text::visible_line(crate::types::text::prefix(words, 255))
}
