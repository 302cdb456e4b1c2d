//! The only reader of the environment.

#![expect(clippy::disallowed_methods, reason = "the only code that reads the environment")]

use super::error::ConfigError;
use crate::types::Secret;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The variables that may hold a key: those of the providers, and the caller's own.
pub const KEY_VARIABLES: [&str; 4] = [OPENAI_KEY, ANTHROPIC_KEY, GEMINI_KEY, CALLER_KEY];
const OPENAI_KEY: &str = "OPENAI_API_KEY";
const ANTHROPIC_KEY: &str = "ANTHROPIC_API_KEY";
const GEMINI_KEY: &str = "GEMINI_API_KEY";
const CALLER_KEY: &str = "PAR_KEY";
/// The variable that names a file with the caller's own key.
const CALLER_KEY_FILE: &str = "PAR_KEY_FILE";

/// `PAR_HOME`.
pub(super) fn home() -> Option<PathBuf> {
    env::var_os("PAR_HOME").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Every `PAR_SECTION__KEY`: `section.key` → its value and the variable's name.
pub(super) fn overrides() -> Result<BTreeMap<String, (String, String)>, ConfigError> {
    let mut found = BTreeMap::new();
    for (name, value) in env::vars_os() {
        // This copies the whole environment, and a launcher may be forked later: values of other
        // programs are cleared.
        let value = Zeroizing::new(value.into_vec());
        let Some(name) = name.to_str() else { continue };
        let Some((section, key)) = name.strip_prefix("PAR_").and_then(|rest| rest.split_once("__")) else {
            continue;
        };
        let value = String::from_utf8(value.to_vec())
            .map_err(|_| ConfigError::variable(name, "is not valid UTF-8".to_owned()))?;
        let path = match section {
            // A model's name keeps its case, which `PAR_MODELS__NAME__KEY` writes as it is.
            "MODELS" => match key.rsplit_once("__") {
                Some((model, key)) => format!("models.{model}.{}", key.to_ascii_lowercase()),
                None => format!("models.{key}"),
            },
            _ => format!("{}.{}", section.to_ascii_lowercase(), key.to_ascii_lowercase()),
        };
        found.insert(path, (value, name.to_owned()));
    }
    Ok(found)
}

/// A file from the service manager: `name` in `$CREDENTIALS_DIRECTORY`.
pub(super) fn credential(name: &str) -> Option<PathBuf> {
    env::var_os("CREDENTIALS_DIRECTORY").map(|folder| Path::new(&folder).join(name))
}

/// The log key, if the service manager passes it as the credential `log_key`.
#[must_use]
pub fn log_key_file() -> Option<PathBuf> {
    credential("log_key").filter(|path| path.is_file())
}

/// The key in the variable `name`.
pub(super) fn key(name: &str) -> Option<Secret> {
    Secret::new(Zeroizing::new(env::var(name).ok()?).trim().to_owned())
}

/// The usual variable of `provider` and of no other: a key is not sent to another provider's
/// server.
pub(super) fn key_variable(provider: &str) -> Option<&'static str> {
    match provider {
        "openai" | "openai_responses" => Some(OPENAI_KEY),
        "anthropic" => Some(ANTHROPIC_KEY),
        "gemini" => Some(GEMINI_KEY),
        _ => None,
    }
}

/// The caller's own key: `PAR_KEY`, the file in `PAR_KEY_FILE`, or `~/.config/par/key` if only its
/// owner can read it.
pub fn client_key() -> io::Result<Option<Secret>> {
    if let Ok(key) = env::var(CALLER_KEY) {
        return Ok(Secret::new(key.trim().to_owned()));
    }
    let asked = env::var_os(CALLER_KEY_FILE).map(PathBuf::from);
    let named = asked.as_ref().map_or_else(String::new, |_| format!("{CALLER_KEY_FILE}: "));
    let usual = env::var_os("HOME").map(|home| Path::new(&home).join(".config/par/key"));
    let Some(path) = asked.or_else(|| usual.filter(|path| path.is_file())) else { return Ok(None) };
    let at = |e: io::Error| io::Error::new(e.kind(), format!("{named}{}: {e}", path.display()));
    let meta = std::fs::metadata(&path).map_err(at)?;
    if std::os::unix::fs::MetadataExt::mode(&meta) & 0o077 != 0 {
        return Err(io::Error::other(format!(
            "{named}{}: users other than its owner can read it, expected mode 0600; run chmod 600",
            path.display()
        )));
    }
    Ok(Secret::new(std::fs::read_to_string(&path).map_err(at)?.trim().to_owned()))
}

/// The file that remembers the logs the caller has seen: `~/.config/par/known-logs`.
#[must_use]
pub fn known_logs_file() -> Option<PathBuf> {
    env::var_os("HOME").map(|home| Path::new(&home).join(".config/par/known-logs"))
}

/// The server that a caller without a home uses: `PAR_URL`.
pub(super) fn server_url() -> Option<String> {
    env::var("PAR_URL").ok().filter(|url| !url.is_empty())
}

/// Whether a shell with this environment finds programs in `folder` (`PATH`).
#[must_use]
pub fn is_on_search_path(folder: &Path) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|one| one == folder))
}

/// Whether standard output may be coloured: a terminal, and no `NO_COLOR` (no-color.org).
#[must_use]
pub fn is_color_wanted() -> bool {
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && io::stdout().is_terminal()
}

/// The width of the terminal that standard output is connected to, in columns; `None` if it is not
/// a terminal. One that does not say its width has `COLUMNS` columns, or 80.
#[must_use]
pub fn terminal_columns() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let said = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
    let named = || env::var("COLUMNS").ok()?.parse().ok();
    Some(Some(said).filter(|columns| *columns > 0).or_else(named).unwrap_or(80))
}

/// The height of the terminal that standard output is connected to, in lines; `None` if it is not a
/// terminal or does not say it.
#[must_use]
pub fn terminal_rows() -> Option<usize> {
    let stdout = io::stdout();
    let size = rustix::termios::tcgetwinsize(&stdout).ok().filter(|_| stdout.is_terminal())?;
    Some(usize::from(size.ws_row)).filter(|rows| *rows > 0)
}

/// Which log lines are wanted, such as `info` or `par=debug`: `PAR_LOG`.
#[must_use]
pub fn log_filter() -> Option<String> {
    env::var("PAR_LOG").ok().filter(|filter| !filter.is_empty())
}

/// The socket on which the service manager receives status messages (sd_notify(3)).
#[must_use]
pub fn notify_socket() -> Option<OsString> {
    env::var_os("NOTIFY_SOCKET").filter(|value| !value.is_empty())
}

/// The watchdog interval of the service manager, in microseconds (sd_watchdog_enabled(3)).
#[must_use]
pub fn watchdog_us() -> Option<u64> {
    let is_ours = env::var("WATCHDOG_PID").map_or(true, |pid| is_own_pid(&pid));
    env::var("WATCHDOG_USEC").ok().filter(|_| is_ours)?.parse().ok().filter(|us| *us > 0)
}

/// The descriptor of the one connection that the service manager accepted for this process
/// (sd_listen_fds(3)).
#[must_use]
pub fn accepted_connection() -> Option<i32> {
    const FIRST: i32 = 3;
    let is_ours = env::var("LISTEN_PID").is_ok_and(|pid| is_own_pid(&pid));
    let is_one = env::var("LISTEN_FDS").is_ok_and(|count| count == "1");
    (is_ours && is_one).then_some(FIRST)
}

/// The descriptors of the listening sockets that the service manager passed to this process
/// (sd_listen_fds(3)).
#[must_use]
pub fn passed_sockets() -> std::ops::Range<i32> {
    const FIRST: i32 = 3;
    let is_ours = env::var("LISTEN_PID").is_ok_and(|pid| is_own_pid(&pid));
    let count = env::var("LISTEN_FDS").ok().filter(|_| is_ours).and_then(|count| count.parse().ok());
    FIRST..FIRST.saturating_add(count.filter(|count| (0..=64).contains(count)).unwrap_or(0))
}

/// Whether standard error is connected to the journal, which records time and priority of each line
/// (systemd.exec(5), `JOURNAL_STREAM`).
#[must_use]
pub fn is_journal() -> bool {
    let Ok(named) = env::var("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(io::stderr()).is_ok_and(|is| named == format!("{}:{}", is.st_dev, is.st_ino))
}

fn is_own_pid(text: &str) -> bool {
    text.parse() == Ok(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::key_variable;

    #[test]
    fn each_provider_has_a_key_of_its_own() {
        for (provider, expect) in [
            ("openai", Some("OPENAI_API_KEY")),
            ("openai_responses", Some("OPENAI_API_KEY")),
            ("anthropic", Some("ANTHROPIC_API_KEY")),
            ("gemini", Some("GEMINI_API_KEY")),
            ("ollama", None),
            ("offline", None),
            ("OpenAI", None),
        ] {
            assert_eq!(key_variable(provider), expect, "{provider}");
        }
    }
}
