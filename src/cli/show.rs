//! Lines on standard output and standard error, with control characters from outside made visible.

use super::exit::Fail;
use crate::config::is_color_wanted;
use crate::types::text;
use serde::Serialize;
use serde_json::Value;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

/// Writes a line to standard output. A reader that has closed the pipe is not an error.
pub(super) fn line(text: &str) -> Result<(), Fail> {
    bytes(format!("{text}\n").as_bytes())
}

/// Writes bytes to standard output, like [`line`].
pub(super) fn bytes(bytes: &[u8]) -> Result<(), Fail> {
    match std::io::stdout().lock().write_all(bytes) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Fail::failed(e)),
        _ => Ok(()),
    }
}

/// Writes a line that must reach a reader: a closed pipe is an error, and so is the null device,
/// which replaces a standard output that was closed before this process started.
pub(super) fn hand_over(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let stat = rustix::fs::fstat(&stdout)?;
    let is_device = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_char_device();
    if is_device && stat.st_rdev == rustix::fs::makedev(1, 3) {
        return Err(std::io::Error::other("standard output is closed or `/dev/null`"));
    }
    writeln!(stdout, "{text}")?;
    stdout.flush()
}

/// Writes a message to standard error. A failure to write it is ignored.
pub(super) fn note(text: &str) {
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}

/// Says on standard error that the ledger is damaged, if it is, next to what a list shows of it.
pub(super) fn damage(what: Option<&str>) {
    if let Some(what) = what {
        note(&format!("par: {what}"));
    }
}

/// Writes one JSON object on a line.
pub(super) fn json(value: &impl Serialize) -> Result<(), Fail> {
    line(&serde_json::to_string(value).map_err(Fail::failed)?)
}

/// Formats a number and a noun, with the plural if the number is not 1.
pub(super) fn counted(count: u64, one: &str) -> String {
    match one.strip_suffix('y') {
        _ if count == 1 => format!("1 {one}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {one}s"),
    }
}

/// Prints a whole result, with control characters made visible.
pub(super) fn result(result: &Value) -> Result<(), Fail> {
    line(&text::visible(&serde_json::to_string_pretty(result).map_err(Fail::failed)?))
}

/// Colours the text if colours are wanted.
pub(super) fn paint(code: &str, words: &str) -> String {
    if is_color_wanted() { format!("\u{1b}[{code}m{words}\u{1b}[0m") } else { words.to_owned() }
}

/// The path as a shell reads it back.
pub(super) fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%,".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The member at a JSON pointer on one line, empty if it is missing.
pub(super) fn word(value: &Value, at: &str) -> String {
    match value.pointer(at) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(words)) => text::visible_line(words),
        Some(other) => text::visible_line(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::shell_word;
    use std::path::Path;

    #[test]
    fn a_shell_reads_a_path_back_as_it_is() {
        for (path, expect) in [
            ("/srv/par-home", "/srv/par-home"),
            ("/srv/my home", "'/srv/my home'"),
            ("/srv/it's", r"'/srv/it'\''s'"),
            ("/srv/$HOME:x", "'/srv/$HOME:x'"),
        ] {
            assert_eq!(shell_word(Path::new(path)), expect);
        }
    }
}
