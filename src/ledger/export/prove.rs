//! Makes proof files from the ledger.

use super::proof_file::{Evidence, Item};
use crate::ledger::checkpoint::{Checkpoint, Note};
use crate::ledger::read::{ReadError, Reader, Unverified, subtree};
use crate::ledger::tree::proof;
use crate::types::Digest;
use std::collections::HashMap;

impl Reader {
    /// The proof file of the entries of `run`, or of a single entry, against the newest checkpoint.
    /// A payload that was erased or may not be shown is left out.
    pub fn prove(&self, run: Option<String>, seqs: &[u64]) -> Result<Evidence, ReadError> {
        let last = seqs.last().copied().unwrap_or_default();
        let checkpoint = self.newest_checkpoint()?.unwrap_or_default();
        let size = Note::parse(&checkpoint).and_then(|note| Checkpoint::parse(note.text()));
        let size = size.map_err(ReadError::damaged(last))?.head.size;
        if last >= size {
            return Err(ReadError::Unsigned(last, size));
        }
        let mut items = Vec::with_capacity(seqs.len());
        for seq in seqs {
            items.push(self.item(*seq, size, &mut HashMap::new())?);
        }
        let (first, seals) = self.epochs(size)?;
        Ok(Evidence { first, seals, checkpoint, run, items })
    }

    /// An entry with its audit path in the tree over the first `size` entries, and its payload if
    /// it may be shown. `roots` caches the roots of subtrees.
    pub(super) fn item(
        &self,
        seq: u64,
        size: u64,
        roots: &mut HashMap<(u32, u64), Digest>,
    ) -> Result<Item, ReadError> {
        let (stored, salt) = self.salted(seq)?.ok_or_else(|| ReadError::missing(seq, "the entry"))?;
        let payload = salt.zip(stored.body).filter(|_| stored.header.shows_payload());
        Ok(Item { header: stored.bytes, payload, path: self.path(seq, size, roots)? })
    }

    /// As [`Reader::item`], for an entry that does not verify: a check of the item finds the same.
    /// `None` if it verifies.
    pub(super) fn unverified_item(
        &self,
        seq: u64,
        size: u64,
        roots: &mut HashMap<(u32, u64), Digest>,
    ) -> Result<Option<Item>, ReadError> {
        let Some(Unverified { header, payload, .. }) = self.unverified(seq)? else { return Ok(None) };
        let payload = payload.map(|(salt, body)| (<[u8; 32]>::try_from(salt).unwrap_or_default(), body));
        Ok(Some(Item { header, payload, path: self.path(seq, size, roots)? }))
    }

    fn path(
        &self,
        seq: u64,
        size: u64,
        roots: &mut HashMap<(u32, u64), Digest>,
    ) -> Result<Vec<Digest>, ReadError> {
        let mut segments = self.segments();
        proof::inclusion(seq, size, &mut |height, index| {
            if let Some(root) = roots.get(&(height, index)) {
                return Ok(*root);
            }
            let root = subtree(&mut segments, height, index)?;
            roots.insert((height, index), root);
            Ok::<_, ReadError>(root)
        })
    }
}
