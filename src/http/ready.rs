//! Whether runs are accepted. The reason against is one word.

use std::sync::{Arc, Mutex, PoisonError};

const STARTING: &str = "starting";

/// Whether runs are accepted, or one word for why not. Clones share the state.
#[derive(Clone, Debug)]
pub struct Ready(Arc<Mutex<Option<&'static str>>>);

impl Ready {
    /// The initial state: not ready.
    #[must_use]
    pub fn starting() -> Self {
        Self(Arc::new(Mutex::new(Some(STARTING))))
    }

    /// Sets the reason, such as `stopping` or `policy`; `None` means ready. Callers without a key
    /// can read it.
    pub fn set(&self, obstacle: Option<&'static str>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = obstacle;
    }

    /// The listener is open. A reason that was set in the meantime stays.
    pub(super) fn begin(&self) {
        let mut word = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *word = word.filter(|word| *word != STARTING);
    }

    pub(super) fn obstacle(&self) -> Option<&'static str> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
