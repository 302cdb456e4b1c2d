//! The secrets that manifests give to programs, between the reading of them and the memory that programs get.
//!
//! The launcher reads them itself, as its own user: no secret crosses the socket, and a front that was taken over
//! cannot choose what a tool is given. It reads those alone that a manifest asks for, keeps their values for its
//! start, and from then on has sealed memory files: what is forked from it, builtins among it, has no copy.

use super::supervisor::Spec;
use crate::config::Config;
use crate::tools::Catalog;
use crate::types::limits;
use crate::types::{Digest, secret};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use zeroize::Zeroizing;

/// Values by name, or why one cannot be read.
#[derive(Default)]
pub(super) struct Vault {
    values: BTreeMap<String, Result<Zeroizing<Vec<u8>>, String>>,
    /// Under which this launcher makes proofs.
    pub(super) salt: [u8; 32],
}

impl Vault {
    /// Reads every secret that a manifest of `catalog` asks for; `par.toml` is read anew, as a reload does.
    ///
    /// One that cannot be read refuses its tools and not the start: which user the launcher is, the front cannot know.
    pub(super) fn open(spec: &Spec, catalog: &Catalog) -> Result<Self, String> {
        let mut vault = Self::default();
        let names: Vec<&String> = catalog.manifests().flat_map(|manifest| &manifest.secrets).collect();
        if names.is_empty() {
            return Ok(vault);
        }
        getrandom(&mut vault.salt, GetRandomFlags::empty()).map_err(|e| format!("getrandom: {e}"))?;
        let home = spec
            .secrets
            .clone()
            .ok_or("a manifest asks for secrets, and there is no home to read them of")?;
        let sources = Config::load_keyless(home).map_err(|e| e.to_string())?.secrets;
        for name in names {
            let value = match sources.get(name) {
                Some(source) => source.read().and_then(checked),
                None => Err("is not in `[secrets]` of par.toml".to_owned()),
            };
            vault.values.insert(name.clone(), value);
        }
        Ok(vault)
    }

    /// The secrets called `names`, each in sealed memory, and the proof of all of them. A reason names the first that
    /// is not there.
    pub(super) fn give(&self, names: &[String]) -> Result<(Vec<OwnedFd>, Option<Digest>), String> {
        let mut values: Vec<&[u8]> = Vec::new();
        for name in names {
            match self.values.get(name) {
                Some(Ok(value)) => values.push(value),
                Some(Err(e)) => return Err(format!("the secret `{name}`: {e}")),
                None => return Err(format!("the secret `{name}` was not read")),
            }
        }
        let memory = names.iter().zip(&values);
        let memory = memory
            .map(|(name, value)| sealed("secret", value).map_err(|e| format!("the secret `{name}`: {e}")));
        let memory = memory.collect::<Result<_, _>>()?;
        let proof = (!names.is_empty()).then(|| secret::proof_of_same(&self.salt, values));
        Ok((memory, proof))
    }
}

/// The same bounds as where it is looked for: of another value the front would not start.
fn checked(value: Zeroizing<Vec<u8>>) -> Result<Zeroizing<Vec<u8>>, String> {
    if (limits::SECRET_BYTES_MIN..=limits::SECRET_BYTES_MAX).contains(&value.len()) {
        return Ok(value);
    }
    Err(format!("the value has not {} to {} bytes", limits::SECRET_BYTES_MIN, limits::SECRET_BYTES_MAX))
}

/// A memory file of `bytes` that nobody can change any more.
pub(super) fn sealed(name: &str, bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before 6.3 do not know that it is never to be executed itself.
        Err(Errno::INVAL) => memfd_create(name, flags),
        made => made,
    }?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(&fd, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    fcntl_add_seals(&fd, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(fd)
}
