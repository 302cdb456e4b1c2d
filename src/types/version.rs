//! The version of this program.

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
