//! What a call leaves out below its object.

use super::object::FileId;
use serde::{Deserialize, Serialize};

/// What a call leaves out below its object: that file or folder by whatever name it is met, and whatever is
/// met under that name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    /// Absolute path without links.
    pub canonical: String,
    /// Device and inode; `None` where nothing was there when it was decided on.
    pub id: Option<FileId>,
}
