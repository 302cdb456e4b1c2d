//! `GET /metrics`: counters since the start, as OpenMetrics text.
//!
//! The ledger's writer counts runs and calls when they become durable. Requests are counted here.
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>)

use crate::http::answered::{Answered, BUCKETS_MS};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::problem::Problem;
use crate::ledger::ChainState;
use crate::policy::Power;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use std::fmt::Write as _;
use std::time::Duration;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Returns the counters, for a caller with a key.
pub(in crate::http) async fn show(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    caller.holding(Power::HealthRead)?;
    Ok(([(CONTENT_TYPE, OPENMETRICS)], render(&app)).into_response())
}

fn render(app: &App) -> String {
    let mut text = Text::default();
    let ledger = app.agent.ledger();
    let tally = ledger.tally();
    text.head("par_runs", "counter", "Runs that returned a reply.");
    for (status, count) in &tally.runs {
        text.sample("par_runs_total", &[("status", status)], count);
    }
    text.head("par_calls", "counter", "Tool calls that were refused, are waiting or have ended.");
    for (call, count) in &tally.calls {
        let labels = [("tool", call.tool.as_str()), ("decision", &call.decision), ("status", &call.status)];
        text.sample("par_calls_total", &labels, count);
    }
    text.head("par_refusals", "counter", "Refused calls, by what refused them.");
    for (class, count) in &tally.refusals {
        text.sample("par_refusals_total", &[("class", class.as_str())], count);
    }
    text.head("par_model_asks", "counter", "Requests to models that the rules decided.");
    for ((model, decision), count) in &tally.asks {
        text.sample("par_model_asks_total", &[("model", model), ("decision", decision)], count);
    }
    text.head("par_halts", "gauge", "Halts in force.");
    let halts = app.agent.gate().stops().iter().filter(|stop| stop.is_halt()).count();
    text.sample("par_halts", &[], halts);
    text.head("par_ledger_entries", "gauge", "Entries in the ledger.");
    text.sample("par_ledger_entries", &[], ledger.head().size);
    text.head("par_ledger_obstacle", "gauge", "1 while the entries of runs cannot be written.");
    let is_stopped = ledger.obstacle().is_some() || ledger.damage().is_some();
    text.sample("par_ledger_obstacle", &[], u8::from(is_stopped));
    text.chain(&ledger.chain());
    text.head("par_ledger_wal_bytes", "gauge", "Size of the write-ahead logs.");
    for (database, bytes) in ledger.files().log_bytes() {
        text.sample("par_ledger_wal_bytes", &[("database", database)], bytes);
    }
    text.anchor(app);
    text.head("par_auth_refused", "counter", "Requests whose key was refused.");
    text.sample("par_auth_refused_total", &[], app.authority.refused());
    text.head("par_launcher_restarts", "counter", "Launchers that were replaced.");
    text.sample("par_launcher_restarts_total", &[], app.agent.launcher().renewals());
    text.head("par_connections_ended", "counter", "HTTP connections that were closed for newer ones.");
    text.sample("par_connections_ended_total", &[], app.answered.all_that_gave_way());
    text.answered(&app.answered);
    text.0.push_str("# EOF\n");
    text.0
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# TYPE {name} {kind}"));
        self.line(format_args!("# HELP {name} {help}"));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        if labels.is_empty() {
            self.line(format_args!("{name} {value}"));
        } else {
            self.line(format_args!("{name}{{{}}} {value}", labels.join(",")));
        }
    }

    fn chain(&mut self, chain: &ChainState) {
        let (entries, at_us) = match chain {
            ChainState::Verifying { entries, .. } => (*entries, None),
            ChainState::Sound(sound) => (sound.size, Some(sound.at_us)),
            ChainState::Broken(damage) => (damage.entry.unwrap_or(0), None),
        };
        self.head(
            "par_ledger_verified_entries",
            "gauge",
            "Entries that the server verified, from the first on.",
        );
        self.sample("par_ledger_verified_entries", &[], entries);
        self.head(
            "par_ledger_verified_time_seconds",
            "gauge",
            "When the last of them was verified, since 1970.",
        );
        if let Some(at_us) = at_us {
            self.sample("par_ledger_verified_time_seconds", &[], at_us / 1_000_000);
        }
        self.head("par_ledger_broken", "gauge", "1 if the ledger is damaged and the server is read-only.");
        self.sample("par_ledger_broken", &[], u8::from(chain.damage().is_some()));
    }

    fn anchor(&mut self, app: &App) {
        let Some(standing) = app.anchor.standing() else { return };
        let age = Duration::from_micros(app.anchor.age_us(&standing)).as_secs();
        self.head(
            "par_anchor_age_seconds",
            "gauge",
            "Time since the last checkpoint that was accepted outside.",
        );
        self.sample("par_anchor_age_seconds", &[], age);
        self.head("par_anchor_entries", "gauge", "Entries that this checkpoint covers.");
        self.sample("par_anchor_entries", &[], standing.size);
        self.head("par_anchor_failures", "counter", "Checkpoints that were not accepted.");
        self.sample("par_anchor_failures_total", &[], standing.failures);
        self.head(
            "par_anchor_conflict",
            "gauge",
            "1 while the outside place has another history of the log.",
        );
        self.sample("par_anchor_conflict", &[], u8::from(standing.is_conflict));
    }

    fn answered(&mut self, answered: &Answered) {
        let counts = answered.lock();
        self.head("par_http_requests", "counter", "Requests that were answered.");
        for (code, count) in &counts.codes {
            self.sample("par_http_requests_total", &[("code", &code.to_string())], count);
        }
        self.head("par_http_request_seconds", "histogram", "Time from the request to its response.");
        for (route, times) in [("run", counts.runs), ("other", counts.others)] {
            let mut sum = 0;
            for (bucket, ms) in times.buckets.iter().zip(BUCKETS_MS) {
                sum += bucket;
                let bound = Duration::from_millis(ms).as_secs_f64().to_string();
                self.sample("par_http_request_seconds_bucket", &[("route", route), ("le", &bound)], sum);
            }
            let labels = [("route", route)];
            self.sample("par_http_request_seconds_bucket", &[("route", route), ("le", "+Inf")], times.count);
            self.sample("par_http_request_seconds_count", &labels, times.count);
            self.sample("par_http_request_seconds_sum", &labels, times.sum.as_secs_f64());
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        writeln!(self.0, "{line}").ok();
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::Text;
    use crate::http::answered::Answered;
    use axum::http::StatusCode;
    use std::time::Duration;

    #[test]
    fn buckets_add_up_and_labels_are_escaped() {
        let answered = Answered::default();
        for ms in [1, 5, 6, 400_000] {
            answered.count(StatusCode::OK, true, Duration::from_millis(ms));
        }
        let mut text = Text::default();
        text.answered(&answered);
        text.sample("x", &[("a", "q\"b\\c\nd")], 1);
        for line in [
            "par_http_requests_total{code=\"200\"} 4",
            "par_http_request_seconds_bucket{route=\"run\",le=\"0.005\"} 2",
            "par_http_request_seconds_bucket{route=\"run\",le=\"0.025\"} 3",
            "par_http_request_seconds_bucket{route=\"run\",le=\"300\"} 3",
            "par_http_request_seconds_bucket{route=\"run\",le=\"+Inf\"} 4",
            "par_http_request_seconds_count{route=\"other\"} 0",
            "x{a=\"q\\\"b\\\\c\\nd\"} 1",
        ] {
            assert!(text.0.lines().any(|is| is == line), "{line}\n{}", text.0);
        }
    }
}
