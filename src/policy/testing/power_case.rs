//! Runs cases about powers of the API.

use super::outcome::CaseFailure;
use crate::policy::decide::ruling::Ruling;
use crate::policy::load::bundle::Bundle;
use crate::policy::load::suite::case::PowerCase;
use crate::policy::request::groups::Groups;
use crate::policy::uses::{Over, Use};

impl Bundle {
    pub(in crate::policy) fn check_use(&self, case: &PowerCase) -> Option<CaseFailure> {
        let groups: &Groups = &case.who.groups;
        let answer = case.answer(self);
        (!case.expect.matches(&answer)).then(|| CaseFailure {
            place: case.place.clone(),
            name: case.name.clone(),
            asked: case.asked(),
            expected: case.expect.described(),
            got: answer.word().to_owned(),
            why: self.why(&answer, || case.with(|asked| self.explain_use_among(asked, groups))),
        })
    }
}

impl PowerCase {
    /// Whether `bundle` answers as expected.
    pub(in crate::policy) fn holds(&self, bundle: &Bundle) -> bool {
        self.expect.matches(&self.answer(bundle))
    }

    fn answer(&self, bundle: &Bundle) -> Ruling {
        self.with(|asked| bundle.decide_use_among(asked, &self.who.groups).answer)
    }

    fn with<T>(&self, ask: impl FnOnce(&Use<'_>) -> T) -> T {
        let subject = self.who.subject();
        let own = subject.id();
        let over = match self.owner.as_deref() {
            None => Over::Server,
            Some("self") => Over::Owned { id: "case", owner: &own },
            Some("other") => Over::Owned { id: "case", owner: "key:other" },
            Some(name) => Over::Owned { id: "case", owner: name },
        };
        let Self { power, door, expires_us, now_us, ran, .. } = *self;
        ask(&Use { subject: &subject, power, over, door, expires_us, now_us, ran })
    }

    fn asked(&self) -> String {
        let of = self.owner.as_ref().map_or_else(String::new, |owner| format!(" of {owner}"));
        format!("{} {}{of} by {}", self.who, self.power.as_str(), self.door.via.as_str())
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::tests::{catalog, names, source};
    use crate::policy::{Bundle, Folders, Suite};

    const POLICIES: &str = r#"@id("near")
permit (principal in PAR::Role::"operator", action == PAR::Action::"run", resource)
when { context has source_ip && context.source_ip.isInRange(ip("10.0.0.0/8")) && context has expires };

@id("own")
permit (principal in PAR::Role::"operator", action == PAR::Action::"run_read", resource)
when { resource.owner == principal };
"#;

    fn check(suite: &str, expect: &[&str]) {
        let bundle =
            Bundle::load(&[source("policies/p.cedar", POLICIES)], catalog(), &names()).expect("policies");
        let suite_of = Suite::parse(&[source("policies/tests/p.toml", suite)]).expect("suite");
        let failures = bundle.with_suite(suite_of).prove(catalog(), &Folders::new());
        assert_eq!(failures.iter().map(ToString::to_string).collect::<Vec<_>>(), expect, "{suite}");
    }

    #[test]
    fn a_use_that_is_not_as_expected_says_where_what_and_why() {
        let case = |more: &str| format!("[[use]]\nname = \"n\"\nrole = \"operator\"\n{more}\n");
        let near = "power = \"run\"\nsource_ip = \"10.1.2.3\"\nexpires = \"2031-01-01T00:00:00Z\"\n";
        check(&case(&format!("{near}expect = \"allow\"\npolicies = [\"near\"]")), &[]);
        check(
            &case(
                "power = \"run\"\nsource_ip = \"11.1.2.3\"\nexpires = \"2031-01-01T00:00:00Z\"\nexpect = \"allow\"",
            ),
            &[
                "policies/tests/p.toml:1: n: operator run by http: expected allow, got deny: no policy permits it; the \
               nearest is near (policies/p.cedar:1), where `context.source_ip.isInRange(ip(\"10.0.0.0/8\"))` does \
               not hold",
            ],
        );
        check(
            &case("power = \"run_read\"\nowner = \"self\"\nvia = [\"http\", \"page\"]\nexpect = \"allow\""),
            &[],
        );
        check(
            &case("power = \"run_read\"\nowner = [\"self\", \"other\"]\nexpect = \"deny\""),
            &[
                "policies/tests/p.toml:1: n: operator run_read of self by http: expected deny, got allow: own \
               (policies/p.cedar:5)",
            ],
        );
    }

    #[test]
    fn an_invalid_case_is_refused_with_its_line() {
        let check = |more: &str, reason: &str| {
            let text = format!("\n[[use]]\nname = \"n\"\nrole = \"operator\"\n{more}\n");
            let errors = Suite::parse(&[source("policies/tests/p.toml", &text)]).expect_err(more);
            let told = errors[0].to_string();
            assert!(told.starts_with("policies/tests/p.toml:") && told.contains(reason), "{told}");
        };
        check("power = \"rune\"\nexpect = \"deny\"", "unknown power `rune`");
        check("power = \"run\"\nowner = \"self\"\nexpect = \"deny\"", "has no `owner`");
        check("power = \"approve\"\nexpect = \"deny\"", "needs an `owner`");
        check("power = \"run\"\nvia = \"window\"\nexpect = \"deny\"", "unknown door `window`");
        check("power = \"run\"\nexpect = \"needs_approval\"", "unknown answer");
        check("power = \"run\"\nexpect = \"deny\"\ntool = \"read_file\"", "unknown field");
    }
}
