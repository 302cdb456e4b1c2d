//! What a program needs, from its file.

use crate::cli::exit::Fail;
use crate::tools::program_path;
use std::io::Read as _;

/// Bytes that hold the program headers of an ordinary program.
const HEAD_BYTES_MAX: u64 = 4_096;
/// The type of a program header that names the dynamic loader (`PT_INTERP`).
const LOADER: u32 = 3;

/// `dynamic` or `static`, for the member `runtime`.
pub(super) fn runtime(program: &str) -> Result<&'static str, Fail> {
    let path = program_path(program).map_err(|e| Fail::usage(format!("`--program`: {e}")))?;
    let mut head = Vec::new();
    let file = std::fs::File::open(&path);
    let read = file.and_then(|file| file.take(HEAD_BYTES_MAX).read_to_end(&mut head));
    read.map_err(|e| Fail::failed(format!("{}: {e}", path.display())))?;
    if head.starts_with(b"#!") {
        return Err(Fail::usage(format!(
            "`{program}` is a script: put it into etc/jobs.d/ and write a manifest with `interpreter` and \
             `script`, as docs/tools.md shows"
        )));
    }
    Ok(if is_static(&head).unwrap_or(false) { "static" } else { "dynamic" })
}

/// Whether an ELF file of 64 bits, little-endian, names no loader. `None` for any other file.
fn is_static(head: &[u8]) -> Option<bool> {
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let raw = head.get(at..at.checked_add(bytes)?)?;
        raw.iter().rev().try_fold(0_usize, |all, byte| all.checked_mul(256)?.checked_add(usize::from(*byte)))
    };
    let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for entry in 0..count {
        let kind = number(start.checked_add(entry.checked_mul(size)?)?, 4)?;
        if u32::try_from(kind) == Ok(LOADER) {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::runtime;

    #[test]
    fn a_program_of_the_system_is_dynamic_and_a_script_is_refused() {
        assert_eq!(runtime("/bin/sh").expect("a program"), "dynamic");
        let dir = tempfile::tempdir().expect("folder");
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/bin/sh\ntrue\n").expect("file");
        let refused = runtime(&script.to_string_lossy()).expect_err("a script").to_string();
        assert!(refused.contains("is a script"), "{refused}");
    }
}
