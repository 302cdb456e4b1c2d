//! `par policy diff`.

use crate::cli::exit::{self, Fail};
use crate::cli::{compose, show};
use crate::config::{Config, Home};
use crate::gate::Rules;
use crate::ledger::payload::{NameChanges, RulesDifference};
use crate::policy::{CaseChanges, Flip, Folders, Side, SideRuling, flips};
use crate::rules;
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(in crate::cli) struct Diff {
    /// Folder of the old rules, laid out like etc/
    old: PathBuf,
    /// Folder of the new rules, laid out like etc/ [default: the home's own]
    new: Option<PathBuf>,
}

impl Diff {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let old = load(config, &self.old)?;
        let new = load(config, self.new.as_deref().unwrap_or(&config.home.etc))?;
        let (flips, asked) = flips(side(&old), side(&new));
        let difference = old.0.difference(&new.0);
        let cases = old.0.bundle.suite().changes(new.0.bundle.suite());
        let is_same = is_none(&difference) && cases.is_empty() && flips.is_empty();
        if is_json {
            let mut shown = json!(difference);
            if let Some(members) = shown.as_object_mut() {
                members.insert("same".to_owned(), json!(is_same));
                members.insert("asked".to_owned(), json!(asked));
                let CaseChanges { added, removed, changed } = &cases;
                let cases = json!({ "added": added, "removed": removed, "changed": changed });
                members.insert("cases".to_owned(), cases);
                members.insert("flips".to_owned(), flips.iter().map(flip_json).collect());
            }
            show::json(&shown)?;
        } else {
            print(&difference, &old.0, &new.0)?;
            for (sign, names) in [('-', &cases.removed), ('+', &cases.added), ('~', &cases.changed)] {
                names.iter().try_for_each(|name| show::line(&format!("{sign} case   {name}")))?;
            }
            flips.iter().try_for_each(|flip| show::line(&flip_line(flip)))?;
            show::line(&format!("{} of {asked} decisions flip", flips.len()))?;
        }
        Ok(if is_same { exit::OK } else { exit::FAILED })
    }
}

/// Loads the rules of a folder, without running their cases: `diff` shows what no longer holds.
fn load(config: &Config, etc: &Path) -> Result<(Rules, Folders), Fail> {
    let etc = std::path::absolute(etc).map_err(Fail::usage)?;
    let home = |etc: PathBuf| Home { etc, ..config.home.clone() };
    // A folder without its own configuration uses the paths and groups of the home.
    let own = etc.join("par.toml").exists();
    let loaded = Config::load(home(if own { etc.clone() } else { config.home.etc.clone() }));
    let config = Config { home: home(etc), ..loaded.map_err(Fail::usage)? };
    Ok((compose::load_unproven(&config)?, rules::folders(&config)))
}

fn side((rules, folders): &(Rules, Folders)) -> Side<'_> {
    Side { bundle: &rules.bundle, catalog: &rules.catalog, folders }
}

/// Whether policies, tools, groups and labels are unchanged.
fn is_none(difference: &RulesDifference) -> bool {
    *difference == RulesDifference::default()
}

fn print(difference: &RulesDifference, old: &Rules, new: &Rules) -> Result<(), Fail> {
    for (what, has_origin, changes) in
        [("policy", true, &difference.policies), ("tool", false, &difference.tools)]
    {
        let NameChanges { added, removed, changed } = changes;
        for (names, sign, rules) in [(removed, '-', old), (added, '+', new), (changed, '~', new)] {
            for name in names {
                let origin = rules.bundle.origin(name).filter(|_| has_origin).unwrap_or_default();
                show::line(format!("{sign} {what:<6} {name:<22} {origin}").trim_end())?;
            }
        }
    }
    let others = [("groups", difference.groups), ("labels", difference.labels)];
    let others = others.into_iter().filter(|(_, is_other)| *is_other);
    others.map(|(what, _)| format!("~ {what}")).try_for_each(|line| show::line(&line))
}

fn flip_line(Flip { asked, old, new }: &Flip) -> String {
    let by = |side: &SideRuling| match side {
        SideRuling::NoCall => side.as_str().to_owned(),
        SideRuling::Ruled { answer, policies } if policies.is_empty() => format!("{answer} by default"),
        SideRuling::Ruled { answer, policies } => format!("{answer} by {}", policies.join(", ")),
    };
    format!("{asked}: {} → {}", by(old), by(new))
}

fn flip_json(Flip { asked, old, new }: &Flip) -> Value {
    let side = |side: &SideRuling| json!({ "answer": side.as_str(), "policies": side.policies() });
    json!({ "asked": asked, "old": side(old), "new": side(new) })
}
