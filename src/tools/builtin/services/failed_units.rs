//! The units that failed.

use super::asked::UnitsAsked;
use super::unit::{UNIT, interface, known, listed, put, said, time, word};
use crate::tools::builtin::answer::{Answer, FRAME_BYTES, Fitting, integer};
use crate::tools::builtin::bus::{BusClient, BusError, Systemd};
use serde_json::{Value, json};
use std::io::{Read, Write};

/// Units that are listed if the call sets no limit.
const LIMIT_DEFAULT: u64 = 20;

/// Units in the state `failed`, each with why and since when.
pub(super) fn failed_units<S: Read + Write>(
    systemd: &mut Systemd<S>,
    asked: UnitsAsked<'_>,
    output_bytes_max: usize,
) -> Answer {
    let rows = asked.shown(systemd.units(&["failed"], &[]).map_err(said)?);
    let limit = integer(asked.arguments, "limit", LIMIT_DEFAULT);
    let mut list = Fitting::new(limit, output_bytes_max.saturating_sub(FRAME_BYTES));
    for row in &rows {
        let mut one = listed(row);
        // After the last one that fits, the next only says that there are more.
        if !list.is_full() {
            let name = row.name.as_str();
            put(systemd, [name, UNIT, "StateChangeTimestamp"], "since", time, &mut one).map_err(said)?;
            if let Ok(own) = interface(name).map_err(drop)
                && own != UNIT
            {
                put(systemd, [name, own, "Result"], "last_result", word, &mut one).map_err(said)?;
            }
            if name.ends_with(".service") {
                let own = interface(name)?;
                put(systemd, [name, own, "ExecMainStatus"], "exit_status", known, &mut one).map_err(said)?;
                put(systemd, [name, own, "NRestarts"], "restarts", known, &mut one).map_err(said)?;
            }
        }
        list.push(Value::Object(one));
    }
    let (units, truncated) = list.finish();
    Ok(json!({ "units": units, "failed": rows.len(), "truncated": truncated }))
}

/// How many units failed.
pub fn count_failed(stream: impl Read + Write) -> Result<usize, BusError> {
    Ok(Systemd::new(BusClient::open(stream)?).units(&["failed"], &[])?.len())
}
