//! What lets a caller check the ledger without trusting this server: its key, checkpoints and
//! proofs.
//!
//! Key, checkpoint and consistency proof reveal nothing that is recorded. Any valid key may request
//! them, because a caller who receives a result must be able to check it against the ledger.

use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::blocking::blocking;
use crate::http::problem::{Code, Problem};
use crate::policy::Power;
use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

/// Returns the log's verifier key on one line.
pub(in crate::http) async fn key(State(app): State<App>, _caller: Caller) -> Result<String, Problem> {
    let key = blocking(move || Ok(app.agent.ledger().reader().log_key()?)).await?;
    Ok(format!("{key}\n"))
}

/// Returns the newest signed checkpoint, a C2SP signed note.
pub(in crate::http) async fn checkpoint(State(app): State<App>, _caller: Caller) -> Result<String, Problem> {
    let note = app.agent.ledger().checkpoint();
    note.map(|note| note.to_string()).ok_or_else(|| Problem::internal("a ledger has no checkpoint"))
}

/// Two sizes of the tree.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Sizes {
    from: u64,
    to: u64,
}

/// Returns the proof that the tree of `to` entries extends that of `from`: hashes in hexadecimal.
pub(in crate::http) async fn consistency(
    State(app): State<App>,
    _caller: Caller,
    sizes: Result<Query<Sizes>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let unfit = |what: &str| Problem::new(Code::Invalid, what.to_owned());
    let Query(Sizes { from, to }) = sizes.map_err(|_| unfit("`from` and `to` must be numbers of entries"))?;
    let size = app.agent.ledger().head().size;
    if from == 0 || from > to || to > size {
        return Err(unfit(&format!(
            "`from` and `to` must be between 1 and {size}, and `from` must not exceed `to`"
        )));
    }
    let proof = blocking(move || Ok(app.agent.ledger().reader().consistency(from, to)?)).await?;
    let proof: Vec<String> = proof.iter().map(|hash| hash.hex()).collect();
    Ok(Json(json!({ "from": from, "to": to, "proof": proof })))
}

/// The entry to prove.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Seq {
    seq: u64,
}

/// Returns the proof file of one entry.
pub(in crate::http) async fn proof(
    State(app): State<App>,
    caller: Caller,
    seq: Result<Query<Seq>, axum::extract::rejection::QueryRejection>,
) -> Result<String, Problem> {
    caller.holding(Power::AuditRead)?;
    let seq = seq.map_err(|_| Problem::new(Code::Invalid, "`seq` must be the number of an entry"))?.seq;
    let size = app.agent.ledger().head().size;
    if seq >= size {
        return Err(Problem::new(Code::NotFound, "no entry has this number"));
    }
    let evidence = blocking(move || Ok(app.agent.ledger().reader().prove(None, &[seq])?)).await?;
    evidence.write().map_err(Problem::internal)
}
