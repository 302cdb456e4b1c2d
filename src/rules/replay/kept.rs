//! Kept bundles, each made again once for all threads.

use crate::policy::Bundle;
use crate::rules::bundles::{KeptError, kept_bundle};
use crate::types::Digest;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Bundles that were asked for, each made once.
pub(super) struct KeptBundles<'a> {
    data: &'a Path,
    made: Mutex<BTreeMap<Digest, Kept>>,
}

pub(super) type Kept = Arc<Result<Option<Bundle>, KeptError>>;

impl<'a> KeptBundles<'a> {
    pub(super) fn below(data: &'a Path) -> Self {
        Self { data, made: Mutex::default() }
    }

    /// The bundle of `digest`; `None` if none is kept.
    pub(super) fn find(&self, digest: Digest) -> Kept {
        // A panic elsewhere leaves the map whole: each change is one insertion.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(digest).or_insert_with(|| Arc::new(kept_bundle(self.data, digest))).clone()
    }
}
