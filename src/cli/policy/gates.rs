//! Rules that ask a person, in messages about other rules.

use crate::cli::exit::Fail;
use crate::policy::Bundle;

/// Adds which approval to ask for, if a confirmation does not satisfy a rule that is in force.
pub(super) fn with_gate(fail: Fail, bundle: &Bundle) -> Fail {
    let asks = |(id, _): (&str, String)| {
        let group = bundle.asked_group(id).filter(|_| fail.what.contains(id))?;
        Some(format!(
            "\npar: `{id}` asks the group `{group}` about these calls already, and a confirmation does not replace \
             that: say `--until approved:{group}`"
        ))
    };
    let hints: String = bundle.policies().filter_map(asks).collect();
    let what = format!("{}{hints}", fail.what);
    Fail { what, ..fail }
}
