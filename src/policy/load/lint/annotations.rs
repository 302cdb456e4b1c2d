//! Annotations that PAR does not know, or that would have no effect.

use super::finding::{LintFinding, LintPlace};
use crate::policy::load::annotations::{CONFIRM, EXPIRES, KNOWN, TAINTED, asks, span_s};
use crate::policy::load::mode;
use crate::policy::load::scope::fits_action;
use crate::tools::{Catalog, Class};
use crate::types::{limits, text};
use cedar_policy::{ActionConstraint, Effect, Policy};

/// Every fault in the annotations of `policy`.
pub(in crate::policy) fn faults(policy: &Policy, catalog: &Catalog) -> Vec<LintFinding> {
    let mut found: Vec<LintFinding> = policy.annotations().filter_map(|(name, _)| unknown(name)).collect();
    let known = [useless_approval(policy), unknown_mode(policy), tainted(policy, catalog), expires(policy)];
    found.extend(known.into_iter().flatten());
    found
}

fn finding(name: &str, reason: String, mend: impl Into<String>) -> LintFinding {
    LintFinding { at: LintPlace::Near(format!("@{name}")), reason, mend: mend.into() }
}

/// A misspelled annotation looks like one that asks a person, and does nothing.
fn unknown(name: &str) -> Option<LintFinding> {
    if KNOWN.contains(&name) {
        return None;
    }
    let nearest = KNOWN.into_iter().map(|known| (distance(name, known), known)).min();
    let meant = nearest.filter(|(distance, known)| *distance * 3 <= known.len());
    let mend = match meant {
        Some((_, known)) => format!("did you mean `@{known}`?"),
        None => format!("the annotations are {}", KNOWN.map(|known| format!("@{known}")).join(", ")),
    };
    Some(finding(name, format!("unknown annotation `@{}`", text::visible_line(name)), mend))
}

/// The number of letters to insert, remove or replace to get from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (at, have) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row, vec![at + 1]).into_iter();
        let mut corner = diagonal.next().unwrap_or_default();
        for (want, above) in to.chars().zip(diagonal) {
            let left = row.last().copied().unwrap_or_default();
            row.push((left + 1).min(above + 1).min(corner + usize::from(have != want)));
            corner = above;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// An annotation that asks for approval where it would have no effect.
fn useless_approval(policy: &Policy) -> Option<LintFinding> {
    let name =
        ["require_approval", "require_confirm"].into_iter().find(|name| policy.annotation(name).is_some())?;
    if policy.effect() == Effect::Permit {
        let reason = format!("`@{name}` has no effect on a permit");
        return Some(finding(name, reason, "write it on a separate `forbid`"));
    }
    (policy.annotation("require_approval") == Some("")).then(|| {
        let mend = "name one of `[groups]`: `@require_approval(\"release\")`";
        finding(name, "`@require_approval` names no group".to_owned(), mend)
    })
}

/// An unknown mode. PAR does not guess its meaning.
fn unknown_mode(policy: &Policy) -> Option<LintFinding> {
    let mode = policy.annotation("mode").filter(|mode| *mode != mode::MODE)?;
    let mend =
        "write `@mode(\"shadow\")` for a rule that is only reported, or remove `@mode` for one that decides";
    Some(finding("mode", format!("unknown mode `@mode(\"{mode}\")`"), mend))
}

/// `@tainted` with another value, or where no session is denied anything because it is tainted.
fn tainted(policy: &Policy, catalog: &Catalog) -> Option<LintFinding> {
    let value = policy.annotation(TAINTED)?;
    if value != CONFIRM {
        let reason = format!("unknown value `@tainted(\"{}\")`", text::visible_line(value));
        return Some(finding(TAINTED, reason, "its only value is `confirm`: `@tainted(\"confirm\")`"));
    }
    if policy.effect() == Effect::Forbid {
        let reason = "`@tainted` has no effect on a `forbid`".to_owned();
        return Some(finding(TAINTED, reason, "write it on the `permit` whose calls a person may confirm"));
    }
    let names_tools = match policy.action_constraint() {
        ActionConstraint::Any => false,
        ActionConstraint::Eq(_) | ActionConstraint::In(_) => true,
    };
    let mut in_reach = catalog.manifests().filter(|m| fits_action(policy, &m.name, m.class)).peekable();
    let is_useless = names_tools && in_reach.peek().is_some() && in_reach.all(|m| m.class != Class::Admin);
    is_useless.then(|| {
        let reason = "`@tainted` has no effect: the rule permits no tool of the class `admin`".to_owned();
        finding(TAINTED, reason, "only those are denied to a run that has read untrusted output")
    })
}

/// `@expires` that is not a span, or on a rule that asks no person.
fn expires(policy: &Policy) -> Option<LintFinding> {
    let words = policy.annotation(EXPIRES)?;
    if policy.effect() == Effect::Permit || !asks(policy) {
        let reason = "`@expires` has no effect on a rule that asks no person".to_owned();
        let mend = "write it next to `@require_approval(\"group\")` or `@require_confirm(\"\")`";
        return Some(finding(EXPIRES, reason, mend));
    }
    let most = limits::APPROVAL_MS_MAX / 1_000;
    (!span_s(words).is_some_and(|span_s| (1..=most).contains(&span_s))).then(|| {
        let reason =
            format!("`@expires(\"{}\")` is not a span of at most seven days", text::visible_line(words));
        finding(EXPIRES, reason, "write a number and a unit: `90s`, `30m`, `8h` or `7d`")
    })
}

#[cfg(test)]
mod tests {
    use super::distance;
    use crate::policy::load::annotations::span_s;

    #[test]
    fn the_distance_of_words() {
        let check =
            |from: &str, to: &str, expect: usize| assert_eq!(distance(from, to), expect, "{from} {to}");
        check("mode", "mode", 0);
        check("requires_approval", "require_approval", 1);
        check("expire", "expires", 1);
        check("", "mode", 4);
        check("taint", "tainted", 2);
        check("dvaice", "advice", 2);
    }

    #[test]
    fn a_span_is_a_number_and_a_unit() {
        let check = |words: &str, expect: Option<u64>| assert_eq!(span_s(words), expect, "{words}");
        check("90s", Some(90));
        check("30m", Some(1_800));
        check("8h", Some(28_800));
        check("7d", Some(604_800));
        for bad in [
            "",
            "h",
            "8",
            "8 h",
            "+8h",
            "-8h",
            "1.5h",
            "8w",
            "8é",
            "99999999999999999999d",
            "9999999999999999999d",
        ] {
            check(bad, None);
        }
    }
}
