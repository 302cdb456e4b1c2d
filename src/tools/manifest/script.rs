//! A script of `etc/`, as it was when its manifest was loaded. Those bytes run.

use crate::config::trusted;
use crate::types::Digest;
use std::fmt;
use std::path::{Component, Path};
use std::sync::Arc;

/// A script: front and launcher each read its bytes once, and never again.
#[derive(Clone, PartialEq, Eq)]
pub struct Script {
    name: String,
    bytes: Arc<[u8]>,
    digest: Digest,
}

impl Script {
    /// Reads `name`, such as `jobs.d/deploy.sh`, from the parent of the folder that contains
    /// `manifest`.
    ///
    /// The rules of `etc/` apply: only their owner may write the script and its folders.
    pub(super) fn load(manifest: &Path, name: &str) -> Result<Self, String> {
        let plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        if name.is_empty() || !plain {
            return Err(format!("`{name}` is not a plain path below etc/"));
        }
        let etc = manifest.parent().and_then(Path::parent);
        let etc = etc.ok_or_else(|| format!("`{name}`: the manifest is not in an etc/"))?;
        let bytes = trusted::read_below(etc, Path::new(name)).map_err(|e| format!("`{name}`: {e}"))?;
        let digest = Digest::sha256(&bytes);
        Ok(Self { name: name.to_owned(), bytes: bytes.into(), digest })
    }

    /// Its path below `etc/`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the interpreter runs.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// SHA-256 of the bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// SHA-256 over `"par/script/1\0"`, the digest of the manifest's file, and the script's:
    /// together they name one tool, so whatever is bound to a manifest is bound to its script.
    #[must_use]
    pub fn bind(&self, manifest: Digest) -> Digest {
        Digest::sha256_parts(&[b"par/script/1\0", &manifest.0, &self.digest.0])
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Script({}, {} bytes, {})", self.name, self.bytes.len(), self.digest.short())
    }
}
