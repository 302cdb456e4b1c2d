//! Whether runs are taken. What keeps them from being taken is one word.

use std::sync::{Arc, Mutex, PoisonError};

const STARTING: &str = "starting";

/// Whether runs are taken, as one word for why not. Shared by all clones.
#[derive(Clone, Debug)]
pub struct Ready(Arc<Mutex<Option<&'static str>>>);

impl Ready {
    /// Not yet.
    #[must_use]
    pub fn starting() -> Self {
        Self(Arc::new(Mutex::new(Some(STARTING))))
    }

    /// Sets the word, such as `stopping` or `policy`; `None` is ready. It is told without a key.
    pub fn set(&self, obstacle: Option<&'static str>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = obstacle;
    }

    /// The listener is open: what was set meanwhile stays.
    pub(super) fn begin(&self) {
        let mut word = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *word = word.filter(|word| *word != STARTING);
    }

    pub(super) fn obstacle(&self) -> Option<&'static str> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
