//! Whether a model's server answers.

use super::runtime::runtime;
use crate::cli::exit::Fail;
use crate::config::NamedModel;
use crate::egress::{Client, Endpoint, Way};
use crate::llm::ModelError;
use crate::types::limits;
use std::time::Duration;

/// Why a model's server did not answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum Unreached {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Here(#[from] Fail),
}

/// The HTTP status with which the server at `base` answers a request without a key. Blocking.
pub(in crate::cli) fn reach(model: &NamedModel, base: &str) -> Result<u16, Unreached> {
    let endpoint = Endpoint::parse(base, "").map_err(ModelError::from)?;
    let client = Client::along(&endpoint, Way::of(model)).map_err(ModelError::from)?;
    let deadline = Duration::from_millis(limits::CONNECT_MS_MAX);
    Ok(runtime()?.block_on(client.reach(&endpoint, deadline)).map_err(ModelError::from)?)
}

/// That the key of `model` would cross the network without TLS.
pub(in crate::cli) fn key_in_clear(model: &NamedModel) -> Option<String> {
    let endpoint = Endpoint::parse(&model.base_url, "").ok()?;
    let (name, server) = (&model.name, endpoint.host_port());
    (!endpoint.is_private()).then(|| {
        format!("the key of the model `{name}` goes to {server} without encryption, where others can read it: use https")
    })
}
