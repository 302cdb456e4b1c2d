//! Blocking reads, run outside the threads that serve requests.

use super::problem::Problem;

/// Runs a blocking read outside the threads that serve requests.
pub(super) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(read).await.map_err(Problem::internal)?
}
