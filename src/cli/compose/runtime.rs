//! The threads that commands work on.

use crate::cli::exit::Fail;

/// The stack of a thread that works on requests.
const STACK_BYTES: usize = 8 << 20;

/// A runtime for commands; the server's has as many threads as there are processors.
pub(in crate::cli) fn runtime() -> Result<tokio::runtime::Runtime, Fail> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Policies are evaluated by recursion.
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(Fail::failed)
}
