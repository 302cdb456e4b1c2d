//! A key, typed or pasted on the terminal without echo, or piped in.

use crate::cli::compose;
use crate::cli::exit::Fail;
use crate::types::{Secret, limits};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios};
use rustix::termios::{tcflush, tcgetattr, tcsetattr};
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Stdin, Write as _};
use tokio::signal::unix::{Signal, SignalKind, signal};
use zeroize::Zeroizing;

/// The byte of an interrupt, if no terminal turns it into a signal.
const INTERRUPT: u8 = 3;

/// The value of a terminal's special character that is off (`_POSIX_VDISABLE`).
const OFF: u8 = 0;

/// Asks for a key with `prompt`. Without a terminal, reads one line from standard input.
pub(super) fn ask(prompt: &str) -> Result<Secret, Fail> {
    let stdin = io::stdin();
    let unread = |e: io::Error| Fail::failed(format!("the key could not be read: {e}"));
    let line = match stdin.is_terminal() {
        false => line(&stdin).map_err(unread)?,
        true => {
            let runtime = compose::runtime()?;
            let typed = runtime.block_on(quietly(&stdin, prompt)).map_err(unread);
            // The thread that reads goes on until the process ends.
            runtime.shutdown_background();
            typed?.ok_or_else(interrupted)?
        }
    };
    key(line.trim_ascii())
}

fn interrupted() -> Fail {
    Fail::failed("nothing was stored: interrupted")
}

/// Reads a line while the terminal shows nothing of it; `None` after a signal to end.
async fn quietly(stdin: &Stdin, prompt: &str) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    // Heard from before the terminal is silent until it shows again what is typed.
    let mut ends = EndingSignals::open()?;
    // What was typed before the question is not the answer.
    tcflush(stdin, QueueSelector::IFlush)?;
    let quiet = QuietTerminal::begin(stdin)?;
    eprint!("{prompt}");
    io::stderr().flush()?;
    let typed = tokio::select! {
        biased;
        () = ends.heard() => Ok(None),
        typed = tokio::task::spawn_blocking(|| line(&io::stdin())) => {
            typed.map_err(io::Error::other).and_then(|typed| typed.map(Some))
        }
    };
    drop(quiet);
    eprintln!();
    typed
}

/// The signals that end a command. Each would leave the terminal without echo.
struct EndingSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl EndingSignals {
    fn open() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        let (terminate, hangup) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        Ok(Self { interrupt, terminate, hangup })
    }

    async fn heard(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
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
        return Err(interrupted());
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

/// A terminal that does not echo, until it is dropped. It sends no signal that would stop or kill
/// the process meanwhile, except the interrupt, which is handled.
struct QuietTerminal<'a> {
    stdin: &'a Stdin,
    before: Termios,
}

impl<'a> QuietTerminal<'a> {
    fn begin(stdin: &'a Stdin) -> io::Result<Self> {
        let before = tcgetattr(stdin)?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
        quiet.special_codes[SpecialCodeIndex::VSUSP] = OFF;
        quiet.special_codes[SpecialCodeIndex::VQUIT] = OFF;
        tcsetattr(stdin, OptionalActions::Now, &quiet)?;
        Ok(Self { stdin, before })
    }
}

impl Drop for QuietTerminal<'_> {
    fn drop(&mut self) {
        // The rest of a key that was typed is not the next command. A terminal that is gone needs
        // no echo.
        let _gone = tcsetattr(self.stdin, OptionalActions::Flush, &self.before);
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
