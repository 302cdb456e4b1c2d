//! The power that an action over the API used.

use crate::types::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A power that was granted for one use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerUsed {
    /// The name of the power.
    pub name: String,
    /// The determining policies.
    pub policies: Vec<String>,
    /// Digest of the bundle that granted it.
    pub policy: Digest,
    /// The whole Cedar request.
    pub request: Value,
}
