//! Timers: what runs when.

use super::asked::UnitsAsked;
use super::unit::{known, put, said, time, word};
use crate::tools::builtin::answer::{Answer, FRAME_BYTES, Fitting, integer};
use crate::tools::builtin::bus::{BusValue, Systemd};
use serde_json::{Map, Value, json};
use std::io::{Read, Write};

const TIMER: &str = "org.freedesktop.systemd1.Timer";
/// Timers that are listed if the call sets no limit.
const LIMIT_DEFAULT: u64 = 50;
const MICROS_PER_SECOND: u64 = 1_000_000;

/// The timers in memory, with what they start, and when they did and will.
pub(super) fn timer_list<S: Read + Write>(
    systemd: &mut Systemd<S>,
    asked: UnitsAsked<'_>,
    output_bytes_max: usize,
) -> Answer {
    let rows = asked.shown(systemd.units(&[], &["*.timer"]).map_err(said)?);
    let limit = integer(asked.arguments, "limit", LIMIT_DEFAULT);
    let mut list = Fitting::new(limit, output_bytes_max.saturating_sub(FRAME_BYTES));
    // Timers of a unit that is left out.
    let mut hidden = 0;
    for row in &rows {
        let name = row.name.as_str();
        let mut one = Map::from_iter([("name".to_owned(), json!(name))]);
        if !list.is_full() {
            put(systemd, [name, TIMER, "Unit"], "starts", text, &mut one).map_err(said)?;
            if one.get("starts").and_then(Value::as_str).is_some_and(|unit| asked.is_left_out(unit)) {
                hidden += 1;
                continue;
            }
            put(systemd, [name, TIMER, "LastTriggerUSec"], "last_at", time, &mut one).map_err(said)?;
            put(systemd, [name, TIMER, "NextElapseUSecRealtime"], "next_at", time, &mut one).map_err(said)?;
            let from = [name, TIMER, "NextElapseUSecMonotonic"];
            put(systemd, from, "next_s_after_start", seconds, &mut one).map_err(said)?;
            put(systemd, [name, TIMER, "Result"], "last_result", word, &mut one).map_err(said)?;
        }
        list.push(Value::Object(one));
    }
    let (timers, truncated) = list.finish();
    Ok(json!({ "timers": timers, "timers_seen": rows.len() - hidden, "truncated": truncated }))
}

fn text(value: &BusValue) -> Option<Value> {
    value.text().map(|text| json!(text))
}

/// Whole seconds; nothing if the timer does not count from the start of the host.
fn seconds(value: &BusValue) -> Option<Value> {
    let micros = known(value)?.as_u64().filter(|micros| *micros > 0)?;
    Some(json!(micros / MICROS_PER_SECOND))
}
