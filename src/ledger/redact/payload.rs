//! A payload that is about to go.

use crate::ledger::entry::Header;

/// A payload that is about to go.
#[derive(Debug)]
pub(super) struct PayloadToErase {
    pub(super) header: Header,
    pub(super) salt: [u8; 32],
    pub(super) body: Vec<u8>,
}
