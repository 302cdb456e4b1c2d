//! `par policy check`.

use super::notes::{Missing, absent_paths, unknown_people};
use crate::cli::exit::{self, Fail};
use crate::cli::table::{Cell, Column, Screen, Sheet, Tone, words};
use crate::cli::{compose, show};
use crate::config::Config;
use crate::policy::{GivenLabel, Labels, PolicyError};
use crate::types::text;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::ErrorKind;

pub(super) fn check(config: &Config, is_json: bool) -> Result<u8, Fail> {
    let rules = compose::load_rules(config)?;
    let digest = rules.bundle.digest();
    let empty = rules.bundle.empty_groups();
    let (unasked, elsewhere) = (rules.bundle.unasked_labels(), elsewhere(rules.bundle.labels()));
    let (absent, constants) = (absent_paths(&rules.bundle), rules.bundle.constants(&rules.catalog));
    let (users, keys) = unknown_people(config, &rules.bundle);
    let in_shadow: BTreeSet<&str> = rules.bundle.in_shadow().collect();
    let policies: Vec<(String, String)> =
        rules.bundle.policies().map(|(id, origin)| (id.to_owned(), origin)).collect();
    if is_json {
        let listed: Vec<Value> =
            policies.iter().map(|(id, origin)| json!({ "id": id, "origin": origin })).collect();
        let label = |one: &GivenLabel| json!({ "label": one.name, "origin": one.origin });
        let path =
            |(one, why): &(GivenLabel, String)| json!({ "path": one.name, "origin": one.origin, "why": why });
        let missing = |all: &[Missing]| -> Vec<Value> {
            let one =
                |one: &Missing| json!({ "id": one.named.id, "origin": one.origin(), "meant": one.meant });
            all.iter().map(one).collect()
        };
        let constant = |one: &PolicyError| json!({ "file": one.file, "line": one.line, "why": one.reason });
        show::json(&json!({
            "ok": true,
            "digest": digest.hex(),
            "policies": listed,
            "in_shadow": in_shadow,
            "empty_groups": empty,
            "unasked_labels": unasked.iter().map(label).collect::<Vec<_>>(),
            "always_true": constants.iter().map(constant).collect::<Vec<_>>(),
            "absent_paths": missing(&absent),
            "unknown_users": missing(&users),
            "unknown_keys": missing(&keys),
            "labelled_elsewhere": elsewhere.iter().map(path).collect::<Vec<_>>(),
        }))?;
    } else {
        let columns =
            [Column::Whole("ok"), Column::Whole("id"), Column::Cut("origin"), Column::Words("mode")];
        let mut table = Sheet::bare(&columns);
        for (id, origin) in &policies {
            let mode = if in_shadow.contains(id.as_str()) { "in shadow mode: only reported" } else { "" };
            let ok = Cell::from("ok").toned(Tone::Good);
            table.push(vec![ok, id.clone().into(), origin.clone().into(), mode.into()]);
        }
        let screen = Screen::stdout();
        table.print(&screen)?;
        if rules.bundle.is_bare() {
            words(
                &screen,
                "note  no policy permits a power of the API: only administrators may read, and no caller may \
                 start a run; see the shipped policies/00-api.cedar",
            )?;
        }
        for (group, id) in &empty {
            words(&screen, &format!("note  `{id}`: the group `{group}` is empty (`[groups]` in par.toml)"))?;
        }
        for GivenLabel { name, origin } in &unasked {
            words(&screen, &format!("note  {origin}: no policy uses the label `{name}`"))?;
        }
        for (GivenLabel { name, origin }, why) in &elsewhere {
            words(&screen, &format!("note  {origin}: `{name}` {why}"))?;
        }
        for PolicyError { file, line, reason, .. } in &constants {
            words(&screen, &format!("note  {file}:{}: {reason}", line.unwrap_or(1)))?;
        }
        let people = "is the user of no key, group or account of this host";
        let kinds = [(&absent, "does not exist"), (&users, people), (&keys, "is the id of no key")];
        for (all, what) in kinds {
            for one in all {
                words(&screen, &format!("note  {}: {}", one.origin(), one.words(what)))?;
            }
        }
        let digest = digest.hex();
        let shown = match screen.columns.is_some_and(|columns| columns < 100) {
            true => format!("{}…", text::prefix(&digest, 12)),
            false => digest,
        };
        words(&screen, &format!("{} policies, bundle {shown}", policies.len()))?;
    }
    Ok(exit::OK)
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
