//! Tools that run in the front: they read PAR's own record, or ask what only the front may ask.
//!
//! They take the same walk as every call, and differ from its last step on: the permit's order is
//! used up here, and no launcher is asked. Their results have the layer `front`.
//!
//! # Layout
//!
//! * `answer`: what a tool found
//! * `asker`: for whom a tool runs
//! * `network`: look-ups and connections, through `egress`
//! * `stored`: what of the record may be shown to a model, asked as of now
//! * `recall`, `denied`: an entry or a search; what was denied

mod answer;
mod asker;
mod network;
mod stored;
mod recall;
mod denied;

use answer::FrontAnswer;
pub(super) use asker::FrontAsker;
use stored::OwnRecord;

use crate::call::{Connections, End, Execution};
use crate::gate::Order;
use crate::ledger::{Header, Kind, ReadError};
use crate::tools::FrontTool;
use crate::tools::builtin::{stamped, write_answer};
use crate::types::json::parse_strict;
use crate::types::{clock, limits};
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

/// The first of these entries that hold a result which the caller may not read now. Blocking.
pub(super) fn withheld(asker: &FrontAsker, entries: &[Header]) -> Result<Option<u64>, ReadError> {
    OwnRecord::of(asker).withheld(entries.iter().filter(|header| header.is(Kind::CallResult)))
}

/// The layer on the record of these calls.
pub(super) const LAYER: &str = "front";

/// Runs a permitted call of `which` to its end.
pub(super) async fn run(asker: FrontAsker, which: FrontTool, order: Order) -> Execution {
    let (began, bounds) = (clock::mono_us(), order.manifest().limits);
    let arguments = parse_strict(order.arguments().as_bytes(), limits::JSON_DEPTH_MAX).unwrap_or_default();
    let room = bounds.output_bytes_max;
    let work = async {
        match which {
            FrontTool::DnsLookup => network::look_up(&order).await,
            FrontTool::TcpProbe => network::probe(&order, &arguments).await,
            FrontTool::Recall => recall::recall(asker, arguments.clone(), room).await,
            FrontTool::WhoWasDenied => denied::list(asker, arguments.clone(), room).await,
        }
    };
    let mut execution = match timeout(Duration::from_millis(bounds.wall_ms_max), work).await {
        Ok(found) => execution(found, room),
        Err(_) => Execution::without_output(End::Timeout),
    };
    execution.layers = vec![LAYER.to_owned()];
    execution.wall_us = clock::mono_us().saturating_sub(began);
    execution
}

fn execution(found: FrontAnswer, room: usize) -> Execution {
    let FrontAnswer { answer, repeats, connections, refused } = found;
    let connections = Connections { told: connections, ..Connections::default() };
    if let Some(reason) = refused {
        return Execution { connections, ..Execution::without_output(End::Refused { reason }) };
    }
    let mut stdout = Vec::new();
    let host = rustix::system::uname();
    let answer = answer.map(|answer: Value| stamped(answer, &host.nodename().to_string_lossy()));
    // Nothing fails to be written into memory.
    let code = write_answer(answer, &mut stdout).unwrap_or(1);
    let is_cut = stdout.len() > room;
    stdout.truncate(room);
    let end = if is_cut { End::OutputCap } else { End::Exit { code: code.into() } };
    Execution { stdout, repeats, connections, ..Execution::without_output(end) }
}
