//! Reads of the disk, kept off the threads that serve.

use super::problem::Problem;

/// Reads from the disk, aside from the threads that serve.
pub(super) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(read).await.map_err(Problem::internal)?
}
