//! What manifests name of the host, and what every program needs in addition.

use crate::launcher::view::files::open_path;
use crate::launcher::view::root::{MountUse, Plan};
use crate::tools::{Manifest, Runner, Runtime};
use landlock::{AccessFs, BitFlags};
use std::os::fd::OwnedFd;
use std::path::Path;

/// What a dynamic program reads to start.
const LIBRARIES: &[&str] = &["/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache"];

/// A device that every program has.
pub(crate) const NULL: &str = "/dev/null";

/// For programs that do not use getrandom(2).
pub(crate) const RANDOM: &str = "/dev/urandom";

/// Loaders by the names under which programs refer to them: the kernel executes these too. Nothing
/// else among the libraries may be executed, since those folders contain programs.
const LOADERS: &[&str] = if cfg!(target_arch = "x86_64") {
    &["/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"]
} else {
    &["/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"]
};

/// The plan of the view for these manifests.
pub(crate) fn plan<'m>(manifests: impl Iterator<Item = &'m Manifest>) -> Plan {
    let devices = [NULL, RANDOM].map(|device| (Path::new(device), MountUse::Device));
    Plan::new(manifests.flat_map(named).chain(devices))
}

/// What one manifest names, and for what use.
fn named(manifest: &Manifest) -> Vec<(&Path, MountUse)> {
    let read = manifest.read.iter().map(|path| (path.as_path(), MountUse::Read));
    let written = manifest.write.iter().map(|root| (root.folder.as_path(), MountUse::Write));
    let spelled = manifest.spelled.iter().map(|path| (path.as_path(), MountUse::Read));
    let mut out: Vec<_> = read.chain(written).chain(spelled).collect();
    if let Runner::Program(program) = &manifest.runner {
        let programs = std::iter::once(&program.path).chain(&program.exec);
        out.extend(programs.map(|path| (path.as_path(), MountUse::Execute)));
        out.extend(manifest.trees.iter().map(|tree| (tree.path(), MountUse::Execute)));
        if program.runtime == Runtime::Dynamic {
            let libraries = LIBRARIES.iter().chain(LOADERS);
            out.extend(libraries.map(|path| (Path::new(*path), MountUse::Execute)));
        }
    }
    out
}

/// What a dynamic program reads to start, with its rights there.
pub(crate) fn open_libraries() -> Vec<(OwnedFd, BitFlags<AccessFs>)> {
    let mut out = Vec::new();
    for path in LIBRARIES {
        // A missing path is skipped; a link to another entry of the list is harmless.
        let Ok(fd) = open_path(*path) else { continue };
        let Ok(stat) = rustix::fs::fstat(&fd) else { continue };
        let rights = match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            rustix::fs::FileType::Directory => AccessFs::ReadFile | AccessFs::ReadDir,
            _ => AccessFs::ReadFile.into(),
        };
        out.push((fd, rights));
    }
    let loaders = LOADERS.iter().filter_map(|path| open_path(*path).ok());
    out.extend(loaders.map(|fd| (fd, AccessFs::Execute | AccessFs::ReadFile)));
    out
}

/// A device of the view.
pub(crate) fn device(path: &str) -> Result<OwnedFd, String> {
    open_path(path).map_err(|e| format!("`{path}`: {e}"))
}
