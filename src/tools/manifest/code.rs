//! The programs that a tool executes, as they were when its manifest was loaded, and the digest
//! that binds them to it.

use super::tree::CodeTree;
use crate::config::trusted;
use crate::types::Digest;
use std::path::{Path, PathBuf};

/// A program that the manifest names. Front and launcher each read it when they load the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeFile {
    path: PathBuf,
    digest: Option<Digest>,
    obstacle: Option<String>,
}

impl CodeFile {
    /// Size limit of a program's file, in bytes.
    pub const BYTES_MAX: u64 = 512 << 20;

    /// Reads the program at `path`. One that does not exist, or cannot be read here, has no digest:
    /// the launcher says why it cannot be started.
    pub(super) fn load(path: &Path) -> Self {
        let opened = trusted::open_program(path);
        let obstacle = opened.as_ref().ok().and_then(|(_, trust)| trust.as_ref().err());
        let obstacle = obstacle.map(|why| format!("program `{}`: {why}", path.display()));
        let digest = opened.and_then(|(file, _)| Digest::sha256_read(file, Self::BYTES_MAX));
        Self { path: path.to_owned(), digest: digest.ok(), obstacle }
    }

    /// Its path, as the manifest writes it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// SHA-256 of its bytes; `None` if they could not be read.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Who else could change it; `None` if only root and the user that started PAR can.
    #[must_use]
    pub fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }

    /// Adds an obstacle to a program that has none.
    pub(super) fn refuse(&mut self, why: &str) {
        self.obstacle.get_or_insert_with(|| format!("program `{}`: {why}", self.path.display()));
    }
}

/// SHA-256 over `"par/code/1\0"`, the digest of the manifest with its script, the digest of each
/// program and then of each folder of code, 32 zero bytes for one that could not be read: whatever
/// is bound to a manifest is bound to every byte that its tool executes. How many there are of each
/// is in the manifest itself.
pub(super) fn bind(manifest: Digest, programs: &[CodeFile], trees: &[CodeTree]) -> Digest {
    let read = programs.iter().map(CodeFile::digest).chain(trees.iter().map(CodeTree::digest));
    let each = read.map(|digest| digest.unwrap_or(Digest([0; 32])));
    let digests: Vec<Digest> = std::iter::once(manifest).chain(each).collect();
    let parts: Vec<&[u8]> = digests.iter().map(|digest| &digest.0[..]).collect();
    Digest::sha256_parts(&[&[&b"par/code/1\0"[..]], parts.as_slice()].concat())
}

/// Reads the programs of a manifest: the first, and those that it may start, in order.
pub(super) fn load(program: &Path, exec: &[PathBuf]) -> Vec<CodeFile> {
    std::iter::once(program).chain(exec.iter().map(PathBuf::as_path)).map(CodeFile::load).collect()
}

/// Reads the folders of code of a manifest whose programs are `programs`.
pub(super) fn load_trees(folders: &[PathBuf], programs: &[CodeFile]) -> Vec<CodeTree> {
    let real = programs.iter().filter_map(|file| std::fs::canonicalize(&file.path).ok());
    let real: Vec<PathBuf> = real.collect();
    folders.iter().map(|folder| CodeTree::load(folder, &real)).collect()
}
