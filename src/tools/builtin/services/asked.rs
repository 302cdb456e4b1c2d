//! A question to a list of units, with the units that rules exclude.

use crate::tools::builtin::bus::UnitRow;
use serde_json::Value;

/// What a tool is asked, and what it must leave out.
#[derive(Clone, Copy, Debug)]
pub struct UnitsAsked<'a> {
    /// The arguments of the call.
    pub arguments: &'a Value,
    /// The names of the units that rules exclude from a list.
    pub left_out: &'a [&'a str],
}

impl UnitsAsked<'_> {
    /// The rows of units that may be shown, sorted by name.
    pub(super) fn shown(&self, rows: Vec<UnitRow>) -> Vec<UnitRow> {
        let mut rows: Vec<UnitRow> = rows.into_iter().filter(|row| !self.is_left_out(&row.name)).collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows
    }

    pub(super) fn is_left_out(&self, name: &str) -> bool {
        self.left_out.contains(&name)
    }
}
