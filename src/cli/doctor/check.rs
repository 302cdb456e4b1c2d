//! The result of a check, one line each.

use crate::cli::show;
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

/// Formats a check on one line, its level in colour.
pub(super) fn line(check: &Check) -> String {
    let (color, word) = match check.level {
        Severity::Ok => ("32", "ok"),
        Severity::Warn => ("33", "warn"),
        Severity::Fail => ("31", "fail"),
    };
    let word = show::paint(color, &format!("{word:<4}"));
    format!("{word}  {:<14}  {}", check.what, text::visible_line(&check.found))
}
