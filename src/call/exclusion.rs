//! What a call leaves out below its object.

use super::object::FileId;
use serde::{Deserialize, Serialize};

/// What a call leaves out below its object: that file or folder under whatever name a walk finds
/// it, and whatever a walk finds under that name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    /// Absolute path without links.
    pub canonical: String,
    /// Device and inode; `None` if nothing was there at the time of the decision.
    pub id: Option<FileId>,
}
