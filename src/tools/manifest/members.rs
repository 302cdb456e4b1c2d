//! Tools that read what belongs to many units: `members = "Service"` in `[resource]`.
//!
//! Rules decide on each unit that they name, as on a path below a folder.

use super::error::{Fault, with_lines};
use super::raw::{RawManifest, RawResource};
use super::words::{Builtin, IdKind};

/// The line that a manifest needs.
const LINE: &str = "members = \"Service\"";

impl RawManifest {
    /// Whether the tool reads what belongs to the units of this host. A builtin that lists them
    /// must say so, and no other builtin may.
    pub(super) fn reads_units(&self, raw: &RawResource) -> Result<bool, Fault> {
        let say = |reason: &str| Err(("[resource]", reason.to_owned()));
        let lists = self.builtin.is_some_and(Builtin::lists_units);
        match raw.members.as_deref() {
            None if lists => {
                let reason = "this builtin lists units, and rules decide on each of them";
                Err(("[resource]", with_lines(reason, LINE)))
            }
            None => Ok(false),
            Some(kind) if kind != IdKind::Service.as_str() => say("`members` can only be `Service`"),
            Some(_) if raw.is.is_none() => say("`members` is for tools with `is = \"localhost\"`"),
            Some(_) if !lists && (self.builtin.is_some() || self.front.is_some()) => {
                say("this tool reads nothing of units")
            }
            Some(_) => Ok(true),
        }
    }
}
