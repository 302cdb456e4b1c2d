//! The secrets that manifests give to programs, in sealed memory.
//!
//! The launcher reads them itself, as its own user: no secret crosses the socket, and a compromised
//! front cannot choose what a tool is given. It reads only those that a manifest asks for, in a
//! separate process that ends at once: no value is in this process's memory, nor in that of its
//! forks, builtins included; even hashing a value here would leave pieces of it on the stack. The
//! exception is a value that a tool has printed, since output passes through.

use crate::config::{Config, SecretSource};
use crate::launcher::spec::Spec;
use crate::launcher::sys::{self, SingleThread};
use crate::tools::Catalog;
use crate::types::{Digest, limits, secret};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};

/// The reading process's answer: for each name the proof of its value, in hexadecimal, or why it
/// was not read.
type ProofByName = BTreeMap<String, Result<String, String>>;

/// The secrets of all tools, by name.
#[derive(Debug, Default)]
pub(crate) struct Vault {
    kept: BTreeMap<String, Result<StoredSecret, String>>,
    /// The salt of this launcher's proofs.
    pub(crate) salt: [u8; 32],
}

#[derive(Debug)]
struct StoredSecret {
    memory: OwnedFd,
    proof: Digest,
}

impl Vault {
    /// Reads every secret that a manifest of `catalog` asks for; `par.toml` is read again, as in a
    /// reload.
    ///
    /// One that cannot be read refuses its tools and not the start: the front cannot know as which
    /// user the launcher runs.
    pub(crate) fn open(spec: &Spec, catalog: &Catalog, one: &SingleThread) -> Result<Self, String> {
        let mut vault = Self::default();
        let names: BTreeSet<&String> = catalog.manifests().flat_map(|manifest| &manifest.secrets).collect();
        if names.is_empty() {
            return Ok(vault);
        }
        let refuse = |e: &dyn Display| format!("secrets: {e}");
        getrandom(&mut vault.salt, GetRandomFlags::empty()).map_err(|e| refuse(&e))?;
        let home = spec.secrets.clone().ok_or_else(|| refuse(&"no home was given to read them from"))?;
        let sources = Config::load(home).map_err(|e| e.to_string())?.secrets;
        let memory = names.into_iter().map(|name| Ok((name.clone(), memory_file("secret")?)));
        let memory: BTreeMap<String, OwnedFd> =
            memory.collect::<Result<_, Errno>>().map_err(|e| refuse(&e))?;
        let mut answers = read_apart(one, &memory, &sources, &vault.salt).map_err(|e| refuse(&e))?;
        for (name, memory) in memory {
            let proof = answers.remove(&name).unwrap_or_else(|| Err("was not read".to_owned()));
            let proof =
                proof.and_then(|hex| Digest::from_hex(&hex).ok_or_else(|| "has no valid proof".to_owned()));
            let kept = proof.and_then(|proof| {
                seal(&memory).map_err(|e| e.to_string())?;
                Ok(StoredSecret { memory, proof })
            });
            vault.kept.insert(name, kept);
        }
        Ok(vault)
    }

    /// The secrets in `names`, and the combined proof of them. An error names the first that is
    /// missing.
    pub(crate) fn give(&self, names: &[String]) -> Result<(Vec<OwnedFd>, Option<Digest>), String> {
        let (mut memory, mut proofs) = (Vec::new(), Vec::new());
        for name in names {
            let refuse = |e: &dyn Display| format!("the secret `{name}`: {e}");
            let kept = self.kept.get(name).ok_or_else(|| refuse(&"was not read"))?;
            let kept = kept.as_ref().map_err(|e| refuse(&e))?;
            memory.push(kept.memory.try_clone().map_err(|e| refuse(&e))?);
            proofs.push(kept.proof);
        }
        Ok((memory, (!names.is_empty()).then(|| secret::proof_of_all(proofs))))
    }
}

/// Has another process put each value into its `memory`, and waits for its end.
fn read_apart(
    one: &SingleThread,
    memory: &BTreeMap<String, OwnedFd>,
    sources: &BTreeMap<String, SecretSource>,
    salt: &[u8; 32],
) -> Result<ProofByName, String> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| e.to_string())?;
    match sys::fork(one).map_err(|e| e.to_string())? {
        sys::Fork::Child(_) => {
            let answers: ProofByName = memory
                .iter()
                .map(|(name, memory)| (name.clone(), put(sources.get(name), memory, salt)))
                .collect();
            let bytes = serde_json::to_vec(&answers).unwrap_or_default();
            // An answer that does not arrive counts as missing.
            let _ = write_all(&write, &bytes);
            sys::exit_now(0)
        }
        sys::Fork::Parent(reader) => {
            drop(write);
            let mut bytes = Vec::new();
            std::fs::File::from(read).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
            waitid(WaitId::PidFd(reader.as_fd()), WaitIdOptions::EXITED).map_err(|e| e.to_string())?;
            serde_json::from_slice(&bytes).map_err(|_| "the process that reads them failed".to_owned())
        }
    }
}

/// Puts one value into `memory` and returns its proof. The value has the same length limits as
/// where it is searched for.
fn put(source: Option<&SecretSource>, memory: &OwnedFd, salt: &[u8; 32]) -> Result<String, String> {
    let value = source.ok_or("is missing in `[secrets]` of par.toml")?.read()?;
    let (least, most) = (limits::SECRET_BYTES_MIN, limits::SECRET_BYTES_MAX);
    if !(least..=most).contains(&value.len()) {
        return Err(format!("the value must have {least} to {most} bytes"));
    }
    write_all(memory, &value).map_err(|e| e.to_string())?;
    Ok(secret::proof_of_same(salt, &value).hex())
}

/// A memory file of `bytes`, sealed against changes.
pub(crate) fn sealed(name: &str, bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let fd = memory_file(name)?;
    write_all(&fd, bytes)?;
    seal(&fd)?;
    Ok(fd)
}

fn memory_file(name: &str) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before 6.3 do not know the flag that forbids executing the file itself.
        Err(Errno::INVAL) => memfd_create(name, flags),
        made => made,
    }
}

fn write_all(fd: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(fd, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(())
}

fn seal(fd: &OwnedFd) -> Result<(), Errno> {
    fcntl_add_seals(fd, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)
}
