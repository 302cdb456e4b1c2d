//! Records of logins as the C library writes them (utmp(5)): `wtmp` for those that succeeded,
//! `btmp` for those that failed.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

/// The part of a file that is read, at its end, in bytes.
const FILE_BYTES_MAX: u64 = 32 << 20;
/// Records that are read at once.
const RECORDS_AT_ONCE: usize = 256;
/// Whether times have 64 bits, as on these machines.
const HAS_WIDE_TIMES: bool = cfg!(any(target_arch = "aarch64", target_arch = "loongarch64"));
/// Length of a record, in bytes.
pub(super) const RECORD_BYTES: usize = if HAS_WIDE_TIMES { 400 } else { 384 };
const TYPE_AT: usize = 0;
const USER_AT: usize = 44;
const USER_BYTES: usize = 32;
const HOST_AT: usize = 76;
const HOST_BYTES: usize = 256;
const SECONDS_AT: usize = if HAS_WIDE_TIMES { 344 } else { 340 };

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// The host started.
    Start,
    /// A user logged in; in `btmp`, tried to.
    Login,
    Other,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoginRecord {
    pub(super) kind: RecordKind,
    pub(super) user: String,
    /// A name or an address; empty for a terminal of this host.
    pub(super) from: String,
    /// In seconds since 1970.
    pub(super) at_s: i64,
}

impl LoginRecord {
    fn read(bytes: &[u8]) -> Option<Self> {
        let kind = match u16::from_ne_bytes(bytes.get(TYPE_AT..TYPE_AT + 2)?.try_into().ok()?) {
            2 => RecordKind::Start,
            // LOGIN_PROCESS, which some programs write for a failed login, and USER_PROCESS.
            6 | 7 => RecordKind::Login,
            _ => RecordKind::Other,
        };
        let at_s = match HAS_WIDE_TIMES {
            true => i64::from_ne_bytes(bytes.get(SECONDS_AT..SECONDS_AT + 8)?.try_into().ok()?),
            // Without a sign it lasts until 2106.
            false => u32::from_ne_bytes(bytes.get(SECONDS_AT..SECONDS_AT + 4)?.try_into().ok()?).into(),
        };
        let user = text(bytes.get(USER_AT..USER_AT + USER_BYTES)?);
        let from = text(bytes.get(HOST_AT..HOST_AT + HOST_BYTES)?);
        Some(Self { kind, user, from, at_s })
    }
}

/// Up to the first NUL.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// Calls `each` with the records of `file`, oldest first. Returns whether earlier ones were left
/// out, or the file could not be read to its end.
pub(super) fn each_record(mut file: File, size_bytes: u64, mut each: impl FnMut(&LoginRecord)) -> bool {
    let length = RECORD_BYTES as u64;
    // A record that is being written is not whole yet.
    let whole = size_bytes / length * length;
    let from = whole.saturating_sub(FILE_BYTES_MAX / length * length);
    if file.seek(SeekFrom::Start(from)).is_err() {
        return true;
    }
    let mut file = file.take(whole - from);
    let mut buffer = vec![0; RECORD_BYTES * RECORDS_AT_ONCE];
    let mut filled = 0;
    loop {
        match file.read(buffer.get_mut(filled..).unwrap_or_default()) {
            Ok(0) => return from > 0,
            Ok(read) => filled += read,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return true,
        }
        let used = filled / RECORD_BYTES * RECORD_BYTES;
        let records = buffer.get(..used).unwrap_or_default().chunks_exact(RECORD_BYTES);
        records.filter_map(LoginRecord::read).for_each(|record| each(&record));
        buffer.copy_within(used..filled, 0);
        filled -= used;
    }
}

/// A record with these values, for tests.
#[cfg(test)]
pub(super) fn record_bytes(kind: u16, user: &str, from: &str, at_s: u32) -> Vec<u8> {
    let mut bytes = vec![0; RECORD_BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(TYPE_AT, &kind.to_ne_bytes());
    put(USER_AT, user.as_bytes());
    put(HOST_AT, from.as_bytes());
    put(
        SECONDS_AT,
        &if HAS_WIDE_TIMES { i64::from(at_s).to_ne_bytes().to_vec() } else { at_s.to_ne_bytes().to_vec() },
    );
    bytes
}
