//! Part of a regular file, as text or as base64.

use super::answer::{Answer, FRAME_BYTES, NOT_FOUND, integer, json_len, shown};
use rustix::buffer::spare_capacity;
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, pread};
use serde_json::{Value, json};
use std::os::fd::BorrowedFd;

/// Bytes that are read if the call sets no limit.
const LIMIT_DEFAULT: u64 = 16_384;

/// Reads the part of `file` that `arguments` ask for. The file is open for reading; `path` is its
/// name.
///
/// The answer holds `path`, `size`, `offset`, `bytes`, `truncated`, and `text` if the bytes are
/// UTF-8, else `base64`. It fits `output_bytes_max`. A file that grows, shrinks or is sparse
/// changes only what is read: the loop is bounded by the limit, never by the size.
pub fn read_file(file: BorrowedFd<'_>, path: &str, arguments: &Value, output_bytes_max: usize) -> Answer {
    let stat = fstat(file).map_err(|_| NOT_FOUND.to_owned())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(format!("`{path}` is not a regular file"));
    }
    let offset = integer(arguments, "offset", 0);
    let room = output_bytes_max.saturating_sub(FRAME_BYTES + json_len(path));
    let limit = usize::try_from(integer(arguments, "limit", LIMIT_DEFAULT)).unwrap_or(usize::MAX);
    // Base64 takes four bytes for three, so this much fits whatever the bytes are.
    let bytes = read_at(file, offset, limit.min(room / 4 * 3)).map_err(|e| format!("`{path}`: {e}"))?;
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let truncated = offset.saturating_add(bytes.len() as u64) < size;
    let (key, content, read) = shown(&bytes, truncated, room);
    Ok(json!({
        "path": path, "size": size, "offset": offset, key: content, "bytes": read, "truncated": truncated,
    }))
}

fn read_at(file: BorrowedFd<'_>, offset: u64, limit: usize) -> Result<Vec<u8>, Errno> {
    // Not zeroed first: most files are shorter than the limit.
    let mut bytes = Vec::with_capacity(limit);
    while bytes.len() < limit {
        let at = offset.saturating_add(bytes.len() as u64);
        match pread(file, spare_capacity(&mut bytes), at) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    // The vector may reserve more than requested.
    bytes.truncate(limit);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::read_file;
    use crate::tools::builtin::answer::{hold_to_schema, stamped};
    use serde_json::{Value, json};
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    fn read(content: &[u8], arguments: &Value, output_bytes_max: usize) -> Value {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(content).expect("written");
        let answer = read_file(file.as_fd(), "/f", arguments, output_bytes_max).expect("an answer");
        hold_to_schema(include_str!("../../../tools.d/read_file.toml"), &stamped(answer.clone(), "h"));
        answer
    }

    #[test]
    fn text_base64_offset_and_limit() {
        let check = |content: &[u8], arguments: Value, expect: Value| {
            assert_eq!(read(content, &arguments, 4096), expect, "{arguments}");
        };
        let all = json!({});
        check(
            b"",
            all.clone(),
            json!({"path":"/f","size":0,"offset":0,"text":"","bytes":0,"truncated":false}),
        );
        check(
            b"a\x1b",
            all.clone(),
            json!({"path":"/f","size":2,"offset":0,"text":"a\u{1b}","bytes":2,"truncated":false}),
        );
        check(
            b"a\xff",
            all,
            json!({"path":"/f","size":2,"offset":0,"base64":"Yf8=","bytes":2,"truncated":false}),
        );
        let two = json!({"limit":2});
        check(
            "aé".as_bytes(),
            two,
            json!({"path":"/f","size":3,"offset":0,"text":"a","bytes":1,"truncated":true}),
        );
        let far = json!({"offset":9_007_199_254_740_991_u64});
        check(
            b"abc",
            far,
            json!({"path":"/f","size":3,"offset":9_007_199_254_740_991_u64,"text":"","bytes":0,"truncated":false}),
        );
    }

    #[test]
    fn the_answer_fits_the_output_limit() {
        for byte in [0_u8, b'a', 0xff] {
            for cap in [2_000, 10_000, 262_144] {
                let answer = read(&vec![byte; 70_000], &json!({"limit":65_536}), cap);
                assert!(answer.to_string().len() < cap, "{byte} in {cap}");
            }
        }
    }
}
