//! Parses a line of JSON that must be in canonical form and have the given members.

use super::error::ProofError;
use crate::types::json::{canonical, parse_strict};
use serde_json::Value;

/// Maximum depth of a line's JSON.
const DEPTH_MAX: usize = 8;

/// The object of a line, in canonical form and without other members than `names`.
pub(super) fn only(line: &[u8], names: &[&str], what: &str) -> Result<Value, ProofError> {
    let value = parse_strict(line, DEPTH_MAX)
        .map_err(|e| ProofError::from(e).at(format!("{what} is not valid JSON")))?;
    let is_canonical = canonical(&value).is_ok_and(|text| text.as_bytes() == line);
    let has_these =
        value.as_object().is_some_and(|object| object.keys().all(|name| names.contains(&name.as_str())));
    if is_canonical && has_these {
        Ok(value)
    } else {
        Err(ProofError::malformed(format!("{what} is not in canonical form, or has other members")))
    }
}
