//! The annotations of rules that PAR reads.

use cedar_policy::{Effect, Policy};

/// Every annotation that a rule can have.
pub(in crate::policy) const KNOWN: [&str; 7] =
    ["id", "advice", "require_approval", "require_confirm", "expires", "tainted", "mode"];

/// The annotation of a permit whose calls a person may confirm in a session that has read untrusted
/// output, although their tools have the class `admin`.
pub(in crate::policy) const TAINTED: &str = "tainted";
/// The only value of `@tainted`.
pub(in crate::policy) const CONFIRM: &str = "confirm";

/// How long an approval that a rule asks for may be given: `@expires("8h")`.
pub(in crate::policy) const EXPIRES: &str = "expires";

/// Whether `policy` is a permit that decides and has `@tainted("confirm")`.
pub(in crate::policy) fn lifts_taint(policy: &Policy) -> bool {
    policy.effect() == Effect::Permit
        && policy.annotation("mode").is_none()
        && policy.annotation(TAINTED) == Some(CONFIRM)
}

/// Whether `policy` asks a person instead of denying.
pub(in crate::policy) fn asks(policy: &Policy) -> bool {
    ["require_approval", "require_confirm"].iter().any(|name| policy.annotation(name).is_some())
}

/// A span such as `90s`, `30m`, `8h` or `7d`, in seconds.
pub(in crate::policy) fn span_s(words: &str) -> Option<u64> {
    let (number, unit) = words.split_at_checked(words.len().checked_sub(1)?)?;
    let unit_s = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let is_plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse::<u64>().ok().filter(|_| is_plain)?.checked_mul(unit_s)
}
