//! `par policy test`.

use crate::cli::exit::{self, Fail};
use crate::cli::{compose, show};
use crate::config::Config;
use crate::policy::{CaseFailure, Change, MutationScore, Survivor};
use crate::rules;
use serde_json::{Value, json};

/// Runs the bundle's own tests, then runs them on mutated policies. A mutant that no case notices
/// survives.
pub(super) fn test(config: &Config, is_json: bool) -> Result<u8, Fail> {
    let rules = compose::load_unproven(config)?;
    let folders = rules::folders(config);
    let count = rules.bundle.suite().len();
    let failures = rules.bundle.prove(&rules.catalog, &folders);
    let score = failures.is_empty().then(|| rules.bundle.score(&rules.catalog, &folders));
    let is_ok = score.as_ref().is_some_and(|score| !score.survivors.iter().any(is_drop));
    if is_json {
        show::json(&json!({
            "ok": is_ok,
            "cases": count,
            "failed": failures.iter().map(failure_json).collect::<Vec<_>>(),
            "mutants": score.as_ref().map(score_json),
        }))?;
    } else {
        failures.iter().try_for_each(|failure| show::line(&failure.to_string()))?;
        show::line(&format!("{} of {count} cases pass", count - failures.len()))?;
        if let Some(score) = &score {
            print_score(score)?;
        }
    }
    Ok(if is_ok { exit::OK } else { exit::FAILED })
}

fn print_score(score: &MutationScore) -> Result<(), Fail> {
    score.survivors.iter().try_for_each(|survivor| show::line(&survivor.to_string()))?;
    let noticed = score.made - score.survivors.len();
    let (made, percent) = (score.made, score.percent());
    show::line(&format!(
        "{noticed} of {made} policy changes are noticed by a case: mutation score {percent} %"
    ))
}

/// Every policy has a name, so a policy that can be dropped unnoticed fails the test.
fn is_drop(survivor: &Survivor) -> bool {
    survivor.change == Change::Drop
}

fn failure_json(failure: &CaseFailure) -> Value {
    let CaseFailure { place, name, asked, expected, got, why } = failure;
    json!({ "file": place.file, "line": place.line, "name": name, "asked": asked,
            "expected": expected, "got": got, "why": why })
}

fn score_json(score: &MutationScore) -> Value {
    let survivors = score.survivors.iter().map(|survivor| {
        let (change, without) = match &survivor.change {
            Change::Drop => ("drop", None),
            Change::Flip => ("flip", None),
            Change::Without(words) => ("without", Some(words)),
        };
        json!({ "policy": survivor.policy, "at": survivor.at, "change": change, "without": without })
    });
    json!({ "made": score.made, "noticed": score.made - score.survivors.len(), "percent": score.percent(),
            "survivors": survivors.collect::<Vec<_>>() })
}
