//! Compares two suites: cases that were added, removed or changed.

use crate::policy::load::suite::case::{AskCase, Case, CasePlace, Expect, Offered, Who};
use crate::policy::load::suite::file::Suite;
use std::collections::{BTreeMap, BTreeSet};

/// Cases by file and name, in that order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaseChanges {
    /// Cases that only the new suite has.
    pub added: Vec<String>,
    /// Cases that only the old suite has.
    pub removed: Vec<String>,
    /// Cases whose content differs.
    pub changed: Vec<String>,
}

impl CaseChanges {
    /// Whether the suites have the same cases.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Suite {
    /// What differs in `next`. The line of a case does not count.
    #[must_use]
    pub fn changes(&self, next: &Self) -> CaseChanges {
        let (old, new) = (self.texts(), next.texts());
        let missing_from = |from: &CaseTexts, those: &CaseTexts| {
            those.keys().filter(|name| !from.contains_key(*name)).cloned().collect::<Vec<_>>()
        };
        let changed = new.iter().filter(|(name, said)| old.get(*name).is_some_and(|old| old != *said));
        CaseChanges {
            added: missing_from(&old, &new),
            removed: missing_from(&new, &old),
            changed: changed.map(|(name, _)| name.clone()).collect(),
        }
    }

    fn texts(&self) -> CaseTexts {
        let mut texts = CaseTexts::new();
        for case in &self.cases {
            texts.entry(format!("{}: {}", case.place.file, case.name)).or_default().insert(of_case(case));
        }
        for offered in &self.offered {
            let Offered { place: CasePlace { file, .. }, who, tools } = offered;
            let name = format!("{file}: offered {who}");
            texts.entry(name).or_default().insert(format!("{tools:?} {}", of_who(who)));
        }
        for ask in &self.asks {
            texts.entry(format!("{}: {}", ask.place.file, ask.name)).or_default().insert(of_ask(ask));
        }
        texts
    }
}

/// The content of each case, for each combination.
type CaseTexts = BTreeMap<String, BTreeSet<String>>;

fn of_case(case: &Case) -> String {
    // Names every member, so that a new one does not compile until it is compared.
    let Case {
        place: _,
        name: _,
        who,
        tool,
        arguments,
        resource,
        within,
        approved,
        approver,
        now_us,
        source_ip,
        channel,
        counts,
        origins,
        is_chosen,
        is_halted,
        expect: Expect { word, policies, asks },
    } = case;
    let who = of_who(who);
    format!(
        "{who} {tool} {arguments:?} {resource:?} {within:?} {approved:?} {approver:?} {now_us} {source_ip:?} \
         {channel:?} {counts:?} {origins:?} {is_chosen} {is_halted} {word} {policies:?} {asks:?}"
    )
}

fn of_ask(case: &AskCase) -> String {
    let AskCase {
        place: _,
        name: _,
        who,
        sink,
        input_tokens,
        fallback_of,
        now_us,
        source_ip,
        channel,
        expect: Expect { word, policies, asks: _ },
    } = case;
    let who = of_who(who);
    format!(
        "{who} {sink:?} {input_tokens} {fallback_of:?} {now_us} {source_ip:?} {channel:?} {word} {policies:?}"
    )
}

fn of_who(who: &Who) -> String {
    let Who { role, user, key, groups, ceiling, taint, seen, calls_used, budget, risk } = who;
    format!(
        "{role:?} {user:?} {key:?} {groups:?} {ceiling:?} {taint:?} {seen:?} {calls_used} {budget} {risk}"
    )
}

#[cfg(test)]
mod tests {
    use super::{CaseChanges, Suite};
    use crate::policy::tests::source;

    fn check(new: &str, expect: [&[&str]; 3]) {
        let parse = |text: &str| Suite::parse(&[source("policies/tests/p.toml", text)]).expect("suite");
        let changes = parse(OLD).changes(&parse(new));
        let [added, removed, changed] =
            expect.map(|names| names.iter().map(|name| format!("policies/tests/p.toml: {name}")).collect());
        assert_eq!(changes, CaseChanges { added, removed, changed }, "{new}");
    }

    const OLD: &str = "[[case]]\nname = \"a\"\nrole = [\"operator\", \"admin\"]\ntool = \"health_check\"\nexpect = \"allow\"\n\
                       [[case]]\nname = \"b\"\nrole = \"viewer\"\ntool = \"health_check\"\nexpect = \"deny\"\n\
                       [[offered]]\nrole = \"viewer\"\ntools = []\n";

    #[test]
    fn a_changed_case_is_reported() {
        check(OLD, [&[], &[], &[]]);
        check(&format!("# moved\n\n{OLD}"), [&[], &[], &[]]);
        check(&OLD.replace("name = \"b\"", "name = \"c\""), [&["c"], &["b"], &[]]);
        check(&OLD.replace("tools = []", "tools = [\"x\"]"), [&[], &[], &["offered viewer"]]);
        check(&OLD.replace(", \"admin\"", ""), [&[], &[], &["a"]]);
        for key in [
            "risk = 1",
            "budget = 1",
            "calls_used = 1",
            "ceiling = []",
            "taint = [\"x\"]",
            "seen = [\"x\"]",
            "user = \"ana\"",
            "resource = \"localhost\"",
            "arguments = { x = 1 }",
            "within = [\"/x\"]",
            "approved = \"confirmed\"",
            "approver = \"ana\"",
            "now = \"2031-01-01T00:00:00Z\"",
            "source_ip = \"::1\"",
            "calls_hour = 1",
            "policies = []",
        ] {
            check(
                &OLD.replace("expect = \"deny\"", &format!("expect = \"deny\"\n{key}")),
                [&[], &[], &["b"]],
            );
        }
        check(&format!("[groups]\nnight = [\"ana\"]\n{OLD}"), [&[], &[], &["a", "b", "offered viewer"]]);
    }
}
