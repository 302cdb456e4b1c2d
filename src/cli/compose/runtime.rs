//! The threads that commands run on.

use crate::cli::exit::Fail;

/// Stack of each thread, in bytes.
const STACK_BYTES: usize = 8 << 20;

/// Builds a runtime with as many threads as the host has processors.
pub(in crate::cli) fn runtime() -> Result<tokio::runtime::Runtime, Fail> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Cedar evaluates policies by recursion.
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(Fail::failed)
}
