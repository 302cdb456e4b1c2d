//! Restarting a service.

use super::unit::{check_name, interface, said, state};
use crate::tools::builtin::bus::{BusValue, Systemd};
use serde_json::{Value, json};
use std::io::{Read, Write};

/// How systemd calls the end of a job that did what it was for.
const DONE: &str = "done";

/// Restarts the unit `name` and waits until the job ends. Also says whether it ended well.
pub(super) fn service_restart<S: Read + Write>(
    systemd: &mut Systemd<S>,
    name: &str,
) -> Result<(Value, bool), String> {
    interface(name)?;
    check_name(systemd, name)?;
    let how = systemd.restart(name).map_err(said)?;
    let result = state(&BusValue::Text(how)).to_owned();
    let is_done = result == DONE;
    Ok((json!({ "service": name, "result": result }), is_done))
}
