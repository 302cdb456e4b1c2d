//! The child that waits for the permit.

use super::object::Object;
use std::fmt;
use std::sync::Arc;

/// What prepare found, and the child that waits for the permit.
#[derive(Debug)]
pub struct Prepared {
    /// The object that the call is about.
    pub object: Object,
    /// The waiting child.
    pub held: Held,
}

/// A child that waits for go. Dropping this ends the child.
pub struct Held {
    id: u64,
    release: Arc<dyn Fn(u64) + Send + Sync>,
}

impl Held {
    /// Holds the child that the sandbox knows as `id`; `release` is called once, on drop. Releasing
    /// a child that has already ended does nothing.
    pub fn new(id: u64, release: Arc<dyn Fn(u64) + Send + Sync>) -> Self {
        Self { id, release }
    }

    /// The sandbox's id for the child.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        (self.release)(self.id);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({})", self.id)
    }
}
