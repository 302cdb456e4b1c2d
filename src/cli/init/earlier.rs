//! Whether the files of a home are those of another version.

use super::record::ShippedRecord;
use super::shipped::shipped;
use crate::config::Home;
use crate::types::Digest;

/// What to do if this version refuses the rules of a home that another version made. `None` if the
/// home has the files of this version, edited or not.
pub(in crate::cli) fn hint(home: &Home) -> Option<String> {
    let is_current = match ShippedRecord::read(home) {
        Ok(Some(record)) => shipped(record.people)
            .iter()
            .all(|(name, text)| record.digest(name) == Some(Digest::sha256(text.as_bytes()))),
        // A version that kept no record.
        Ok(None) => false,
        // Its own error says what to do.
        Err(_) => true,
    };
    (!is_current && home.is_made()).then(|| {
        format!(
            "the files in {} are of another version of PAR: `par init --upgrade --home {}` shows what this \
             version ships in their place",
            home.etc.display(),
            home.root.display()
        )
    })
}
