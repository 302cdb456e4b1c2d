//! Log lines: written to standard error, as text or JSON, one line each.
//!
//! If standard error is the journal, a line carries no time because the journal adds it, and text
//! begins with its priority (sd-daemon(3)).

use crate::config::{LogFormat, is_journal, log_filter};
use crate::secrets::Secrets;
use std::fmt;
use std::io::{self, Write};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, format};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

/// Which lines a process writes.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) enum Verbosity {
    /// A server: what it does, from `info` on.
    Server,
    /// A command for a person: warnings, unless `PAR_LOG` asks for more.
    Command,
}

/// Starts logging, with `secrets` replaced in every line.
pub(in crate::cli) fn start(log: LogFormat, verbosity: Verbosity, secrets: Secrets) {
    let asked = log_filter();
    let lines = match (&asked, verbosity) {
        (Some(asked), _) => asked.as_str(),
        (None, Verbosity::Server) => "warn,par=info",
        (None, Verbosity::Command) => "warn",
    };
    let lines = tracing_subscriber::fmt()
        .with_writer(move || Line(secrets.clone()))
        .with_ansi(false)
        .with_env_filter(EnvFilter::new(lines));
    let started: Result<(), TryInitError> = match (log, is_journal()) {
        (LogFormat::Text, false) => lines.finish().try_init(),
        (LogFormat::Text, true) => lines.event_format(JournalFormat).finish().try_init(),
        (LogFormat::Json, false) => lines.json().flatten_event(true).finish().try_init(),
        (LogFormat::Json, true) => lines.json().flatten_event(true).without_time().finish().try_init(),
    };
    // A second call in one process keeps the first subscriber.
    if started.is_err() {
        tracing::debug!("log lines are written already");
    }
}

/// Writes one line. The subscriber passes each line whole.
struct Line(Secrets);

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(&self.0.clean(line.to_vec()))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Formats priority, target, message and fields.
struct JournalFormat;

impl<S, N> FormatEvent<S, N> for JournalFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        write!(writer, "<{priority}>")?;
        format().without_time().with_level(false).format_event(context, writer, event)
    }
}
