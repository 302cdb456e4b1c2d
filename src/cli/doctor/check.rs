//! The result of a check, one line each.

use crate::cli::table::{Cell, Column, Sheet, Tone};
use crate::types::text;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    Ok,
    Warn,
    Fail,
}

/// A check with its result, on one line.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) level: Severity,
    pub(super) what: &'static str,
    pub(super) found: String,
}

/// All checks, in the order in which they are shown.
#[derive(Debug, Default)]
pub(super) struct Checks(pub(super) Vec<Check>);

impl Checks {
    pub(super) fn ok(&mut self, what: &'static str, found: impl Into<String>) {
        self.0.push(Check { level: Severity::Ok, what, found: found.into() });
    }

    pub(super) fn warn(&mut self, what: &'static str, found: impl Into<String>) {
        self.0.push(Check { level: Severity::Warn, what, found: found.into() });
    }

    pub(super) fn fail(&mut self, what: &'static str, found: impl Into<String>) {
        self.0.push(Check { level: Severity::Fail, what, found: found.into() });
    }
}

/// Adds each of `wrong` as a failure, or `fine` if `wrong` is empty.
pub(super) fn report(checks: &mut Checks, what: &'static str, wrong: Vec<String>, fine: String) {
    if wrong.is_empty() {
        return checks.ok(what, fine);
    }
    wrong.into_iter().for_each(|one| checks.fail(what, one));
}

/// The checks as a table, the level of each in its colour.
pub(super) fn table(checks: &[Check]) -> Sheet {
    let mut table = Sheet::bare(&[Column::Whole("level"), Column::Whole("check"), Column::Words("found")]);
    for check in checks {
        let (tone, word) = match check.level {
            Severity::Ok => (Tone::Good, "ok"),
            Severity::Warn => (Tone::Warn, "warn"),
            Severity::Fail => (Tone::Bad, "fail"),
        };
        let found = text::visible(&check.found);
        table.push(vec![Cell::from(word).toned(tone), check.what.into(), found.into()]);
    }
    table
}
