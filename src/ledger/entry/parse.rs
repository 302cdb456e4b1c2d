//! The one way from bytes to a [`Header`]: the fast reader for the plain form, the reader of all JSON for the
//! rest.

use super::header::{Header, HeaderError};
use super::plain::PlainHeader;

impl Header {
    /// Reads header bytes. They must be an object of strings, exact integers, booleans and arrays of
    /// strings, without duplicate keys, with the fields that every entry has, and each field that the format
    /// names of its type.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        match PlainHeader::read(bytes) {
            Some(plain) => Ok(plain.header()),
            None => Self::parse_any(bytes),
        }
    }
}
