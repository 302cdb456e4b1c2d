//! The only way from bytes to a [`Header`]: the fast reader for the plain form, and the JSON parser
//! for all other forms.

use super::header::{Header, HeaderError};
use super::plain::PlainHeader;

impl Header {
    /// Parses header bytes: an object of strings, exact integers, booleans and arrays of strings,
    /// without duplicate keys. It has every required field, and each field that the format names
    /// has its type.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        match PlainHeader::read(bytes) {
            Some(plain) => Ok(plain.header()),
            None => Self::parse_any(bytes),
        }
    }
}
