//! The largest files and folders below a folder, by what they take on disk.
//!
//! The sandbox walks the folders; this adds up what it finds.

use super::answer::{Answer, FRAME_BYTES, Fitting, integer, put_text, stamped};
use super::search_files::Skip;
use crate::types::clock::mono_us;
use rustix::fs::StatVfs;
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Entries of each list that are returned if the call sets no limit.
const LIMIT_DEFAULT: u64 = 20;
/// Files with several names that are remembered, so that each counts once.
const LINKED_MAX: usize = 500_000;

/// The largest paths of one kind: the smallest of them is on top.
type Largest = BinaryHeap<Reverse<(u64, Vec<u8>)>>;

/// A walk under way: what was found so far.
#[derive(Debug)]
pub struct LargestPaths {
    path: String,
    limit: usize,
    room: usize,
    end_us: u64,
    files: Largest,
    folders: Largest,
    linked: BTreeSet<u64>,
    files_seen: u64,
    folders_seen: u64,
    bytes_found: u64,
    skipped: BTreeMap<Skip, u64>,
    excluded: u64,
    stopped_by: Option<&'static str>,
}

impl LargestPaths {
    /// A walk below `path`. The answer has at most as many paths of each kind as the arguments say
    /// and fits `output_bytes_max`; after `end_us` ([`mono_us`]) nothing more is looked at.
    #[must_use]
    pub fn new(path: &str, arguments: &Value, output_bytes_max: usize, end_us: u64) -> Self {
        Self {
            path: path.to_owned(),
            limit: usize::try_from(integer(arguments, "limit", LIMIT_DEFAULT)).unwrap_or(usize::MAX),
            room: output_bytes_max.saturating_sub(2 * FRAME_BYTES) / 2,
            end_us,
            files: Largest::new(),
            folders: Largest::new(),
            linked: BTreeSet::new(),
            files_seen: 0,
            folders_seen: 0,
            bytes_found: 0,
            skipped: BTreeMap::new(),
            excluded: 0,
            stopped_by: None,
        }
    }

    /// Whether time is left.
    pub fn goes_on(&mut self) -> bool {
        if mono_us() >= self.end_us {
            self.stop("time");
        }
        self.stopped_by.is_none()
    }

    /// Stops the walk for this reason; the first reason counts.
    pub fn stop(&mut self, by: &'static str) {
        self.stopped_by.get_or_insert(by);
    }

    /// Counts something that was not looked at.
    pub fn skip(&mut self, why: impl Into<Skip>) {
        *self.skipped.entry(why.into()).or_default() += 1;
    }

    /// Counts a path that policies exclude. Its name and its size are not returned.
    pub fn exclude(&mut self) {
        self.excluded += 1;
    }

    /// Adds an entry that is not a folder, with what it takes on disk; returns what it adds to its
    /// folder: nothing, if it was counted under another name. `linked` is the inode of a file with
    /// several names.
    pub fn file(&mut self, path: impl FnOnce() -> Vec<u8>, bytes: u64, linked: Option<u64>) -> u64 {
        if let Some(inode) = linked {
            if self.linked.len() >= LINKED_MAX {
                self.stop("links");
            }
            if !self.linked.insert(inode) {
                return 0;
            }
        }
        self.files_seen += 1;
        self.bytes_found = self.bytes_found.saturating_add(bytes);
        keep(&mut self.files, self.limit, bytes, path);
        bytes
    }

    /// Adds a folder: `own` bytes for its list of names, `total` with everything in it.
    pub fn folder(&mut self, path: &[u8], own: u64, total: u64) {
        self.folders_seen += 1;
        self.bytes_found = self.bytes_found.saturating_add(own);
        keep(&mut self.folders, self.limit, total, || path.to_vec());
    }

    /// The largest paths, and which share of the blocks in use on the file system they explain.
    pub fn answer(self, file_system: Option<&StatVfs>, host: &str) -> Answer {
        let (files, files_cut) = listed(self.files, self.limit, self.room);
        let (folders, folders_cut) = listed(self.folders, self.limit, self.room);
        let mut answer = json!({
            "path": self.path,
            "files": files,
            "folders": folders,
            "files_seen": self.files_seen,
            "folders_seen": self.folders_seen,
            "found_bytes": self.bytes_found,
            "skipped_by": self.skipped,
            "excluded": self.excluded,
            "truncated": self.stopped_by.is_some() || files_cut || folders_cut,
        });
        if let Some(members) = answer.as_object_mut() {
            members.extend(self.stopped_by.map(|by| ("stopped_by".to_owned(), json!(by))));
            if let Some(stat) = file_system {
                let used = stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(stat.f_frsize);
                let share = self.bytes_found.saturating_mul(100).checked_div(used).unwrap_or(0);
                members.insert("file_system_used_bytes".to_owned(), json!(used));
                members.insert("explained_percent".to_owned(), json!(share.min(100)));
            }
            members
                .insert("not_seen".to_owned(), json!(["removed_files_that_are_still_open", "other_mounts"]));
        }
        Ok(stamped(answer, host))
    }
}

/// Keeps the `limit` largest.
fn keep(largest: &mut Largest, limit: usize, bytes: u64, path: impl FnOnce() -> Vec<u8>) {
    let is_large = largest.peek().is_none_or(|Reverse((smallest, _))| bytes > *smallest);
    if largest.len() < limit || is_large {
        largest.push(Reverse((bytes, path())));
        if largest.len() > limit {
            largest.pop();
        }
    }
}

fn listed(largest: Largest, limit: usize, room: usize) -> (Vec<Value>, bool) {
    let mut list = Fitting::new(limit as u64, room);
    // The order of the reversed pairs: the largest first.
    for Reverse((bytes, path)) in largest.into_sorted_vec() {
        let mut one = Map::new();
        put_text(&mut one, ["path", "path_base64"], &path);
        one.insert("on_disk_bytes".to_owned(), json!(bytes));
        list.push(Value::Object(one));
    }
    list.finish()
}

#[cfg(test)]
mod tests {
    use super::LargestPaths;
    use serde_json::json;

    #[test]
    fn the_largest_are_kept_and_links_count_once() {
        let mut walk = LargestPaths::new("/d", &json!({ "limit": 2 }), 65_536, u64::MAX);
        for (name, bytes, linked) in
            [("a", 5, None), ("b", 9, Some(1)), ("c", 9, Some(1)), ("d", 7, None), ("e", 1, None)]
        {
            walk.file(|| name.as_bytes().to_vec(), bytes, linked);
        }
        walk.file(|| b"\xff".to_vec(), 8, None);
        walk.folder(b"/d", 4, 34);
        walk.exclude();
        let answer = walk.answer(None, "h").expect("an answer");
        assert_eq!(
            answer["files"],
            json!([{ "path": "b", "on_disk_bytes": 9 }, { "path_base64": "/w==", "on_disk_bytes": 8 }])
        );
        assert_eq!(answer["folders"], json!([{ "path": "/d", "on_disk_bytes": 34 }]));
        let counts = ["files_seen", "found_bytes", "excluded"].map(|name| answer[name].as_u64());
        assert_eq!(counts, [Some(5), Some(34), Some(1)]);
        assert_eq!(answer["truncated"], false);
        let mut late = LargestPaths::new("/d", &json!({}), 65_536, 0);
        assert!(!late.goes_on());
        assert_eq!(late.answer(None, "h").expect("an answer")["stopped_by"], "time");
    }
}
