//! The parts of a home.

use super::environment;
use std::io;
use std::path::{Component, Path, PathBuf};

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

/// Why users without access to `data` cannot reach the server, whatever `[auth.os_users]` says;
/// `None` for the installed service.
#[must_use]
pub fn closed_to_others(data: &Path) -> Option<String> {
    let is_closed = socket_folders(data) == [data];
    is_closed.then(|| {
        format!(
            "the sockets of this server are in {}, which only its owner can enter. Other users of this host reach \
             the sockets of the installed service only (docs/install.md); here they need an API key, with PAR_URL \
             and PAR_KEY",
            data.display()
        )
    })
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
    /// Whether a flag named it.
    pub is_named: bool,
}

impl Home {
    /// The home given by flag, else by `PAR_HOME`, else the service's, else `./par-home`.
    ///
    /// The service's home is used if its ledger's folder exists.
    pub fn locate(home: Option<&Path>, etc: Option<&Path>) -> io::Result<Self> {
        let asked = home.map(Path::to_owned).or_else(environment::home);
        let service = Path::new(SERVICE_HOME);
        let is_service = asked.is_none() && service.join("data").is_dir();
        let root = asked.unwrap_or_else(|| if is_service { service.to_owned() } else { "par-home".into() });
        let root = absolute(&root)?;
        let etc = match etc {
            Some(etc) => absolute(etc)?,
            None if is_service => PathBuf::from("/etc/par"),
            None => root.join("etc"),
        };
        let is_named = home.is_some();
        Ok(Self { etc, data: root.join("data"), workspace: root.join("workspace"), root, is_named })
    }

    /// The server at `PAR_URL`, unless this home was given by flag: a flag overrides the
    /// environment.
    #[must_use]
    pub fn server_url(&self) -> Option<String> {
        if self.is_named { None } else { environment::server_url() }
    }

    /// The configuration file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.etc.join("par.toml")
    }

    /// The folder of the keys that `par model login` writes.
    #[must_use]
    pub fn credentials(&self) -> PathBuf {
        self.etc.join("credentials")
    }

    /// Whether `par init` has created this home.
    #[must_use]
    pub fn is_made(&self) -> bool {
        self.file().is_file() && self.data.is_dir()
    }
}

/// The path from the root, without `.` and `..`. What comes before a `..` may be a link, so the
/// part up to the last one is resolved and must exist.
fn absolute(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let parts: Vec<Component<'_>> = path.components().collect();
    let Some(last) = parts.iter().rposition(|part| *part == Component::ParentDir) else { return Ok(path) };
    let (head, tail) = parts.split_at(last + 1);
    let head: PathBuf = head.iter().collect();
    let real = std::fs::canonicalize(&head)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", head.display())))?;
    Ok(tail.iter().fold(real, |path, part| path.join(part)))
}

#[cfg(test)]
mod tests {
    use super::Home;
    use std::path::Path;

    /// Finding A12: a home with `..` broke whatever was compared with a path from the root.
    #[test]
    fn a_home_is_absolute_and_its_dots_are_resolved_through_links() {
        let dir = tempfile::tempdir().expect("folder");
        let top = dir.path().canonicalize().expect("real");
        std::fs::create_dir_all(top.join("a/b")).expect("folders");
        std::os::unix::fs::symlink("a/b", top.join("link")).expect("link");
        let root = |home: &str| Home::locate(Some(&top.join(home)), None).map(|home| home.root);
        for (home, expect) in [
            ("a/b/..", "a"),
            ("a/b/../../new", "new"),
            ("a/./b", "a/b"),
            // Through the link, `..` is the folder above `a/b`.
            ("link/../c", "a/c"),
            ("link", "link"),
        ] {
            assert_eq!(root(home).expect(home), top.join(expect), "{home}");
        }
        let etc = Home::locate(Some(&top), Some(&top.join("a/../a"))).expect("a home").etc;
        assert_eq!(etc, top.join("a"));
        let error = root("none/../x").expect_err("no folder").to_string();
        assert!(error.contains("none/..: No such file"), "{error}");
        assert!(Home::locate(Some(Path::new("..")), None).is_ok_and(|home| !home.root.ends_with("..")));
    }
}
