//! A line of JSON as it is written: in canonical form, with the members that it has to have.

use super::error::ProofError;
use crate::types::json::{canonical, parse_strict};
use serde_json::Value;

/// How deep a line's JSON may be.
const DEPTH_MAX: usize = 8;

/// The object of a line, in canonical form and with exactly these members.
pub(super) fn only(line: &[u8], names: &[&str], what: &str) -> Result<Value, ProofError> {
    let value =
        parse_strict(line, DEPTH_MAX).map_err(|e| ProofError::from(e).at(format!("{what} is no JSON")))?;
    let is_canonical = canonical(&value).is_ok_and(|text| text.as_bytes() == line);
    let has_these =
        value.as_object().is_some_and(|object| object.keys().all(|name| names.contains(&name.as_str())));
    if is_canonical && has_these {
        Ok(value)
    } else {
        Err(ProofError::malformed(format!("{what} is not as it was written")))
    }
}
