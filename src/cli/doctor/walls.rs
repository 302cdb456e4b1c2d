//! Checks of the protections around tools on this machine, and of mounts that running tools do not
//! see.

use super::check::Checks;
use super::ledger::newest;
use crate::cli::{compose, remote};
use crate::config::Config;
use crate::launcher::{Mounted, Report, Spec, ToolDigest, newly_mounted};
use crate::ledger::Reader;
use crate::sandbox;
use crate::types::Level;
use serde_json::Value;

/// Starts a launcher like any command here, and reports what it found.
/// `is_known` says whether another check shows this fault.
pub(super) fn examine(config: &Config, is_known: &dyn Fn(&str) -> bool, checks: &mut Checks) {
    let seed = match sandbox::start(&Spec::from_config(config)) {
        Ok(seed) => seed,
        Err(e) if is_known(&e.to_string()) => {
            return checks.warn("protections", "not tested: the configuration has to be mended first");
        }
        Err(e) => return checks.fail("protections", e.to_string()),
    };
    let report = seed.report();
    checks.ok("protections", report.layers.join(", "));
    let level = report.level.map_or("below `standard`", Level::as_str);
    let by = report.protections.iter().map(|(name, layers)| format!("{name}: {}", layers.join(", ")));
    let by = by.collect::<Vec<_>>().join("; ");
    checks.ok("level", format!("{level}, {} required; {by}", minimum(config)));
    for lacking in &report.lacking {
        checks.warn("level", lacking.clone());
    }
    for missing in &report.missing {
        checks.warn("protections", format!("missing: {missing}"));
    }
    for missing in &report.groups_missing {
        checks.warn("cgroups", format!("missing: {missing}"));
    }
    for refused in &report.refused {
        checks.warn("tool", format!("{} is refused: {}", refused.tool, refused.reason));
    }
    for skipped in &report.skipped {
        checks.warn("tool", format!("{}: `{}` does not exist", skipped.tool, skipped.path.display()));
    }
    for path in since(config, report).unwrap_or_default() {
        checks.warn(
            "mounts",
            format!("{path} was mounted after the start: tools cannot see it until `par reload`"),
        );
    }
}

fn minimum(config: &Config) -> String {
    config.sandbox_minimum.map_or("no level", Level::as_str).to_owned()
}

/// Current mounts that the launchers of the running server do not have, if the same tools are
/// loaded there.
fn since(config: &Config, now: &Report) -> Option<Vec<String>> {
    let files = compose::files(config);
    remote::url(&files)?;
    let seq = newest(config, "kind:tools.load")?.u64("seq")?;
    let body = Reader::open(&files.ledger()).ok()?.entry(seq).ok()??.body?;
    let loaded: Value = serde_json::from_slice(&body).ok()?;
    let digest = |tool: &ToolDigest| (tool.tool.clone(), tool.sha256.clone());
    let tools = loaded.get("tools")?.as_array()?.iter().map(|tool| {
        let word = |name: &str| tool.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        (word("name"), word("digest"))
    });
    if !tools.eq(now.tools.iter().map(digest)) {
        return None;
    }
    let then: Vec<Mounted> = serde_json::from_value(loaded.get("mounted")?.clone()).ok()?;
    Some(newly_mounted(&then, &now.mounted))
}
