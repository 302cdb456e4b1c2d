//! The floors that the ledger is compared with.

use par::types::Digest;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Length of the flat file; a writer at its end continues at its beginning.
const FLAT_BYTES: u64 = 256 << 20;

/// A file whose blocks are already written: syncing it moves data and no metadata.
pub struct Flat {
    file: File,
    at: u64,
}

impl Flat {
    pub fn make(below: &Path) -> Self {
        let file = tempfile::tempfile_in(below).expect("flat file");
        let block = vec![7; 1 << 20];
        for at in (0..FLAT_BYTES).step_by(block.len()) {
            file.write_all_at(&block, at).expect("written");
        }
        file.sync_all().expect("synced");
        Self { file, at: 0 }
    }

    /// Writes and syncs.
    pub fn append(&mut self, bytes: &[u8]) {
        if self.at + bytes.len() as u64 > FLAT_BYTES {
            self.at = 0;
        }
        self.file.write_all_at(bytes, self.at).expect("written");
        self.file.sync_data().expect("synced");
        self.at += bytes.len() as u64;
    }
}

/// An entry's bytes, and the channel that reports their sync.
type Task = (Vec<u8>, oneshot::Sender<()>);

/// Appends to a flat file from a thread that drains its queue into one write and one sync.
#[derive(Clone)]
pub struct Group(mpsc::Sender<Task>);

impl Group {
    pub fn start(mut flat: Flat) -> Self {
        let (sender, mut queue) = mpsc::channel::<Task>(4_096);
        std::thread::spawn(move || {
            while let Some((mut bytes, reply)) = queue.blocking_recv() {
                let mut replies = vec![reply];
                while let Ok((more, reply)) = queue.try_recv() {
                    bytes.extend(more);
                    replies.push(reply);
                }
                flat.append(&bytes);
                for reply in replies {
                    reply.send(()).expect("a waiting caller");
                }
            }
        });
        Self(sender)
    }

    pub async fn append(&self, bytes: Vec<u8>) {
        let (reply, answer) = oneshot::channel();
        self.0.send((bytes, reply)).await.expect("sent");
        answer.await.expect("answered");
    }
}

/// Header, salt and body of one entry.
pub type Bytes = (Vec<u8>, Vec<u8>, Vec<u8>);

/// A few entries of a ledger, in memory.
pub fn sample(ledger: &Path, entries: i64) -> Vec<Bytes> {
    let db = rusqlite::Connection::open(ledger).expect("database");
    let sql = "SELECT header, salt, body FROM entry JOIN payload USING (seq) ORDER BY seq LIMIT ?1";
    let mut statement = db.prepare(sql).expect("statement");
    let rows = statement.query_map([entries], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    rows.expect("rows").collect::<Result<_, _>>().expect("row")
}

/// Time to hash the leaves and the tree of as many entries as `times` samples on one core; with
/// `payloads` also their commitments.
pub fn hashing(sample: &[Bytes], times: usize, payloads: bool) -> Duration {
    let began = Instant::now();
    let mut peaks: Vec<(u32, Digest)> = Vec::new();
    for (header, salt, body) in (0..times).flat_map(|_| sample) {
        if payloads {
            std::hint::black_box(Digest::sha256_parts(&[b"par/payload/1\0", salt, body]));
        }
        let (mut height, mut hash) = (0, Digest::sha256_parts(&[&[0], header]));
        while let Some((_, left)) = peaks.pop_if(|(left, _)| *left == height) {
            hash = Digest::sha256_parts(&[&[1], &left.0, &hash.0]);
            height += 1;
        }
        peaks.push((height, hash));
    }
    std::hint::black_box(peaks);
    began.elapsed()
}

/// Time of a plain SELECT over all rows of all segments that reads each column.
pub fn scan(data: &Path) -> Duration {
    let began = Instant::now();
    let mut bytes = 0;
    for segment in segments(data) {
        let db = rusqlite::Connection::open(segment).expect("database");
        let sql = "SELECT e.seq, e.header, p.salt, p.body FROM entry e LEFT JOIN payload p USING (seq) ORDER BY e.seq";
        let mut statement = db.prepare(sql).expect("statement");
        let mut rows = statement.query([]).expect("rows");
        while let Some(row) = rows.next().expect("row") {
            for column in 1..4 {
                bytes += row.get_ref(column).expect("column").as_blob().map_or(0, <[u8]>::len);
            }
        }
    }
    std::hint::black_box(bytes);
    began.elapsed()
}

/// SQLite's own check of all segments.
pub fn integrity(data: &Path) {
    for segment in segments(data) {
        let db = rusqlite::Connection::open(segment).expect("database");
        let said: String = db.query_row("PRAGMA integrity_check(5)", [], |row| row.get(0)).expect("checked");
        assert_eq!(said, "ok");
    }
}

/// The ledger's files.
pub fn segments(data: &Path) -> Vec<PathBuf> {
    let is_segment = |path: &PathBuf| {
        let name = path.file_name().expect("name").to_string_lossy();
        name.starts_with("ledger") && name.ends_with(".db")
    };
    let files = std::fs::read_dir(data).expect("folder").map(|file| file.expect("file").path());
    files.filter(is_segment).collect()
}
