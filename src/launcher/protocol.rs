//! Messages between front and launcher, and between launcher and child, over `SOCK_SEQPACKET`.
//!
//! A packet is a kind, a call's id, whether more follows, and bytes: output as it is, or a piece of
//! a JSON message. Splitting messages into pieces keeps one packet below the kernel's socket
//! buffer.

use crate::call::{End, Exclusion, Given, Object, Unprepared};
use crate::types::limits::{LINK_MESSAGE_BYTES_MAX, LINK_UNFINISHED_BYTES_MAX};
use crate::types::{Digest, Level};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recv, recvmsg, send, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// Size of one piece, in bytes.
pub(crate) const PIECE_BYTES_MAX: usize = 32 << 10;
/// Size of one packet of any kind, with its head, in bytes.
pub(crate) const PACKET_BYTES_MAX: usize = HEAD_BYTES + PIECE_BYTES_MAX;
/// Size of one message of a child, in bytes: a single packet.
pub(crate) const CHILD_MESSAGE_BYTES_MAX: usize = 128 << 10;
/// Messages whose last piece has not arrived.
const PARTIAL_MAX: usize = 256;
const HEAD_BYTES: usize = 10;

/// A call as the front requests it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ask {
    /// The tool's name.
    pub(crate) tool: String,
    /// The manifest's digest, in hexadecimal.
    pub(crate) manifest: String,
    /// Canonical JSON.
    pub(crate) arguments: String,
    /// Absolute paths; the answer reports those that are the object or contain it.
    pub(crate) named: Vec<String>,
}

/// A prepared call that may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Go {
    pub(crate) tool: String,
    pub(crate) manifest: String,
    /// SHA-256 of the canonical arguments, which the launcher has from [`Ask`].
    pub(crate) arguments: Digest,
    /// The ledger's sequence number of the decision, for the launcher's journal.
    pub(crate) decision: u64,
    /// The object that was decided on.
    pub(crate) object: Object,
    /// What is left out below it.
    pub(crate) exclusions: Vec<Exclusion>,
    /// Proof that the front searches output for the secrets that the tool is given, in hexadecimal.
    pub(crate) secrets: Option<String>,
}

/// Front to launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Prepare(Ask),
    Go(Go),
    Release,
    /// Asks whether the launcher still answers.
    Ping,
}

/// Launcher to front; output has its own kinds of packets.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The first reply, under id 0: ready, or why not.
    Hello(Result<Report, String>),
    Prepared(Object),
    NotPrepared(Unprepared),
    Ended(Ended),
    Pong,
}

/// The end of a call, sent after its last output.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) end: End,
    pub(crate) layers: Vec<String>,
    /// Set for a call that was confined.
    pub(crate) level: Option<Level>,
    pub(crate) protections: BTreeMap<String, Vec<String>>,
    pub(crate) given: Given,
    pub(crate) wall_us: u64,
}

/// Child to launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ChildMessage {
    /// Resolved; waits for go.
    Ready(Object),
    /// With the lock on a folder that the call changes, for the launcher to hold until the call has
    /// no process left.
    Holds,
    /// Every layer is enforced; what follows is the tool.
    Confined(Vec<String>),
    /// The program's own end, from the call's init.
    Ended(End),
    /// A demanded step failed, or the object has changed: nothing was run.
    Refused(String),
}

/// What a launcher found when it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The launcher's pid in the host's numbering.
    pub pid: u32,
    /// The tools that it loaded, each with its manifest's digest in hexadecimal, sorted by name.
    pub tools: Vec<ToolDigest>,
    /// The layers that every call gets, such as `landlock abi 7`.
    pub layers: Vec<String>,
    /// What is missing on this machine, and what that means.
    pub missing: Vec<String>,
    /// Granted folders that do not exist.
    pub skipped: Vec<SkippedRoot>,
    /// Tools that will be refused, each with the reason.
    pub refused: Vec<RefusedTool>,
    /// Programs as they were opened.
    pub programs: Vec<ProgramDigest>,
    /// Mounts of the host at, above and below what manifests name. Tools see later mounts there
    /// only after a reload.
    pub mounted: Vec<Mounted>,
    /// The level that this machine reaches.
    pub level: Option<Level>,
    /// Each protection of a builtin's call, with the layers that were seen to provide it.
    pub protections: BTreeMap<String, Vec<String>>,
    /// The same for a program's call.
    pub program_protections: BTreeMap<String, Vec<String>>,
    /// What keeps the level below `strict`, for people.
    pub lacking: Vec<String>,
    /// The salt of the proofs of secrets. Chosen by the launcher, and not recorded.
    pub salt: [u8; 32],
    /// The cgroup features that are missing here, and what that means. Groups are an extra: no
    /// level depends on them.
    pub groups_missing: Vec<String>,
}

/// A mount of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounted {
    /// The mount point.
    pub path: String,
    /// What is mounted: the device number and the folder on that device, the same in every mount
    /// namespace.
    pub of: String,
}

/// A manifest as a launcher read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDigest {
    /// The tool's name.
    pub tool: String,
    /// SHA-256 of the manifest, in hexadecimal.
    pub sha256: String,
}

/// A granted folder that was absent when the launcher started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedRoot {
    /// The tool whose manifest grants it.
    pub tool: String,
    /// The folder's path.
    pub path: PathBuf,
}

/// A tool that cannot be called on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedTool {
    /// The tool's name.
    pub tool: String,
    /// What is not as demanded.
    pub reason: String,
}

/// A tool's program, opened once and run by that descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramDigest {
    /// The tool's name.
    pub tool: String,
    /// SHA-256 of the program's file, in hexadecimal.
    pub sha256: String,
}

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketKind {
    Message,
    Stdout,
    Stderr,
}

impl PacketKind {
    fn byte(self) -> u8 {
        match self {
            Self::Message => b'm',
            Self::Stdout => b'o',
            Self::Stderr => b'e',
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Message, Self::Stdout, Self::Stderr].into_iter().find(|kind| kind.byte() == byte)
    }
}

/// A packet of `kind` for the call `id`. `bytes` is at most [`PIECE_BYTES_MAX`] long.
pub(crate) fn packet(kind: PacketKind, id: u64, more: bool, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_BYTES + bytes.len());
    out.push(kind.byte());
    out.extend(id.to_le_bytes());
    out.push(u8::from(more));
    out.extend(bytes);
    out
}

/// Splits `message` into packets, in order.
pub(crate) fn packets(id: u64, message: &impl Serialize) -> Result<Vec<Vec<u8>>, String> {
    let bytes = serde_json::to_vec(message).map_err(|e| e.to_string())?;
    if bytes.len() > LINK_MESSAGE_BYTES_MAX {
        return Err(format!("a message of more than {LINK_MESSAGE_BYTES_MAX} bytes"));
    }
    let count = bytes.len().div_ceil(PIECE_BYTES_MAX);
    let pieces = bytes.chunks(PIECE_BYTES_MAX).enumerate();
    Ok(pieces.map(|(at, piece)| packet(PacketKind::Message, id, at + 1 < count, piece)).collect())
}

/// What one packet completed.
#[derive(Debug)]
pub(crate) enum Arrival<M> {
    Message(u64, M),
    Output(u64, PacketKind, Vec<u8>),
    /// A piece; the rest is still to come.
    Piece,
}

/// Reassembles split messages in bounded memory, counted over all messages. A malformed packet is
/// an error.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    partial: HashMap<u64, Vec<u8>>,
    /// Bytes of all partial messages together.
    held_bytes: usize,
}

impl Assembler {
    /// Takes one packet.
    pub(crate) fn take<M: DeserializeOwned>(&mut self, packet: &[u8]) -> Result<Arrival<M>, String> {
        let (head, bytes) = packet.split_at_checked(HEAD_BYTES).ok_or("a packet without a head")?;
        let (&[kind], rest) = head.split_first_chunk::<1>().ok_or("a packet without a kind")?;
        let kind = PacketKind::from_byte(kind).ok_or("a packet of unknown kind")?;
        let (id, more) = rest.split_first_chunk::<8>().ok_or("a packet without a number")?;
        let id = u64::from_le_bytes(*id);
        if kind != PacketKind::Message {
            return Ok(Arrival::Output(id, kind, bytes.to_vec()));
        }
        if self.partial.len() >= PARTIAL_MAX {
            return Err("too many unfinished messages".to_owned());
        }
        if self.held_bytes + bytes.len() > LINK_UNFINISHED_BYTES_MAX {
            return Err(format!("unfinished messages of more than {LINK_UNFINISHED_BYTES_MAX} bytes"));
        }
        self.held_bytes += bytes.len();
        self.partial.entry(id).or_default().extend(bytes);
        if more != [0] {
            return Ok(Arrival::Piece);
        }
        let whole = self.partial.remove(&id).unwrap_or_default();
        self.held_bytes = self.held_bytes.saturating_sub(whole.len());
        let message = serde_json::from_slice(&whole).map_err(|e| format!("a malformed message: {e}"))?;
        Ok(Arrival::Message(id, message))
    }
}

/// Sends one packet. `Ok(false)` if the socket is full and nonblocking.
pub(crate) fn send_packet(socket: impl AsFd, packet: &[u8]) -> Result<bool, Errno> {
    loop {
        match send(&socket, packet, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(false),
            Err(e) => return Err(e),
        }
    }
}

/// Like [`send_packet`], with a descriptor of which the other side gets a copy.
pub(crate) fn send_with(socket: impl AsFd, packet: &[u8], fd: Option<BorrowedFd<'_>>) -> Result<bool, Errno> {
    let Some(fd) = fd else { return send_packet(socket, packet) };
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = [fd];
        // There is room for exactly this one.
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        match sendmsg(&socket, &[IoSlice::new(packet)], &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(false),
            Err(e) => return Err(e),
        }
    }
}

/// The result of a receive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Packet(Vec<u8>),
    /// Nothing yet.
    Nothing,
    /// The other side is gone.
    End,
}

/// Receives one packet of at most `bytes_max`; a longer one is cut and will not parse.
pub(crate) fn receive(socket: impl AsFd, bytes_max: usize) -> Received {
    receive_with(socket, bytes_max).0
}

/// Like [`receive`], with the first descriptor that was passed; the kernel closes any further one,
/// since the buffer has room for one.
pub(crate) fn receive_with(socket: impl AsFd, bytes_max: usize) -> (Received, Option<OwnedFd>) {
    loop {
        // The length first: a buffer for the longest packet would cost more than the packet.
        let waiting = recv(&socket, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::TRUNC);
        let mut buffer = match waiting {
            Ok((_, length)) => vec![0_u8; length.min(bytes_max)],
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => return (Received::Nothing, None),
            Err(_) => return (Received::End, None),
        };
        if buffer.is_empty() {
            return (Received::End, None);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received =
            recvmsg(&socket, &mut [IoSliceMut::new(&mut buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        let fds = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let fd = fds.flatten().next();
        return match received {
            Ok(message) if message.bytes == 0 => (Received::End, None),
            Ok(message) => {
                buffer.truncate(message.bytes);
                (Received::Packet(buffer), fd)
            }
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => (Received::Nothing, None),
            Err(_) => (Received::End, None),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrival, Ask, Assembler, PIECE_BYTES_MAX, PacketKind, Request, packet, packets};
    use crate::types::limits::LINK_UNFINISHED_BYTES_MAX;

    fn ask(named: usize) -> Ask {
        let named = (0..named).map(|at| format!("/named/{at}")).collect();
        Ask { tool: "t".to_owned(), manifest: "d".to_owned(), arguments: "{}".to_owned(), named }
    }

    #[test]
    fn long_messages_are_reassembled_between_others() {
        let long = packets(1, &Request::Prepare(ask(20_000))).expect("packets");
        let short = packets(2, &Request::Release).expect("packets");
        assert!(long.len() > 2);
        let mut assembler = Assembler::default();
        let (last, pieces) = long.split_last().expect("a last");
        for piece in pieces {
            assert!(matches!(assembler.take::<Request>(piece), Ok(Arrival::Piece)));
        }
        let other = assembler.take::<Request>(&short[0]);
        assert!(matches!(other, Ok(Arrival::Message(2, Request::Release))));
        match assembler.take::<Request>(last) {
            Ok(Arrival::Message(1, Request::Prepare(back))) => assert_eq!(back, ask(20_000)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn unfinished_messages_share_one_limit() {
        let piece = |id: u64| packet(PacketKind::Message, id, true, &[b' '; PIECE_BYTES_MAX]);
        let mut assembler = Assembler::default();
        let most = LINK_UNFINISHED_BYTES_MAX / PIECE_BYTES_MAX;
        // As many messages as there are pieces, or a few.
        for spread in [200, 4] {
            for at in 0..most as u64 {
                let taken = assembler.take::<Request>(&piece(at % spread));
                assert!(matches!(taken, Ok(Arrival::Piece)), "piece {at} of {most}: {taken:?}");
            }
            assert!(assembler.take::<Request>(&piece(0)).is_err());
            assembler = Assembler::default();
        }
        // A finished message does not count any more.
        let whole = packets(1, &Request::Prepare(ask(200_000))).expect("packets");
        for _ in 0..4 {
            for piece in &whole {
                assembler.take::<Request>(piece).expect("within the bound");
            }
        }
    }

    #[test]
    fn malformed_packets_are_errors() {
        for packet in [&b""[..], b"m", b"x0000000000", b"m\0\0\0\0\0\0\0\0\0{", b"m\0\0\0\0\0\0\0\0\0null"] {
            assert!(Assembler::default().take::<Request>(packet).is_err(), "{packet:?}");
        }
    }
}
