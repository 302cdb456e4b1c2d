//! A key, typed or pasted on the terminal without echo, or piped in.

use crate::cli::exit::Fail;
use crate::types::{Secret, limits};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios};
use rustix::termios::{tcflush, tcgetattr, tcsetattr};
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Stdin, Write as _};
use zeroize::Zeroizing;

/// The byte that a terminal sends for an interrupt, while it does not turn it into a signal.
const INTERRUPT: u8 = 3;

/// Asks for a key with `prompt`. Without a terminal, reads one line from standard input.
pub(super) fn ask(prompt: &str) -> Result<Secret, Fail> {
    let stdin = io::stdin();
    let line = if stdin.is_terminal() { quietly(&stdin, prompt) } else { line(&stdin) };
    key(line.map_err(|e| Fail::failed(format!("the key could not be read: {e}")))?.trim_ascii())
}

/// Reads a line while the terminal shows nothing of it.
fn quietly(stdin: &Stdin, prompt: &str) -> io::Result<Zeroizing<Vec<u8>>> {
    // What was typed before the question is not the answer.
    tcflush(stdin, QueueSelector::IFlush)?;
    let quiet = QuietTerminal::begin(stdin)?;
    eprint!("{prompt}");
    io::stderr().flush()?;
    let typed = line(stdin);
    drop(quiet);
    eprintln!();
    typed
}

fn line(stdin: &Stdin) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(limits::MODEL_KEY_BYTES_MAX + 2));
    let most = limits::MODEL_KEY_BYTES_MAX as u64 + 2;
    stdin.lock().take(most).read_until(b'\n', &mut bytes)?;
    Ok(bytes)
}

/// Checks that an HTTP header can carry the key.
fn key(typed: &[u8]) -> Result<Secret, Fail> {
    if typed.contains(&INTERRUPT) {
        return Err(Fail::failed("nothing was stored: interrupted"));
    }
    if typed.len() > limits::MODEL_KEY_BYTES_MAX {
        return Err(Fail::usage(format!("the key is over {} bytes", limits::MODEL_KEY_BYTES_MAX)));
    }
    if !typed.iter().all(u8::is_ascii_graphic) {
        return Err(Fail::usage("the key contains a space or a character that is not printable ASCII"));
    }
    let text = std::str::from_utf8(typed).unwrap_or_default().to_owned();
    Secret::new(text).ok_or_else(|| Fail::usage("nothing was stored: the key is empty"))
}

/// A terminal that does not echo, until it is dropped. An interrupt arrives as a character, so that
/// the terminal is never left silent.
struct QuietTerminal<'a> {
    stdin: &'a Stdin,
    before: Termios,
}

impl<'a> QuietTerminal<'a> {
    fn begin(stdin: &'a Stdin) -> io::Result<Self> {
        let before = tcgetattr(stdin)?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ISIG);
        tcsetattr(stdin, OptionalActions::Now, &quiet)?;
        Ok(Self { stdin, before })
    }
}

impl Drop for QuietTerminal<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no echo.
        let _gone = tcsetattr(self.stdin, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::key;

    #[test]
    fn a_key_is_printable_and_bounded() {
        for (typed, expect) in [
            (&b"sk-1"[..], None),
            (b"", Some("is empty")),
            (b"sk 1", Some("contains a space")),
            ("sk-\u{e9}".as_bytes(), Some("contains a space")),
            (b"sk-\x1b[A", Some("contains a space")),
            (b"sk-\x03", Some("interrupted")),
            (&[b'x'; 4_097], Some("over 4096 bytes")),
        ] {
            let error = key(typed).err().map(|fail| fail.what);
            match (&error, expect) {
                (None, None) => {}
                (Some(error), Some(expect)) => assert!(error.contains(expect), "{error}"),
                _ => panic!("{typed:?}: {error:?}, not {expect:?}"),
            }
        }
    }
}
