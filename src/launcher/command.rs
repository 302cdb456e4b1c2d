//! The command line of the binary `par-launcher`: serves one connection of the front as one
//! launcher.

use super::attend::attend;
use super::spec::{Spec, StartError};
use crate::config::{Config, Home, accepted_connection};
use crate::types::VERSION;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::path::PathBuf;

const USAGE: &str = "\
Starts tools for a front at the other end of a socket

Usage: par-launcher [OPTIONS] --front-user <USER>

Options:
      --home <DIR>         Home folder with etc/, data/ and workspace/ [default: the service's folders, else ./par-home; env: PAR_HOME]
      --etc <DIR>          Folder of configuration and tools [default: the home's etc/]
      --fd <N>             Descriptor of the accepted connection [default: the one that the service manager passed]
      --front-user <USER>  User that the front runs as, a name or a uid; any other peer is refused
      --journal <DIR>      Write a journal of orders and ends to this folder, which only this user may access
  -h, --help               Print help
  -V, --version            Print version
";

/// Exit codes, the same as those of `par`.
const FAILED: u8 = 1;
const MISUSED: u8 = 2;

/// The options of a launcher that serves one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServeOptions {
    /// The descriptor of the accepted connection; `None` takes the one that the service manager
    /// passed.
    pub fd: Option<i32>,
    /// The user that the front runs as: a name or a uid.
    pub front_user: String,
    /// The folder of its journal; `None` keeps no journal.
    pub journal: Option<PathBuf>,
}

/// Why a launcher ended early, with the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitError {
    /// 2 if the command line or the configuration is wrong, else 1.
    pub code: u8,
    /// The reason, for people.
    pub reason: String,
}

impl ExitError {
    fn misused(reason: impl Display) -> Self {
        Self { code: MISUSED, reason: reason.to_string() }
    }
}

impl From<StartError> for ExitError {
    fn from(error: StartError) -> Self {
        Self { code: FAILED, reason: error.to_string() }
    }
}

impl ServeOptions {
    /// Serves the connection until the front is gone. Returns the exit code.
    ///
    /// The caller has one thread.
    pub fn run(&self, home: Home) -> Result<u8, ExitError> {
        let none = || {
            ExitError::misused(
                "no connection was passed: start it through par-launcher.socket, or pass --fd N",
            )
        };
        let fd = self.fd.or_else(accepted_connection).ok_or_else(none)?;
        let front = uid(&self.front_user)?;
        // The launcher reads the files itself, without any secret: nothing that decides comes from
        // the front.
        let config = Config::load(home).map_err(ExitError::misused)?;
        let spec = Spec { journal: self.journal.clone(), ..Spec::from_config(&config) };
        Ok(attend(&spec, fd, front)?)
    }
}

/// The uid of the user `name` of this host; a number is taken as it is.
fn uid(name: &str) -> Result<u32, ExitError> {
    use nix::unistd::User;
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => {
            Err(ExitError::misused(format!("unknown user `{name}`, expected a user of this host or a uid")))
        }
        Err(e) => {
            let reason = format!("cannot look up the user `{name}`: {e}");
            Err(ExitError { code: FAILED, reason })
        }
    }
}

/// What a command line asks for.
#[derive(Debug, PartialEq, Eq)]
enum CommandLine {
    Help,
    Version,
    Run { home: Option<PathBuf>, etc: Option<PathBuf>, command: ServeOptions },
}

/// Runs the binary with this process's arguments. Returns the exit code.
#[must_use]
pub fn main() -> u8 {
    let ran = match asked(std::env::args_os().skip(1)) {
        Ok(CommandLine::Help) => {
            print!("{USAGE}");
            return 0;
        }
        Ok(CommandLine::Version) => {
            println!("par-launcher {VERSION}");
            return 0;
        }
        Ok(CommandLine::Run { home, etc, command }) => Home::locate(home.as_deref(), etc.as_deref())
            .map_err(|e| ExitError::misused(format!("cannot locate the home: {e}")))
            .and_then(|home| command.run(home)),
        Err(reason) => Err(ExitError::misused(reason)),
    };
    ran.unwrap_or_else(|refused| {
        eprintln!("par-launcher: {}", refused.reason);
        refused.code
    })
}

/// Reads `--name value` and `--name=value`.
fn asked(words: impl Iterator<Item = OsString>) -> Result<CommandLine, String> {
    let (mut home, mut etc, mut command) = (None, None, ServeOptions::default());
    let mut front_user = None;
    let mut words = words;
    while let Some(word) = words.next() {
        let shown = word.to_string_lossy().into_owned();
        let (name, inline) = match shown.split_once('=') {
            Some((name, _)) if shown.starts_with("--") => (name, rest_of(&word)),
            _ => (shown.as_str(), None),
        };
        let mut value = || inline.clone().or_else(|| words.next()).ok_or(format!("`{name}` needs a value"));
        match name {
            "-h" | "--help" => return Ok(CommandLine::Help),
            "-V" | "--version" => return Ok(CommandLine::Version),
            "--home" => home = Some(PathBuf::from(value()?)),
            "--etc" => etc = Some(PathBuf::from(value()?)),
            "--journal" => command.journal = Some(PathBuf::from(value()?)),
            "--front-user" => front_user = Some(text(name, value()?)?),
            "--fd" => {
                let number = text(name, value()?)?;
                command.fd = Some(number.parse().map_err(|_| format!("`--fd`: `{number}` is not a number"))?);
            }
            _ => return Err(format!("unexpected argument `{shown}`, see --help")),
        }
    }
    command.front_user = front_user.ok_or("`--front-user` is required")?;
    Ok(CommandLine::Run { home, etc, command })
}

/// The bytes after the first `=`.
fn rest_of(word: &OsStr) -> Option<OsString> {
    use std::os::unix::ffi::OsStrExt as _;
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    bytes.get(at + 1..).map(|rest| OsStr::from_bytes(rest).to_owned())
}

fn text(name: &str, value: OsString) -> Result<String, String> {
    value.into_string().map_err(|_| format!("`{name}`: not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::{CommandLine, ServeOptions, asked};

    fn parse(words: &[&str]) -> Result<CommandLine, String> {
        asked(words.iter().map(Into::into))
    }

    #[test]
    fn arguments_are_read_as_the_unit_writes_them() {
        let words = ["--home", "/h", "--etc=/e", "--front-user", "par", "--journal", "/j=1", "--fd=3"];
        let command =
            ServeOptions { fd: Some(3), front_user: "par".to_owned(), journal: Some("/j=1".into()) };
        let home = Some("/h".into());
        assert_eq!(parse(&words), Ok(CommandLine::Run { home, etc: Some("/e".into()), command }));
        assert_eq!(parse(&["--help"]), Ok(CommandLine::Help));
        assert_eq!(parse(&["-V", "--what"]), Ok(CommandLine::Version));
        assert_eq!(parse(&[]), Err("`--front-user` is required".to_owned()));
        assert_eq!(parse(&["--front-user"]), Err("`--front-user` needs a value".to_owned()));
        assert_eq!(parse(&["--fd", "x"]), Err("`--fd`: `x` is not a number".to_owned()));
        assert_eq!(parse(&["serve"]), Err("unexpected argument `serve`, see --help".to_owned()));
    }
}
