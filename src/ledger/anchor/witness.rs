//! A witness that is asked over HTTP.

use super::failure::{AnchorFailure, AnchorOpenError, aside};
use crate::egress::{Client, Endpoint, HttpRequest};
use crate::ledger::checkpoint::{Note, WitnessAnswer, WitnessKey, request};
use crate::ledger::handle::Ledger;
use crate::ledger::tree::Head;
use crate::types::limits;
use std::time::Duration;

/// A witness: it signs only what extends the tree that it has seen.
#[derive(Debug)]
pub(super) struct Witness {
    endpoint: Endpoint,
    pub(super) key: WitnessKey,
    client: Client,
}

impl Witness {
    /// Parses the configured address and key.
    pub(super) fn parse(url: &str, key: &str) -> Result<Self, AnchorOpenError> {
        let endpoint = Endpoint::parse(url, "add-checkpoint").map_err(AnchorOpenError::Address)?;
        if !endpoint.is_private() {
            return Err(AnchorOpenError::Clear);
        }
        let key = WitnessKey::parse(key).ok_or(AnchorOpenError::Key)?;
        Ok(Self { endpoint, key, client: Client::new(None) })
    }

    /// Asks for a signature of `note`, with a proof that it extends the first `seen` entries, which
    /// the witness signed before.
    ///
    /// The witness may once answer with another size than `seen`: after a crash that lost its
    /// answer, or if it has forgotten.
    pub(super) async fn cosigned(
        &self,
        ledger: &Ledger,
        note: &Note,
        head: Head,
        seen: u64,
    ) -> Result<String, AnchorFailure> {
        let mut old = seen;
        for _ in 0..2 {
            let at = ledger.clone();
            let proof = aside(move || Ok(at.reader().consistency(old, head.size)?)).await?;
            let body = request(old, &proof, note)?;
            let ask = HttpRequest {
                endpoint: &self.endpoint,
                credential: None,
                headers: &[("content-type", "text/plain; charset=utf-8")],
                body: Some(body.as_bytes()),
                deadline: Duration::from_millis(limits::WITNESS_MS_MAX),
            };
            let answer = self.client.exchange(ask).await?;
            match WitnessAnswer::read(answer.status, &answer.body, note, &self.key) {
                WitnessAnswer::Cosigned(line, _) => return Ok(line),
                WitnessAnswer::Conflict(what) => return Err(AnchorFailure::Conflict(what)),
                WitnessAnswer::Refused(what) => return Err(AnchorFailure::Missed(what)),
                WitnessAnswer::Seen(size) if size > head.size => {
                    let what = format!("it has seen {size} entries, but the ledger has {}", head.size);
                    return Err(AnchorFailure::Conflict(what));
                }
                WitnessAnswer::Seen(size) => {
                    if size < seen {
                        tracing::warn!(
                            size,
                            seen,
                            "anchor: the witness has seen fewer entries than it signed before"
                        );
                    }
                    old = size;
                }
            }
        }
        Err(AnchorFailure::Missed("it answers with another size each time".to_owned()))
    }
}
