//! `par policy check`.

use super::notes::{Missing, absent_paths, unknown_people};
use crate::cli::exit::{self, Fail};
use crate::cli::table::{Cell, Column, Screen, Sheet, Tone, words};
use crate::cli::{compose, show};
use crate::config::Config;
use crate::gate::Rules;
use crate::policy::{GivenLabel, Labels, PolicyError};
use crate::types::text;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

pub(super) fn check(config: &Config, is_json: bool) -> Result<u8, Fail> {
    let rules = compose::load_rules(config)?;
    let digest = rules.bundle.digest().hex();
    let notes = RuleNotes::of(config, &rules);
    let in_shadow: BTreeSet<&str> = rules.bundle.in_shadow().collect();
    let policies: Vec<(String, String)> =
        rules.bundle.policies().map(|(id, origin)| (id.to_owned(), origin)).collect();
    if is_json {
        let listed: Vec<Value> =
            policies.iter().map(|(id, origin)| json!({ "id": id, "origin": origin })).collect();
        let mut whole = json!({ "ok": true, "digest": digest, "policies": listed, "in_shadow": in_shadow });
        if let (Some(whole), Value::Object(notes)) = (whole.as_object_mut(), notes.json()) {
            whole.extend(notes);
        }
        show::json(&whole)?;
        return Ok(exit::OK);
    }
    let columns = [Column::Whole("ok"), Column::Whole("id"), Column::Cut("origin"), Column::Words("mode")];
    let mut table = Sheet::bare(&columns);
    for (id, origin) in &policies {
        let mode = if in_shadow.contains(id.as_str()) { "in shadow mode: only reported" } else { "" };
        let ok = Cell::from("ok").toned(Tone::Good);
        table.push(vec![ok, id.clone().into(), origin.clone().into(), mode.into()]);
    }
    let screen = Screen::stdout();
    table.print(&screen)?;
    for note in notes.lines() {
        words(&screen, &format!("note  {note}"))?;
    }
    let shown = match screen.columns.is_some_and(|columns| columns < 100) {
        true => format!("{}…", text::prefix(&digest, 12)),
        false => digest,
    };
    words(&screen, &format!("{} policies, bundle {shown}", policies.len()))?;
    Ok(exit::OK)
}

/// What a person should know about rules that load.
struct RuleNotes {
    is_bare: bool,
    /// Groups without members, each with the rule that names it.
    empty: BTreeMap<String, String>,
    unasked: Vec<GivenLabel>,
    elsewhere: Vec<(GivenLabel, String)>,
    constants: Vec<PolicyError>,
    absent: Vec<Missing>,
    users: Vec<Missing>,
    keys: Vec<Missing>,
}

impl RuleNotes {
    fn of(config: &Config, rules: &Rules) -> Self {
        let (users, keys) = unknown_people(config, &rules.bundle);
        Self {
            is_bare: rules.bundle.is_bare(),
            empty: rules.bundle.empty_groups(),
            unasked: rules.bundle.unasked_labels(),
            elsewhere: elsewhere(rules.bundle.labels()),
            constants: rules.bundle.constants(&rules.catalog),
            absent: absent_paths(&rules.bundle),
            users,
            keys,
        }
    }

    fn json(&self) -> Value {
        let label = |one: &GivenLabel| json!({ "label": one.name, "origin": one.origin });
        let path =
            |(one, why): &(GivenLabel, String)| json!({ "path": one.name, "origin": one.origin, "why": why });
        let constant = |one: &PolicyError| json!({ "file": one.file, "line": one.line, "why": one.reason });
        let missing = |all: &[Missing]| -> Vec<Value> {
            let one =
                |one: &Missing| json!({ "id": one.named.id, "origin": one.origin(), "meant": one.meant });
            all.iter().map(one).collect()
        };
        json!({
            "empty_groups": self.empty,
            "unasked_labels": self.unasked.iter().map(label).collect::<Vec<_>>(),
            "always_true": self.constants.iter().map(constant).collect::<Vec<_>>(),
            "absent_paths": missing(&self.absent),
            "unknown_users": missing(&self.users),
            "unknown_keys": missing(&self.keys),
            "labelled_elsewhere": self.elsewhere.iter().map(path).collect::<Vec<_>>(),
        })
    }

    fn lines(&self) -> Vec<String> {
        let bare = "no policy permits a power of the API: only administrators may read, and no caller may \
                    start a run; see the shipped policies/00-api.cedar";
        let empty = |(group, id): (&String, &String)| {
            format!("`{id}`: the group `{group}` is empty (`[groups]` in par.toml)")
        };
        let unasked = |one: &GivenLabel| format!("{}: no policy uses the label `{}`", one.origin, one.name);
        let elsewhere = |(one, why): &(GivenLabel, String)| format!("{}: `{}` {why}", one.origin, one.name);
        let constant = |one: &PolicyError| format!("{}:{}: {}", one.file, one.line.unwrap_or(1), one.reason);
        let people = "is the user of no key, group or account of this host";
        let missing =
            [(&self.absent, "does not exist"), (&self.users, people), (&self.keys, "is the id of no key")];
        let missing = missing.into_iter().flat_map(|(all, what)| all.iter().map(move |one| (one, what)));
        let bare = self.is_bare.then(|| bare.to_owned()).into_iter();
        bare.chain(self.empty.iter().map(empty))
            .chain(self.unasked.iter().map(unasked))
            .chain(self.elsewhere.iter().map(elsewhere))
            .chain(self.constants.iter().map(constant))
            .chain(missing.map(|(one, what)| format!("{}: {}", one.origin(), one.words(what))))
            .collect()
    }
}

/// Labelled paths that do not exist, or that resolve to another path. Their labels still apply to
/// whatever is there when a call is decided.
fn elsewhere(labels: &Labels) -> Vec<(GivenLabel, String)> {
    let look = |given: GivenLabel| {
        let why = match std::fs::canonicalize(&given.name) {
            Ok(real) if real.as_os_str() == given.name.as_str() => return None,
            Ok(real) => format!("resolves to `{}`, which has the label too", real.display()),
            Err(e) if e.kind() == ErrorKind::NotFound => "does not exist".to_owned(),
            Err(e) => format!("cannot be read: {e}"),
        };
        Some((given, why))
    };
    labels.paths().filter_map(look).collect()
}
