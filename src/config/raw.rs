//! The configuration as written, with the position of every error.

use super::error::ConfigError;
use super::raw_models::{RawLlm, RawModel};
use super::shown::Shown;
use crate::types::with_meant;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The names of the roles.
pub const ROLE_NAMES: [&str; 4] = ["viewer", "operator", "approver", "admin"];

/// `par.toml`. The serde names are the table names that errors show.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
pub(super) struct RawConfig {
    pub(super) server: RawServer,
    pub(super) llm: RawLlm,
    pub(super) models: BTreeMap<String, RawModel>,
    pub(super) paths: BTreeMap<String, String>,
    pub(super) auth: Auth,
    pub(super) ledger: RawLedger,
    pub(super) approvals: RawApprovals,
    pub(super) limits: RawLimits,
    pub(super) groups: BTreeMap<String, Vec<String>>,
    pub(super) sandbox: Sandbox,
    pub(super) secrets: BTreeMap<String, String>,
    pub(super) secret_patterns: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename = "Server", default, deny_unknown_fields)]
pub(super) struct RawServer {
    pub(super) listen: String,
    pub(super) hosts: Vec<String>,
    pub(super) log: String,
}

impl Default for RawServer {
    fn default() -> Self {
        Self { listen: "127.0.0.1:7117".to_owned(), hosts: Vec::new(), log: "text".to_owned() }
    }
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Auth {
    pub(super) local_role: String,
    pub(super) os_users: BTreeMap<String, OsUser>,
}

impl Default for Auth {
    fn default() -> Self {
        Self { local_role: "operator".to_owned(), os_users: BTreeMap::new() }
    }
}

/// A user of this host who may use PAR without a key: an entry of `[auth.os_users]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename = "OsUser", deny_unknown_fields)]
pub struct OsUser {
    /// The user that keys and groups name.
    pub user: String,
    /// The role, as written.
    pub role: String,
}

#[derive(Deserialize)]
#[serde(rename = "Ledger", default, deny_unknown_fields)]
pub(super) struct RawLedger {
    pub(super) free_bytes_min: Option<u64>,
    pub(super) segment_bytes_max: u64,
    pub(super) segment_s_max: u64,
    pub(super) payload_s_max: u64,
    pub(super) anchor: String,
    pub(super) anchor_key: String,
    pub(super) anchor_every_ms: u64,
    pub(super) anchor_age_ms_max: u64,
    pub(super) verify_every_s: u64,
    pub(super) verify_whole_every_s: u64,
}

impl Default for RawLedger {
    fn default() -> Self {
        Self {
            free_bytes_min: None,
            segment_bytes_max: crate::types::limits::SEGMENT_BYTES_MAX,
            segment_s_max: 0,
            payload_s_max: 0,
            anchor: "journal".to_owned(),
            anchor_key: String::new(),
            anchor_every_ms: crate::types::limits::ANCHOR_EVERY_MS,
            anchor_age_ms_max: crate::types::limits::ANCHOR_AGE_MS_MAX,
            verify_every_s: crate::types::limits::VERIFY_EVERY_S,
            verify_whole_every_s: crate::types::limits::VERIFY_WHOLE_EVERY_S,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename = "Approvals", default, deny_unknown_fields)]
pub(super) struct RawApprovals {
    pub(super) expire_s: u64,
    pub(super) open_key_max: u64,
    pub(super) open_run_max: u64,
}

impl Default for RawApprovals {
    fn default() -> Self {
        use crate::types::limits;
        Self {
            expire_s: limits::APPROVAL_MS / 1_000,
            open_key_max: limits::APPROVALS_OPEN_KEY_MAX,
            open_run_max: limits::APPROVALS_OPEN_RUN_MAX,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename = "Limits", default, deny_unknown_fields)]
pub(super) struct RawLimits {
    pub(super) key_runs_hour_max: u64,
    pub(super) key_bytes_hour_max: u64,
}

impl Default for RawLimits {
    fn default() -> Self {
        Self {
            key_runs_hour_max: crate::types::limits::KEY_RUNS_HOUR_MAX,
            key_bytes_hour_max: crate::types::limits::KEY_BYTES_HOUR_MAX,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Sandbox {
    pub(super) launcher: String,
    pub(super) minimum: String,
    pub(super) landlock_abi_max: u32,
    pub(super) ca_file: String,
    pub(super) slot_uids: String,
}

impl RawConfig {
    /// Parses the bytes of `file`, and applies the variables in `overrides`. What cannot be read is
    /// left out, and is among the faults.
    ///
    /// # Errors
    ///
    /// The file is not TOML.
    pub(super) fn read(
        file: &Path,
        bytes: &[u8],
        overrides: BTreeMap<String, (String, String)>,
    ) -> Result<(Self, Vec<Shown>, Vec<ConfigError>), ConfigError> {
        let refuse = |line, reason| ConfigError::file(file, line, reason);
        let text = std::str::from_utf8(bytes).map_err(|_| refuse(None, "is not valid UTF-8".to_owned()))?;
        // The file is checked alone first, so that its errors have line numbers.
        let (mut table, mut faults) = sound(file, text)?;
        let mut from: BTreeMap<String, String> = BTreeMap::new();
        for (key, (value, variable)) in overrides {
            let mut with = table.clone();
            set(&mut with, &key, &value);
            // Variables are applied one at a time, so that an error names its variable.
            match Self::deserialize(with.clone()) {
                Ok(_) => {
                    table = with;
                    from.insert(key, variable);
                }
                Err(e) => faults.push(ConfigError::variable(&variable, with_meant(e.message()))),
            }
        }
        let raw = Self::deserialize(table.clone()).map_err(|e| refuse(None, e.message().to_owned()))?;
        let shown = raw.shown(&table, &from);
        Ok((raw, shown, faults))
    }

    fn shown(&self, table: &toml::Table, from: &BTreeMap<String, String>) -> Vec<Shown> {
        let text = |value: &str| toml::Value::from(value).to_string();
        let mut keys = vec![
            ("server.listen".to_owned(), text(&self.server.listen)),
            ("server.hosts".to_owned(), toml::Value::from(self.server.hosts.clone()).to_string()),
            ("server.log".to_owned(), text(&self.server.log)),
        ];
        keys.extend(self.llm.shown());
        keys.extend(self.models.iter().flat_map(|(name, model)| model.shown(name)));
        keys.extend([
            ("auth.local_role".to_owned(), text(&self.auth.local_role)),
            ("auth.os_users".to_owned(), os_users(&self.auth.os_users)),
            ("sandbox.launcher".to_owned(), text(&self.sandbox.launcher)),
            ("sandbox.minimum".to_owned(), text(&self.sandbox.minimum)),
            ("sandbox.ca_file".to_owned(), text(&self.sandbox.ca_file)),
            ("sandbox.landlock_abi_max".to_owned(), self.sandbox.landlock_abi_max.to_string()),
            ("sandbox.slot_uids".to_owned(), text(&self.sandbox.slot_uids)),
        ]);
        keys.extend(self.paths.iter().map(|(name, path)| (format!("paths.{name}"), text(path))));
        let floor = self.ledger.free_bytes_min.unwrap_or(crate::types::limits::LEDGER_FREE_BYTES_MIN);
        keys.push(("ledger.free_bytes_min".to_owned(), floor.to_string()));
        keys.push(("ledger.segment_bytes_max".to_owned(), self.ledger.segment_bytes_max.to_string()));
        keys.push(("ledger.segment_s_max".to_owned(), self.ledger.segment_s_max.to_string()));
        keys.push(("ledger.payload_s_max".to_owned(), self.ledger.payload_s_max.to_string()));
        keys.push(("ledger.anchor".to_owned(), text(&self.ledger.anchor)));
        keys.push(("ledger.anchor_key".to_owned(), text(&self.ledger.anchor_key)));
        keys.push(("ledger.anchor_every_ms".to_owned(), self.ledger.anchor_every_ms.to_string()));
        keys.push(("ledger.anchor_age_ms_max".to_owned(), self.ledger.anchor_age_ms_max.to_string()));
        keys.push(("ledger.verify_every_s".to_owned(), self.ledger.verify_every_s.to_string()));
        keys.push(("ledger.verify_whole_every_s".to_owned(), self.ledger.verify_whole_every_s.to_string()));
        keys.push(("approvals.expire_s".to_owned(), self.approvals.expire_s.to_string()));
        keys.push(("approvals.open_key_max".to_owned(), self.approvals.open_key_max.to_string()));
        keys.push(("approvals.open_run_max".to_owned(), self.approvals.open_run_max.to_string()));
        keys.push(("limits.key_runs_hour_max".to_owned(), self.limits.key_runs_hour_max.to_string()));
        keys.push(("limits.key_bytes_hour_max".to_owned(), self.limits.key_bytes_hour_max.to_string()));
        let users = |users: &Vec<String>| toml::Value::from(users.clone()).to_string();
        keys.extend(self.groups.iter().map(|(group, of)| (format!("groups.{group}"), users(of))));
        keys.extend(self.secrets.iter().map(|(name, from)| (format!("secrets.{name}"), text(from))));
        let patterns = self.secret_patterns.iter();
        keys.extend(patterns.map(|(name, pattern)| (format!("secret_patterns.{name}"), text(pattern))));
        keys.into_iter()
            .map(|(key, value)| {
                let in_file = is_written(table, &key);
                let of_file = if in_file { "file" } else { "default" };
                let from = from.get(&key).cloned().unwrap_or_else(|| of_file.to_owned());
                Shown { key, value, from }
            })
            .collect()
    }
}

/// The table without the members that cannot be read, and what is wrong with each of these.
fn sound(file: &Path, text: &str) -> Result<(toml::Table, Vec<ConfigError>), ConfigError> {
    let of_toml = |e: &toml::de::Error| {
        let line = e.span().map(|span| 1 + text.bytes().take(span.start).filter(|b| *b == b'\n').count());
        ConfigError::file(file, line, with_meant(e.message()))
    };
    let mut table = DeTable::parse(text).map_err(|e| of_toml(&e))?;
    let mut faults = Vec::new();
    while let Err(e) = RawConfig::deserialize(toml::Deserializer::from(table.clone())) {
        faults.push(of_toml(&e));
        let is_removed = e.span().is_some_and(|span| {
            // An entry of `[auth.os_users]` is left out whole: with a member less it is faulty too.
            remove_at(table.get_mut(), span.start, 2) || remove_at(table.get_mut(), span.start, 3)
        });
        if !is_removed {
            *table.get_mut() = DeTable::default();
        }
    }
    faults.sort_by_key(|fault| fault.line);
    let sound = toml::Table::deserialize(toml::Deserializer::from(table)).map_err(|e| of_toml(&e))?;
    Ok((sound, faults))
}

/// Removes the innermost member whose key or value is at this byte of the file, at most `levels`
/// tables below this one.
fn remove_at(table: &mut DeTable<'_>, at: usize, levels: usize) -> bool {
    if let Some(below) = levels.checked_sub(1) {
        for (_, value) in table.iter_mut() {
            if let DeValue::Table(inner) = value.get_mut()
                && remove_at(inner, at, below)
            {
                return true;
            }
        }
    }
    let is_there = |key: &Spanned<_>, value: &Spanned<DeValue<'_>>| {
        key.span().contains(&at) || value.span().contains(&at)
    };
    let found = table.iter().find(|(key, value)| is_there(key, value)).map(|(key, _)| key.clone());
    found.is_some_and(|key| table.remove(&key).is_some())
}

/// `[auth.os_users]` as an inline table.
fn os_users(users: &BTreeMap<String, OsUser>) -> String {
    let member = |name: &str, value: &str| (name.to_owned(), toml::Value::from(value));
    let users = users.iter().map(|(name, of)| {
        let of = toml::Table::from_iter([member("user", &of.user), member("role", &of.role)]);
        (name.clone(), toml::Value::Table(of))
    });
    toml::Value::Table(users.collect()).to_string()
}

/// Whether the file has the key, such as `server.listen` or `models.NAME.wire`.
fn is_written(table: &toml::Table, key: &str) -> bool {
    let Some((section, name)) = key.split_once('.') else { return false };
    let Some(section) = table.get(section) else { return false };
    // Names of other sections may contain a point.
    let in_model = || name.split_once('.').and_then(|(model, key)| section.get(model)?.get(key)).is_some();
    section.get(name).is_some() || in_model()
}

/// Puts a variable's text at `section.key`: as TOML if it is a TOML value, else as a string.
fn set(table: &mut toml::Table, path: &str, text: &str) {
    let Some((section, key)) = path.split_once('.') else { return };
    let value = toml::from_str::<toml::Table>(&format!("value = {text}"))
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .unwrap_or_else(|| toml::Value::from(text));
    let mut at = table.entry(section).or_insert_with(|| toml::Table::new().into());
    let key = match key.split_once('.') {
        Some((model, key)) if section == "models" => {
            let Some(models) = at.as_table_mut() else { return };
            at = models.entry(model).or_insert_with(|| toml::Table::new().into());
            key
        }
        _ => key,
    };
    if let Some(at) = at.as_table_mut() {
        at.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::RawConfig;
    use std::collections::BTreeMap;
    use std::path::Path;

    fn read(text: &str, variables: &[(&str, &str)]) -> Result<RawConfig, String> {
        let overrides = variables
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ((*value).to_owned(), format!("PAR_{key}"))))
            .collect::<BTreeMap<_, _>>();
        let read = RawConfig::read(Path::new("par.toml"), text.as_bytes(), overrides);
        let (raw, _, faults) = read.map_err(|e| e.to_string())?;
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        if faults.is_empty() { Ok(raw) } else { Err(faults.join("\n")) }
    }

    #[test]
    fn environment_over_file_over_default() {
        let raw = read("[server]\nlisten = \"127.0.0.1:1\"\n", &[("llm.model", "m")]).expect("read");
        assert_eq!((raw.server.listen.as_str(), raw.llm.model.as_deref()), ("127.0.0.1:1", Some("m")));
        assert_eq!(raw.llm.provider, None);
        let raw =
            read("[server]\nlisten = \"127.0.0.1:1\"\n", &[("server.listen", "127.0.0.1:2")]).expect("read");
        assert_eq!(raw.server.listen, "127.0.0.1:2");
    }

    #[test]
    fn a_variable_sets_a_key_of_a_model() {
        let raw = read("[models.Fast]\nwire = \"openai\"\n", &[("models.Fast.model", "m")]).expect("read");
        assert_eq!((raw.models["Fast"].wire.as_str(), raw.models["Fast"].model.as_str()), ("openai", "m"));
    }

    #[test]
    fn errors_name_their_place() {
        let check = |text: &str, variables: &[(&str, &str)], expect: &str| {
            let error = read(text, variables).err().unwrap_or_default();
            assert!(error.contains(expect), "{error:?} does not contain {expect:?}");
        };
        check("[server]\nlisten = 5\n", &[], "par.toml:2: invalid type");
        check("\n[server]\nlisen = \"x\"\n", &[], "par.toml:3: unknown field `lisen`");
        check("[sever]\n", &[], "par.toml:1: unknown field `sever`");
        check("[server\n", &[], "par.toml:1: ");
        check("", &[("server.lisen", "x")], "PAR_server.lisen: unknown field `lisen`");
        check("[models.a]\nwir = \"openai\"\n", &[], "par.toml:2: unknown field `wir`");
        check("[models.a]\ninput_price = -1\n", &[], "par.toml:2: `-1` is not a price");
    }

    /// A stranger wrote two keys wrong and read of one, without the key that was meant.
    #[test]
    fn every_fault_of_the_file_is_found_and_named_with_what_was_meant() {
        let text = "[server]\nlisen = \"x\"\nlog = 5\n[aprovals]\nexpire_s = 5\n[auth.os_users]\nana = { usr = \"a\" }\n";
        let faults = read(text, &[("llm.modle", "m")]).err().unwrap_or_default();
        let lines: Vec<&str> = faults.lines().collect();
        let starts = [
            "par.toml:2: unknown field `lisen`",
            "par.toml:3: invalid type",
            "par.toml:4: unknown field `aprovals`",
            "par.toml:7: unknown field `usr`",
            "PAR_llm.modle: unknown field `modle`",
        ];
        assert_eq!(lines.len(), starts.len(), "{faults}");
        for (line, start) in lines.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
        for meant in ["listen", "approvals", "user", "model"] {
            assert!(faults.contains(&format!("did you mean `{meant}`?")), "{meant}: {faults}");
        }
    }
}
