//! The source of a named secret. Its value is never in the configuration.

use super::{environment, trusted};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The source of a named secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A file.
    File(PathBuf),
    /// A credential of the service manager (systemd.exec(5), `LoadCredential=`).
    Credential(String),
}

impl SecretSource {
    /// The source of each name; the error is the first name without a valid source, and the reason.
    pub(super) fn all(
        written: &BTreeMap<String, String>,
        root: &Path,
    ) -> Result<BTreeMap<String, Self>, (String, String)> {
        let one = |(name, from): (&String, &String)| match Self::parse(from, root) {
            Ok(source) => Ok((name.clone(), source)),
            Err(why) => Err((name.clone(), why)),
        };
        written.iter().map(one).collect()
    }

    /// Parses `file:PATH`, relative to `root`, or `credential:NAME`.
    fn parse(from: &str, root: &Path) -> Result<Self, String> {
        match from.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(root.join(path))),
            Some(("credential", name)) if !name.is_empty() && !name.contains(['/', '\0']) => {
                Ok(Self::Credential(name.to_owned()))
            }
            // The error does not quote the text, which may be the value itself.
            _ => Err("is not a source of a secret, expected `file:PATH` or `credential:NAME`, not the value"
                .to_owned()),
        }
    }

    /// The value, with surrounding white space removed. The error names the source and the reason.
    ///
    /// A file must be writable only by its owner, who is root or the user that started PAR, and
    /// must not be world-readable.
    pub fn read(&self) -> Result<Zeroizing<Vec<u8>>, String> {
        let path = match self {
            Self::File(path) => path.clone(),
            Self::Credential(name) => environment::credential(name).ok_or_else(|| {
                format!("{self}: the service manager passed no credentials (`LoadCredential=`)")
            })?,
        };
        let bytes = trusted::read_private(&path).map_err(|e| format!("{self}: {e}"))?;
        match bytes.trim_ascii() {
            [] => Err(format!("{self} is empty")),
            value => Ok(Zeroizing::new(value.to_vec())),
        }
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Credential(name) => write!(f, "credential {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SecretSource;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    #[test]
    fn a_source_is_a_file_or_a_credential_and_no_value() {
        let root = Path::new("/home/par");
        let check = |from: &str, expect: Option<&str>| {
            let parsed = SecretSource::parse(from, root);
            assert_eq!(parsed.as_ref().ok().map(ToString::to_string).as_deref(), expect, "{from}");
            // An error does not repeat what may be the value.
            assert!(!parsed.err().unwrap_or_default().contains("hunter"));
        };
        check("file:/etc/par/db", Some("/etc/par/db"));
        check("file:secrets/db", Some("/home/par/secrets/db"));
        check("credential:db", Some("credential db"));
        for wrong in ["hunter2hunter2", "file:", "credential:", "credential:../hunter", "env:hunter", ""] {
            check(wrong, None);
        }
    }

    #[test]
    fn only_a_private_file_is_read() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("db");
        std::fs::write(&path, " opensesame-123\n").expect("file");
        let source = SecretSource::File(path.clone());
        for (mode, expect) in [
            (0o600, None),
            (0o640, None),
            (0o644, Some("is world-readable")),
            (0o620, Some("writable by others")),
        ] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("mode");
            match (source.read(), expect) {
                (Ok(value), None) => assert_eq!(value.as_slice(), b"opensesame-123"),
                (Err(error), Some(expect)) => assert!(error.contains(expect), "{error}"),
                (got, expect) => panic!("{mode:o}: {:?}, not {expect:?}", got.map(|_| ())),
            }
        }
        std::fs::write(&path, "\n").expect("file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("mode");
        assert!(source.read().expect_err("empty").ends_with("is empty"));
        std::fs::remove_file(&path).expect("removed");
        assert!(source.read().expect_err("gone").starts_with(path.to_str().expect("UTF-8")));
    }
}
