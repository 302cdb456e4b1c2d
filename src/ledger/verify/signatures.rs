//! The walk's checks of checkpoints: those in the ledger's own table, and those kept outside. Pure.

use super::report::{Outside, Verdict};
use super::walk::{ChainWalk, ExpectedCheckpoint};
use crate::ledger::checkpoint::{Checkpoint, CheckpointError, Note};
use crate::ledger::tree::Head;
use crate::types::limits;

impl ChainWalk {
    /// Sets the checkpoints to check on the way: stored ones by rising size, as span, size and
    /// note, and those from outside.
    pub(in crate::ledger) fn expect(&mut self, stored: &[(i64, i64, Vec<u8>)], outside: &[Outside]) {
        let mut ahead = Vec::new();
        for (id, size, note) in stored {
            match stored_checkpoint(*id, *size, note) {
                Ok((size, note)) => ahead.push(ExpectedCheckpoint { size, note, outside: None }),
                Err(what) => self.report.find(None, Verdict::Invalid, format!("checkpoint {id}: {what}")),
            }
        }
        for Outside { from, note, key } in outside {
            match Checkpoint::parse(note.text()) {
                Ok(checkpoint) => ahead.push(ExpectedCheckpoint {
                    size: checkpoint.head.size,
                    note: note.clone(),
                    outside: Some((from.clone(), key.clone())),
                }),
                Err(what) => self.report.find(None, Verdict::Unreadable, format!("{from}: {what}")),
            }
        }
        ahead.sort_by_key(|expected| std::cmp::Reverse(expected.size));
        self.ahead = ahead;
    }

    /// Checks the checkpoints of the current size.
    pub(super) fn at_checkpoint(&mut self) {
        let size = self.frontier.size();
        while let Some(expected) = self.ahead.pop_if(|expected| expected.size <= size) {
            // A break right before the last entry is decided first. After one root has failed,
            // no later one is checked.
            if self.torn.is_some() || self.left {
                continue;
            }
            // Computed only when there is a checkpoint to compare it with; few entries have one.
            let head = Head { size, root: self.frontier.root() };
            match (self.checkpoint(&expected, head), expected.outside) {
                (Ok(()), None) => {
                    self.report.checkpoints += 1;
                    self.report.signed = head.size;
                    self.report.newest = Some(expected.note);
                }
                (Ok(()), Some(_)) => self.report.anchored = Some(head.size),
                (Err((_, what)), None) => self.leave(head.size - 1, what),
                (Err((verdict, what)), Some((from, _))) => {
                    self.report.find(None, verdict, format!("{from}: {what}"));
                }
            }
        }
        let unsigned = size - self.report.signed;
        if unsigned > limits::UNSIGNED_ENTRIES_MAX && !self.left && self.torn.is_none() {
            self.left = true;
            let what = format!("{unsigned} entries in a row are not signed: checkpoints are missing");
            self.report.find(Some(size - 1), Verdict::Incomplete, what);
        }
    }

    fn checkpoint(&self, expected: &ExpectedCheckpoint, head: Head) -> Result<(), (Verdict, String)> {
        let invalid = |what| (Verdict::Invalid, what);
        let epochs = self.epochs.as_ref();
        let epochs =
            epochs.ok_or_else(|| invalid("the genesis entry pins no keys to check it with".to_owned()))?;
        if let Some((_, key)) = &expected.outside {
            // The given key decides whether the checkpoint counts; the ledger's keys decide whether
            // it belongs to this ledger.
            let key = key.as_ref().unwrap_or(epochs.log());
            if !expected.note.is_signed_by(key) {
                return Err((Verdict::Diverged, format!("`{}` did not sign this checkpoint", key.name())));
            }
        }
        let of_ledger = epochs.check(&expected.note);
        let signed = of_ledger.map_err(|what| match expected.outside {
            Some(_) => (Verdict::Diverged, what.to_string()),
            None => invalid(what.to_string()),
        })?;
        if signed.head == head {
            return Ok(());
        }
        let (here, there) = (head.root.short(), signed.head.root.short());
        Err(match expected.outside {
            Some(_) => (
                Verdict::Diverged,
                format!("the root over {} entries was {there}…, but is now {here}…", head.size),
            ),
            None => invalid(format!(
                "the root is {here}…, but a signed checkpoint has {there}…: an entry up to this one was changed, or all \
                 were rewritten"
            )),
        })
    }

    /// Checkpoints of more entries than the ledger has, and entries that no checkpoint covers.
    pub(super) fn beyond(&mut self) {
        let there = self.frontier.size();
        for expected in std::mem::take(&mut self.ahead) {
            if let (Some((from, _)), Some(what)) = (&expected.outside, self.foreign(&expected)) {
                self.report.find(None, Verdict::Diverged, format!("{from}: {what}"));
                continue;
            }
            let who = expected.outside.map_or_else(|| "a signed checkpoint".to_owned(), |(from, _)| from);
            let what = format!("the ledger has {there} entries, but {who} covers {}", expected.size);
            self.report.find(Some(there), Verdict::Incomplete, what);
        }
        let signed = self.report.signed;
        if signed == there || self.left || self.torn.is_some() {
            return;
        }
        if signed == 0 {
            return self.report.find(
                None,
                Verdict::Incomplete,
                "no entry is signed: all checkpoints are missing",
            );
        }
        // Each commit is signed with its entries, so not even a crash leaves entries after the
        // newest checkpoint.
        let what = format!(
            "no checkpoint covers the entries {signed} to {}: the newest is missing, and they could be forged without a \
             key",
            there - 1
        );
        self.report.find(Some(signed), Verdict::Incomplete, what);
    }

    /// Why a checkpoint of more entries than the ledger has does not belong to this log. The epoch
    /// key for that size is not known here; the log key shows whose it is.
    fn foreign(&self, expected: &ExpectedCheckpoint) -> Option<String> {
        let own = self.epochs.as_ref()?.log();
        let known = expected.outside.as_ref().and_then(|(_, key)| key.as_ref());
        let mut keys = known.into_iter().chain([own]);
        let other = keys.find(|key| !expected.note.is_signed_by(key))?;
        Some(format!("`{}` did not sign this checkpoint", other.name()))
    }
}

/// Why a row of the table of checkpoints is not a valid checkpoint.
#[derive(Debug, thiserror::Error)]
enum TableError {
    #[error("it is not text")]
    NoText,
    #[error(transparent)]
    Note(#[from] CheckpointError),
    #[error("it covers {0} entries, but is stored under another size")]
    Elsewhere(u64),
    #[error("it has lines other than size, root and two signatures")]
    OtherLines,
}

/// Parses a row of the table of checkpoints. Its span and its size must match the note's.
fn stored_checkpoint(id: i64, size: i64, note: &[u8]) -> Result<(u64, Note), TableError> {
    let text = std::str::from_utf8(note).map_err(|_| TableError::NoText)?;
    let note = Note::parse(text)?;
    let checkpoint = Checkpoint::parse(note.text())?;
    let rows = (u64::try_from(id), u64::try_from(size));
    if rows != (Ok(checkpoint.head.size / limits::CHECKPOINT_ENTRIES), Ok(checkpoint.head.size)) {
        return Err(TableError::Elsewhere(checkpoint.head.size));
    }
    if !checkpoint.extensions.is_empty() || note.signers().count() != 2 {
        return Err(TableError::OtherLines);
    }
    Ok((checkpoint.head.size, note))
}
