//! A payload to erase.

use crate::ledger::entry::Header;

/// A payload to erase, with its salt and its entry's header.
#[derive(Debug)]
pub(super) struct PayloadToErase {
    pub(super) header: Header,
    pub(super) salt: [u8; 32],
    pub(super) body: Vec<u8>,
}
