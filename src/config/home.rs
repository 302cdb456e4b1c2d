//! The parts of a home.

use super::environment;
use std::path::{Path, PathBuf};

/// The home of the installed service.
const SERVICE_HOME: &str = "/var/lib/par";

/// The folders in which the server of `data` may have its sockets: `data` itself, and for the
/// installed service the runtime folder, which users without access to `data` can enter.
#[must_use]
pub fn socket_folders(data: &Path) -> Vec<PathBuf> {
    let is_service = data.parent() == Some(Path::new(SERVICE_HOME));
    let shared = is_service.then(|| PathBuf::from("/run/par"));
    std::iter::once(data.to_owned()).chain(shared).collect()
}

/// The parts of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The folder itself.
    pub root: PathBuf,
    /// Decides what may run: `par.toml`, `policies/`, `tools.d/`. Read-only while running.
    pub etc: PathBuf,
    /// Ledger, state and keys. The only folder that the front writes.
    pub data: PathBuf,
    /// The folder in which tools may work.
    pub workspace: PathBuf,
}

impl Home {
    /// The home given by flag, else by `PAR_HOME`, else the service's, else `./par-home`.
    ///
    /// The service's home is used if its ledger's folder exists.
    pub fn locate(home: Option<&Path>, etc: Option<&Path>) -> std::io::Result<Self> {
        let asked = home.map(Path::to_owned).or_else(environment::home);
        let service = Path::new(SERVICE_HOME);
        let is_service = asked.is_none() && service.join("data").is_dir();
        let root = asked.unwrap_or_else(|| if is_service { service.to_owned() } else { "par-home".into() });
        let root = std::path::absolute(root)?;
        let etc = match etc {
            Some(etc) => std::path::absolute(etc)?,
            None if is_service => PathBuf::from("/etc/par"),
            None => root.join("etc"),
        };
        Ok(Self { etc, data: root.join("data"), workspace: root.join("workspace"), root })
    }

    /// The configuration file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.etc.join("par.toml")
    }

    /// Whether `par init` has created this home.
    #[must_use]
    pub fn is_made(&self) -> bool {
        self.file().is_file() && self.data.is_dir()
    }
}
