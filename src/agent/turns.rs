//! Whose turn it is in a session: one run at a time.

use crate::types::SessionId;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The sessions in which a run is being begun or is under way. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionTurns(Arc<Mutex<BTreeSet<SessionId>>>);

/// A session that nothing else of this process enters, until it is dropped.
#[derive(Debug)]
pub(super) struct SessionTurn {
    turns: SessionTurns,
    session: SessionId,
}

impl SessionTurns {
    /// Enters a session; `None` if it is entered already.
    pub(super) fn enter(&self, session: &SessionId) -> Option<SessionTurn> {
        let mut entered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = entered.insert(session.clone());
        is_free.then(|| SessionTurn { turns: self.clone(), session: session.clone() })
    }
}

impl Drop for SessionTurn {
    fn drop(&mut self) {
        self.turns.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.session);
    }
}
