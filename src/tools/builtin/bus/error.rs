//! Why a call over the bus failed.

use crate::types::text;
use std::io;

/// Bytes of a peer's own words that an error repeats.
const WORDS_BYTES_MAX: usize = 300;

/// Why a call over the bus failed. Its text is for the result of a failed call, which is untrusted.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// Reading or writing failed.
    #[error("the bus: {0}")]
    Io(io::Error),
    /// Nothing came within the time limit of the socket.
    #[error("the bus did not answer in time")]
    Late,
    /// The connection ended in the middle.
    #[error("the bus closed the connection")]
    Closed,
    /// The bus does not accept this user.
    #[error("the bus rejects this user")]
    Rejected,
    /// What came is not a message.
    #[error("the bus sent a malformed message: {0}")]
    Malformed(&'static str),
    /// What came exceeds a limit.
    #[error("the bus sent more than a call may read: {0}")]
    Excess(&'static str),
    /// The reply has another form than the method's documentation says.
    #[error("the reply to `{0}` has an unexpected form")]
    Unexpected(&'static str),
    /// The peer answered with an error.
    #[error("{name}: {words}")]
    Peer {
        /// The error's name, such as `org.freedesktop.systemd1.NoSuchUnit`.
        name: String,
        /// What the peer says about it.
        words: String,
    },
}

impl BusError {
    /// The error that a peer answered with.
    pub(super) fn peer(name: &str, words: &str) -> Self {
        let shown = |words: &str| text::visible_line(text::prefix(words, WORDS_BYTES_MAX));
        Self::Peer { name: shown(name), words: shown(words) }
    }
}

impl From<io::Error> for BusError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Late,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                Self::Closed
            }
            _ => Self::Io(error),
        }
    }
}
