//! A connection with an end: a call that waits for a peer can still say how far it came, which it
//! could not after the launcher's clock has ended it.

use super::unix::bound_waits;
use crate::types::clock::mono_us;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long one read or write waits before the time is looked at.
const WAIT: Duration = Duration::from_millis(100);

/// A connected socket, as a file: the filter allows only reading and writing.
pub(crate) struct TimedSocket {
    file: File,
    /// When reading and writing end, by [`mono_us`].
    pub(crate) end_us: u64,
}

impl TimedSocket {
    /// Ends after four fifths of the time that the call may take. Sets options of the socket, so
    /// this comes before the last filter.
    pub(crate) fn new(socket: OwnedFd, wall_ms_max: u64) -> std::result::Result<Self, String> {
        bound_waits(&socket, WAIT)?;
        let most_us = wall_ms_max.saturating_mul(800);
        Ok(Self { file: File::from(socket), end_us: mono_us().saturating_add(most_us) })
    }

    fn until_end<T>(&mut self, mut one: impl FnMut(&mut File) -> Result<T>) -> Result<T> {
        while mono_us() < self.end_us {
            match one(&mut self.file) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
        Err(Error::new(ErrorKind::TimedOut, "no more came in time"))
    }
}

impl Read for TimedSocket {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        self.until_end(|file| file.read(into))
    }
}

impl Write for TimedSocket {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.until_end(|file| file.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::TimedSocket;
    use std::io::{ErrorKind, Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    /// A peer that sends a byte at a time, each in time, does not move the end.
    #[test]
    fn a_slow_peer_and_a_silent_one_end_in_time() {
        let (ours, mut theirs) = UnixStream::pair().expect("sockets");
        let mut timed = TimedSocket::new(ours.into(), 500).expect("a socket");
        let slow = std::thread::spawn(move || {
            while theirs.write_all(b"x").is_ok() {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        let mut all = Vec::new();
        let ended = timed.read_to_end(&mut all).expect_err("an end");
        assert!(ended.kind() == ErrorKind::TimedOut && !all.is_empty(), "{ended}");
        drop(timed);
        slow.join().expect("joined");
        let (ours, _theirs) = UnixStream::pair().expect("sockets");
        let mut timed = TimedSocket::new(ours.into(), 500).expect("a socket");
        assert_eq!(timed.read(&mut [0]).expect_err("an end").kind(), ErrorKind::TimedOut);
    }
}
