//! Checks of the ledger, and of rules, clock and anchors against it.

use super::check::Checks;
use crate::cli::{compose, remote};
use crate::config::Config;
use crate::gate::Rules;
use crate::ledger::{self, Filter, Header, Order, Reader, Standing};
use crate::types::clock::Wall;

/// A clock that is further than this before the newest entry has been set back, in microseconds.
const CLOCK_BEHIND_US_MAX: u64 = 60_000_000;

/// 1 January 2025, earlier than any build of this program, in microseconds.
const CLOCK_US_MIN: u64 = 1_735_689_600_000_000;

/// Number of entries searched for the newest one of a kind.
const SCAN_MAX: usize = 1 << 20;

/// Whether the running server decides by the rules on disk.
pub(super) fn in_force(config: &Config, rules: &Rules, checks: &mut Checks) {
    if remote::url(&compose::files(config)).is_none() {
        return;
    }
    let loaded =
        newest(config, "kind:policy.load").and_then(|header| header.str("policy").map(str::to_owned));
    if loaded.is_some_and(|loaded| loaded != rules.bundle.digest().hex()) {
        checks.warn("configuration", "changed on disk but not loaded: run `par reload`");
    }
}

/// Compares the clock with the newest entry: time does not run backwards on the ledger.
pub(super) fn clock(config: &Config, checks: &mut Checks) {
    let now = Wall::now();
    if now.0 < CLOCK_US_MIN {
        return checks.fail("clock", format!("the clock says {}, which is before 2025", now.rfc3339()));
    }
    match newest(config, "").and_then(|header| header.u64("wall_us")).map(Wall) {
        Some(newest) if now.0.saturating_add(CLOCK_BEHIND_US_MAX) < newest.0 => {
            let (now, newest) = (now.rfc3339(), newest.rfc3339());
            checks.fail("clock", format!("the clock says {now}, but the newest entry is from {newest}"));
        }
        _ => checks.ok("clock", now.rfc3339()),
    }
}

/// Returns the newest entry that matches.
pub(super) fn newest(config: &Config, query: &str) -> Option<Header> {
    let path = compose::files(config).ledger();
    let reader = path.exists().then(|| Reader::open(&path).ok())??;
    let filter = Filter::parse(query).ok()?;
    let (headers, _) = reader.headers(&filter, u64::MAX >> 1, Order::Descending, 1, SCAN_MAX).ok()?;
    headers.into_iter().next()
}

/// Whether an outside party has seen the ledger in its current state.
pub(super) fn anchors(config: &Config, checks: &mut Checks) {
    let place = &config.anchoring.place;
    let files = compose::files(config);
    if matches!(place.as_str(), "" | "none") {
        return checks.warn("anchor", "`ledger.anchor` is not set: no checkpoint is kept outside this host");
    }
    let Some(standing) = Standing::read(&files).filter(|standing| standing.place == *place) else {
        return checks.ok("anchor", format!("{place}: no checkpoint published yet"));
    };
    let size = Reader::open(&files.ledger()).ok().and_then(|reader| reader.size().ok()).unwrap_or(0);
    let age_us = if standing.at_us == 0 { 0 } else { Wall::now().0.saturating_sub(standing.at_us) };
    // If no server runs, no anchors are made and their age does not matter.
    let age_us_max = match remote::url(&files) {
        Some(_) => config.anchoring.age_ms_max.saturating_mul(1_000),
        None => u64::MAX,
    };
    match ledger::anchor_warning(&standing, size, age_us, age_us_max) {
        Some(what) if standing.is_conflict => checks.fail("anchor", what),
        Some(what) => checks.warn("anchor", what),
        None if standing.error.is_some() => {
            checks.warn("anchor", format!("{place}: {}", standing.error.unwrap_or_default()));
        }
        None => checks.ok("anchor", format!("{place}: {} of {size} entries", standing.size)),
    }
}

/// Verifies the ledger; with `is_quick`, only counts its entries.
pub(super) fn verified(config: &Config, is_quick: bool, checks: &mut Checks) {
    let files = compose::files(config);
    if !files.ledger().exists() {
        return checks.ok("ledger", "no entries yet");
    }
    if is_quick {
        return match Reader::open(&files.ledger())
            .map_err(|e| e.to_string())
            .and_then(|reader| reader.size().map_err(|e| e.to_string()))
        {
            Ok(size) => checks.ok("ledger", format!("{size} entries, not verified")),
            Err(e) => checks.fail("ledger", e),
        };
    }
    let report = ledger::audit(&files, &compose::PROJECTIONS, &[]);
    for warning in &report.warnings {
        checks.warn("ledger", warning.clone());
    }
    match report.findings.first() {
        None if report.verdict.holds() => {
            checks.ok("ledger", format!("{} entries verified", report.entries));
        }
        found => {
            let at = found
                .and_then(|finding| finding.seq)
                .map_or_else(String::new, |seq| format!("entry {seq}: "));
            let what = format!("{at}{}", found.map_or("not verified", |finding| finding.what.as_str()));
            let show = found.and_then(|finding| finding.seq);
            let show = show.map_or_else(String::new, |seq| {
                compose::pass_on(&config.home.data, seq);
                format!("`par audit show {seq}` shows what is stored; ")
            });
            checks.fail("ledger", format!("{what}: {show}{}", ledger::WAY_OUT));
        }
    }
}
