//! Keeps together what the launcher allocates while it serves.
//!
//! Each fork makes every page of the launcher's memory shared until somebody writes to it, and the first write of
//! either side costs a fault. What is read at start leaves holes all over the heap, which an allocator fills first:
//! a call would then touch a page for nearly each allocation. With the holes taken, it touches a few at the heap's end.

use std::hint::black_box;

/// The longest hole that is looked for, in bytes: below what allocators map apart.
const HOLE_BYTES_MAX: usize = 64 << 10;
/// The shortest.
const HOLE_BYTES_MIN: usize = 16;
/// All that is taken, in bytes.
const TAKEN_BYTES_MAX: usize = 2 << 20;

/// Takes the holes of the heap, for good. Where an allocator does not give them by address, nothing is gained, and no
/// more than [`TAKEN_BYTES_MAX`] is lost.
pub(crate) fn close_holes() {
    let mut end = 0;
    let mut taken = 0;
    let mut size = HOLE_BYTES_MAX;
    while size >= HOLE_BYTES_MIN && taken < TAKEN_BYTES_MAX {
        let piece = Vec::<u8>::with_capacity(size);
        let at = black_box(piece.as_ptr()).addr();
        if at >= end {
            // From the heap's end: there is no hole of that size.
            end = at;
            size -= if size > 1024 { size / 8 } else { 16 };
            continue;
        }
        taken += size;
        std::mem::forget(piece);
    }
}
