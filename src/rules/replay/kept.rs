//! Stored bundles, each rebuilt once for all threads.

use crate::policy::Bundle;
use crate::rules::bundles::{KeptError, kept_bundle};
use crate::types::Digest;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The bundles that were requested, each rebuilt once.
pub(super) struct KeptBundles<'a> {
    data: &'a Path,
    made: Mutex<BTreeMap<Digest, Kept>>,
}

pub(super) type Kept = Arc<Result<Option<Bundle>, KeptError>>;

impl<'a> KeptBundles<'a> {
    pub(super) fn below(data: &'a Path) -> Self {
        Self { data, made: Mutex::default() }
    }

    /// The bundle with `digest`; `None` if it is not stored.
    pub(super) fn find(&self, digest: Digest) -> Kept {
        // A panic elsewhere leaves the map consistent: each change is one insertion.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(digest).or_insert_with(|| Arc::new(kept_bundle(self.data, digest))).clone()
    }
}
