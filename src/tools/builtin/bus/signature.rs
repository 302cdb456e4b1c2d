//! Types of values, as signatures name them.

use super::error::BusError;

/// Nesting of containers in one signature: the specification allows 32 arrays and 32 structs.
const DEPTH_MAX: usize = 64;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BusType {
    /// An unsigned integer of so many bytes.
    Unsigned(usize),
    /// A signed integer of so many bytes.
    Signed(usize),
    Flag,
    Double,
    /// A string or an object path.
    Text,
    Signature,
    Variant,
    Array(Box<BusType>),
    /// A struct, or an entry of a dictionary.
    Struct(Vec<BusType>),
}

impl BusType {
    /// The types in `signature`, one after the other.
    pub(super) fn list(signature: &[u8]) -> Result<Vec<Self>, BusError> {
        let mut rest = signature;
        let mut all = Vec::new();
        while !rest.is_empty() {
            all.push(one(&mut rest, 0)?);
        }
        Ok(all)
    }

    /// The one type in the signature of a variant.
    pub(super) fn single(signature: &[u8]) -> Result<Self, BusError> {
        let mut all = Self::list(signature)?;
        match (all.pop(), all.is_empty()) {
            (Some(one), true) => Ok(one),
            _ => Err(BusError::Malformed("a variant does not have one type")),
        }
    }

    /// The multiple of bytes at which a value begins.
    pub(super) fn alignment(&self) -> usize {
        match self {
            Self::Unsigned(bytes) | Self::Signed(bytes) => *bytes,
            Self::Flag | Self::Text | Self::Array(_) => 4,
            Self::Double | Self::Struct(_) => 8,
            Self::Signature | Self::Variant => 1,
        }
    }
}

fn one(rest: &mut &[u8], depth: usize) -> Result<BusType, BusError> {
    if depth > DEPTH_MAX {
        return Err(BusError::Excess("types nested too deep"));
    }
    let Some((code, after)) = rest.split_first() else {
        return Err(BusError::Malformed("a signature ends in the middle"));
    };
    *rest = after;
    Ok(match code {
        b'y' => BusType::Unsigned(1),
        b'q' => BusType::Unsigned(2),
        b'u' | b'h' => BusType::Unsigned(4),
        b't' => BusType::Unsigned(8),
        b'n' => BusType::Signed(2),
        b'i' => BusType::Signed(4),
        b'x' => BusType::Signed(8),
        b'b' => BusType::Flag,
        b'd' => BusType::Double,
        b's' | b'o' => BusType::Text,
        b'g' => BusType::Signature,
        b'v' => BusType::Variant,
        b'a' if after.first() == Some(&b'{') => {
            *rest = after.get(1..).unwrap_or_default();
            let entry = members(rest, b'}', depth + 1)?;
            if entry.len() != 2 {
                return Err(BusError::Malformed("an entry of a dictionary is not a key and a value"));
            }
            BusType::Array(Box::new(BusType::Struct(entry)))
        }
        b'a' => BusType::Array(Box::new(one(rest, depth + 1)?)),
        b'(' => BusType::Struct(members(rest, b')', depth + 1)?),
        _ => return Err(BusError::Malformed("a signature has an unknown type")),
    })
}

/// The types up to `end`, at least one.
fn members(rest: &mut &[u8], end: u8, depth: usize) -> Result<Vec<BusType>, BusError> {
    let mut all = Vec::new();
    while rest.first() != Some(&end) {
        all.push(one(rest, depth)?);
    }
    *rest = rest.get(1..).unwrap_or_default();
    if all.is_empty() {
        return Err(BusError::Malformed("a struct without members"));
    }
    Ok(all)
}
