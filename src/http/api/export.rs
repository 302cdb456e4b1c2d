//! `GET /audit/export?q=&format=`: every entry that matches a query, in one file. The ledger
//! records the export and its principal before the first byte is sent.

use crate::gate::Granted;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::blocking::blocking;
use crate::http::problem::{Code, Problem};
use crate::ledger::{Export, ExportError, Filter, Format, Ledger};
use crate::types::{Full, Share};
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use http_body_util::channel::{Channel, Sender};

/// The parameters of an export.
#[derive(Debug)]
pub(in crate::http) struct ExportQuery {
    filter: Filter,
    format: Format,
}

pub(in crate::http) async fn export(
    State(app): State<App>,
    caller: Caller,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let asked = ExportQuery::read(&asked)?;
    let (principal, power) = caller.exporting()?;
    answer(app, asked, principal, power).await
}

impl ExportQuery {
    pub(in crate::http) fn read(asked: &[(String, String)]) -> Result<Self, Problem> {
        let unfit = |what: String| Problem::new(Code::Invalid, what);
        let (mut filter, mut format) = (Filter::default(), Format::Jsonl);
        for (name, value) in asked {
            match name.as_str() {
                "q" => filter = Filter::parse(value).map_err(|what| unfit(format!("`q`: {what}")))?,
                "format" => {
                    format = Format::parse(value)
                        .ok_or_else(|| unfit("`format`: must be `jsonl` or `csv`".to_owned()))?;
                }
                _ => return Err(unfit("an export takes `q` and `format`".to_owned())),
            }
        }
        Ok(Self { filter, format })
    }
}

/// Records the export and streams it.
pub(in crate::http) async fn answer(
    app: App,
    asked: ExportQuery,
    principal: String,
    power: Granted,
) -> Result<Response, Problem> {
    let place = app.exports.try_take(&principal).map_err(|full| {
        let what = match full {
            Full::All => "too many exports are in progress",
            Full::Share => "this key already has the largest number of exports",
        };
        Problem::new(Code::TooMany, what).retry_after(30)
    })?;
    let ledger = app.agent.ledger().clone();
    // The recorded query contains no secrets, and neither do the entries: the placeholder is what
    // can be found.
    let query = app.agent.secrets().clean(asked.filter.to_string()).into_inner();
    let filter = Filter::parse(&query).map_err(|what| Problem::new(Code::Invalid, format!("`q`: {what}")))?;
    let named = app.clone();
    let filter = blocking(move || Ok(named.by_ids(filter)?)).await?;
    let export = blocking(move || {
        let record = ledger.record_export(&filter, asked.format, principal, Some(power.record()))?;
        Ok(Export::open(ledger.files(), record)?)
    })
    .await?;
    let format = export.format();
    let (out, body) = Channel::new(2);
    let ledger = app.agent.ledger().clone();
    tokio::spawn(stream(ledger, export, out, place));
    let name = format!("attachment; filename=\"par-export.{}\"", format.as_str());
    let head = [(CONTENT_TYPE, format.media_type().to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((head, Body::new(body)).into_response())
}

/// Ends with the reader or with the export. If the ledger can no longer be read, the response is
/// aborted, so that it cannot pass for complete.
async fn stream(ledger: Ledger, mut export: Export, mut out: Sender<Bytes, ExportError>, _place: Share) {
    loop {
        let next = tokio::task::spawn_blocking(move || {
            let piece = export.piece();
            (export, piece)
        });
        let Ok((rest, piece)) = next.await else { return };
        export = rest;
        // The export has a reader of its own.
        if let Some(seq) = export.damaged().first() {
            ledger.suspect(*seq);
        }
        match piece {
            Ok(Some(piece)) => {
                if out.send_data(Bytes::from(piece)).await.is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "an export was aborted");
                return out.abort(error);
            }
        }
    }
}

impl From<ExportError> for Problem {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Read(error) => error.into(),
            ExportError::Append(error) => {
                tracing::error!(%error, "an export was not recorded");
                Self::new(Code::Ledger, "the ledger cannot be written: nothing is exported")
            }
            other => Self::internal(other),
        }
    }
}
