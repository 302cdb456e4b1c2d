//! Whether a model's server answers.

use super::runtime::runtime;
use crate::cli::exit::Fail;
use crate::config::NamedModel;
use crate::egress::{Client, EgressError, Endpoint, Way};
use crate::types::limits;
use std::time::Duration;

/// Why a model's server did not answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum Unreached {
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error(transparent)]
    Here(#[from] Fail),
}

/// The HTTP status with which the server at `base` answers a request without a key. Blocking.
pub(in crate::cli) fn reach(model: &NamedModel, base: &str) -> Result<u16, Unreached> {
    let endpoint = Endpoint::parse(base, "")?;
    let client = Client::along(&endpoint, Way::of(model))?;
    let deadline = Duration::from_millis(limits::CONNECT_MS_MAX);
    Ok(runtime()?.block_on(client.reach(&endpoint, deadline))?)
}
