//! The units that systemd has in memory.

use super::asked::UnitsAsked;
use super::unit::{listed, said};
use crate::tools::builtin::answer::{Answer, FRAME_BYTES, Fitting, integer};
use crate::tools::builtin::bus::Systemd;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// Units that are listed if the call sets no limit.
const LIMIT_DEFAULT: u64 = 100;

/// Units of one type, by state and part of the name, and how many there are in each state.
pub(super) fn service_list<S: Read + Write>(
    systemd: &mut Systemd<S>,
    asked: UnitsAsked<'_>,
    output_bytes_max: usize,
) -> Answer {
    let text = |name: &str| asked.arguments.get(name).and_then(Value::as_str);
    let pattern = format!("*.{}", text("type").unwrap_or("service"));
    let rows = asked.shown(systemd.units(&[], &[&pattern]).map_err(said)?);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let limit = integer(asked.arguments, "limit", LIMIT_DEFAULT);
    let mut list = Fitting::new(limit, output_bytes_max.saturating_sub(FRAME_BYTES));
    let contains = text("contains").unwrap_or_default();
    for row in rows.iter().filter(|row| row.name.contains(contains)) {
        let one = listed(row);
        let active = one.get("active").and_then(Value::as_str).unwrap_or_default().to_owned();
        if text("state").is_none_or(|wanted| wanted == active) {
            list.push(Value::Object(one));
        }
        *counts.entry(active).or_default() += 1;
    }
    let counts: Map<String, Value> = counts.into_iter().map(|(state, count)| (state, json!(count))).collect();
    let (units, truncated) = list.finish();
    Ok(json!({ "units": units, "count_by_state": counts, "truncated": truncated }))
}
