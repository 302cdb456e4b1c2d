//! Runs one report.

use super::folders::SystemView;
use super::{cron_list, journal_size, logins, pending_updates};
use crate::tools::builtin::answer::{Answer, stamped};
use crate::tools::manifest::words::Builtin;
use serde_json::Value;

/// The report of the tool `which`, with its time, the host's name and what was not seen. It fits
/// `output_bytes_max`.
pub fn report_of_files(
    which: Builtin,
    view: &SystemView<'_>,
    arguments: &Value,
    output_bytes_max: usize,
) -> Answer {
    let answer = match which {
        Builtin::CronList => cron_list::cron_list(view, arguments, output_bytes_max),
        Builtin::JournalSize => journal_size::journal_size(view),
        Builtin::Logins => logins::logins(view, arguments, output_bytes_max),
        Builtin::PendingUpdates => pending_updates::pending_updates(view, arguments, output_bytes_max),
        _ => Err("this tool does not report from files".to_owned()),
    };
    let mut answer = stamped(answer?, &view.host.hostname);
    if let Some(members) = answer.as_object_mut() {
        members.insert("not_seen".to_owned(), view.not_seen());
    }
    Ok(answer)
}
