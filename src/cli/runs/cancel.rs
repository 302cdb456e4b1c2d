//! `par runs cancel` without a server.

use crate::agent::CancelError;
use crate::auth::Principal;
use crate::cli::exit::{self, Fail};
use crate::cli::local::Inside;
use crate::policy::Door;
use crate::types::RunId;

/// Without a server, only a run that waits for a person has not ended: it ends here.
pub(super) async fn here(
    home: &Inside,
    by: &Principal,
    id: &RunId,
    reason: Option<String>,
) -> Result<u64, Fail> {
    let stop = home.agent.cancel(by, Door::LOCAL, id, reason).await.map_err(|e| match e {
        CancelError::Unknown | CancelError::Ended(_) => Fail::failed(e),
        CancelError::MayNot(_) => Fail::new(exit::DENIED, e),
        CancelError::Stop(_) | CancelError::Read(_) => Fail::failed(e),
    })?;
    home.agent.resume(&home.requesters, id).await.map_err(Fail::failed)?;
    Ok(stop.seq)
}
