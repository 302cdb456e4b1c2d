//! The lock against a second writer.

use super::paths::Files;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

/// The lock against a second writer. Its file names the holder.
#[derive(Debug)]
pub struct Lock {
    file: Mutex<std::fs::File>,
}

/// Why the lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the lock; the text names it.
    #[error("{}", held(.0))]
    Held(String),
    /// The lock file cannot be used.
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, #[source] std::io::Error),
}

/// Who holds the lock, and what to do next to a server.
fn held(holder: &str) -> String {
    let named = format!("the ledger is held by another process: {}", holder.replace('\n', " ").trim());
    match holder.lines().any(|line| line.starts_with("url=")) {
        true => format!("{named}. A server runs on this home: `par run` asks it; stop it to start another"),
        false => named,
    }
}

impl Lock {
    /// Takes the lock of `files`, waiting at most `wait`.
    pub fn take(files: &Files, wait: Duration) -> Result<Self, LockError> {
        let path = files.lock();
        let at = |e| LockError::File(path.clone(), e);
        let open = || {
            std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)
        };
        let file = open().map_err(at)?;
        let step = Duration::from_millis(20);
        let mut left = wait;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(std::fs::TryLockError::WouldBlock) if left.is_zero() => {
                    return Err(LockError::Held(Self::holder(files).unwrap_or_default()));
                }
                Err(std::fs::TryLockError::WouldBlock) => {
                    std::thread::sleep(step.min(left));
                    left = left.saturating_sub(step);
                }
                Err(std::fs::TryLockError::Error(e)) => return Err(at(e)),
            }
        }
        let lock = Self { file: Mutex::new(file) };
        lock.tell(None).map_err(at)?;
        Ok(lock)
    }

    /// Writes this process's id and, for a server, its URL into the file.
    pub fn tell(&self, url: Option<&str>) -> std::io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut text = format!("pid={}\n", std::process::id());
        if let Some(url) = url {
            text.push_str(&format!("url={url}\n"));
        }
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(text.as_bytes())
    }

    /// The text that the lock's holder wrote, or `None` if no process holds the lock.
    #[must_use]
    pub fn holder(files: &Files) -> Option<String> {
        let mut file = std::fs::File::open(files.lock()).ok()?;
        // If the shared lock can be taken, no process holds the lock. Closing the descriptor
        // releases it.
        if file.try_lock_shared().is_ok() {
            return None;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::LockError;

    /// Whoever starts a second server reads how to use the one that runs.
    #[test]
    fn a_lock_of_a_server_says_what_to_do() {
        let of = |holder: &str| LockError::Held(holder.to_owned()).to_string();
        assert_eq!(of("pid=7\n"), "the ledger is held by another process: pid=7");
        let said = of("pid=7\nurl=http://127.0.0.1:7117\n");
        assert!(
            said.contains("pid=7 url=http://127.0.0.1:7117. ") && said.contains("`par run` asks it"),
            "{said}"
        );
    }
}
