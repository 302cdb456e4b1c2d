//! Cases of a suite that are about powers of the API: `[[use]]` in `policies/tests/*.toml`.
//!
//! `role`, `power`, `owner` and `via` may be lists: the case then stands for each combination.

use crate::policy::load::bundle::Bundle;
use crate::policy::decide::decision::Answer;
use crate::policy::request::groups::Groups;
use crate::policy::power::Power;
use super::runner::Failure;
use crate::policy::load::suite::{Expect, Many, NOW_US, Place, RawGroups, Who, each, moment};
use crate::policy::uses::{Door, Over, Ran, Use, Via};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

/// One expected answer to the use of a power.
#[derive(Clone, Debug)]
pub(in crate::policy) struct UseCase {
    place: Place,
    name: String,
    who: Who,
    power: Power,
    owner: Option<String>,
    door: Door,
    expires_us: Option<u64>,
    now_us: u64,
    ran: Ran,
    expect: Expect,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct RawUse {
    name: String,
    role: Many,
    user: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
    power: Many,
    /// `self`, `other` or the name of a caller; of powers over a run or an approval.
    owner: Option<Many>,
    via: Option<Many>,
    source_ip: Option<IpAddr>,
    now: Option<String>,
    expires: Option<String>,
    /// Of the power `run`; 0 where it is not said.
    #[serde(default)]
    runs_hour: u32,
    #[serde(default)]
    bytes_hour: u64,
    expect: String,
    policies: Option<Vec<String>>,
}

impl RawUse {
    /// Each combination as a case of its own. The error says what is no role, power or door.
    pub(in crate::policy) fn cases(&self, place: &Place, groups: &RawGroups) -> Result<Vec<UseCase>, String> {
        let word = ["allow", "deny"].into_iter().find(|word| *word == self.expect);
        let word =
            word.ok_or_else(|| format!("`{}` is no answer: of powers these are allow, deny", self.expect))?;
        let policies = self.policies.as_ref().map(|policies| policies.iter().cloned().collect());
        let expect = Expect { word, policies, asks: None };
        let now_us = self.now.as_deref().map(moment).transpose()?.unwrap_or(NOW_US);
        let expires_us = self.expires.as_deref().map(moment).transpose()?;
        let who = Who {
            role: crate::auth::Role::Viewer,
            user: self.user.clone(),
            groups: Arc::default(),
            ceiling: None,
            taint: BTreeSet::new(),
            calls_used: 0,
            budget: 0,
            risk: 0,
        };
        let bytes_hour =
            i64::try_from(self.bytes_hour).map_err(|_| "`bytes_hour` is too large".to_owned())?;
        let ran = Ran { runs_hour: i64::from(self.runs_hour), bytes_hour };
        if ran != Ran::default() && self.power.words() != [Power::Run.as_str()] {
            return Err("`runs_hour` and `bytes_hour` are asked about with the power `run` alone".to_owned());
        }
        let mut cases = Vec::new();
        for who in each(&self.role, &who, &self.groups, groups)? {
            for power in self.power.words() {
                let (power, owners) = (power_of(power)?, self.owners(power_of(power)?)?);
                for (owner, via) in owners.iter().flat_map(|owner| self.doors().map(move |via| (owner, via)))
                {
                    cases.push(UseCase {
                        place: place.clone(),
                        name: self.name.clone(),
                        who: who.clone(),
                        power,
                        owner: owner.clone(),
                        door: Door { via: via?, source_ip: self.source_ip },
                        expires_us,
                        now_us,
                        ran,
                        expect: expect.clone(),
                    });
                }
            }
        }
        Ok(cases)
    }

    fn owners(&self, power: Power) -> Result<Vec<Option<String>>, String> {
        let name = power.as_str();
        match (&self.owner, power.over()) {
            (None, "Server") => Ok(vec![None]),
            (Some(_), "Server") => Err(format!("`{name}` is held over the server, which has no `owner`")),
            (None, _) => Err(format!("`{name}`: say the `owner`, such as \"self\" or \"other\"")),
            (Some(owners), _) => Ok(owners.words().iter().cloned().map(Some).collect()),
        }
    }

    fn doors(&self) -> impl Iterator<Item = Result<Via, String>> {
        let words = self.via.as_ref().map_or_else(Vec::new, |via| via.words().to_vec());
        let words = if words.is_empty() { vec!["http".to_owned()] } else { words };
        words.into_iter().map(|word| {
            let doors = || Via::ALL.map(Via::as_str).join(", ");
            Via::parse(&word).ok_or_else(|| format!("`{word}` is no door: doors are {}", doors()))
        })
    }
}

fn power_of(word: &str) -> Result<Power, String> {
    let powers = || Power::ALL.map(Power::as_str).join(", ");
    Power::parse(word).ok_or_else(|| format!("`{word}` is no power: powers are {}", powers()))
}

impl Bundle {
    pub(in crate::policy) fn check_use(&self, case: &UseCase) -> Option<Failure> {
        let groups: &Groups = &case.who.groups;
        let answer = case.answer(self);
        (!case.expect.meets(&answer)).then(|| Failure {
            place: case.place.clone(),
            name: case.name.clone(),
            asked: case.asked(),
            expected: case.expect.told(),
            got: answer.word().to_owned(),
            why: self.why(&answer, || case.with(|asked| self.explain_use_among(asked, groups))),
        })
    }
}

impl UseCase {
    /// Whether `bundle` answers as expected.
    pub(in crate::policy) fn holds(&self, bundle: &Bundle) -> bool {
        self.expect.meets(&self.answer(bundle))
    }

    fn answer(&self, bundle: &Bundle) -> Answer {
        self.with(|asked| bundle.decide_use_among(asked, &self.who.groups).answer)
    }

    fn with<T>(&self, ask: impl FnOnce(&Use<'_>) -> T) -> T {
        let subject = self.who.subject();
        let own = subject.id();
        let over = match self.owner.as_deref() {
            None => Over::Server,
            Some("self") => Over::Of { id: "case", owner: &own },
            Some("other") => Over::Of { id: "case", owner: "key:somebody" },
            Some(name) => Over::Of { id: "case", owner: name },
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
    fn what_is_no_case_is_refused_with_its_line() {
        let check = |more: &str, reason: &str| {
            let text = format!("\n[[use]]\nname = \"n\"\nrole = \"operator\"\n{more}\n");
            let errors = Suite::parse(&[source("policies/tests/p.toml", &text)]).expect_err(more);
            let told = errors[0].to_string();
            assert!(told.starts_with("policies/tests/p.toml:") && told.contains(reason), "{told}");
        };
        check("power = \"rune\"\nexpect = \"deny\"", "`rune` is no power");
        check("power = \"run\"\nowner = \"self\"\nexpect = \"deny\"", "has no `owner`");
        check("power = \"approve\"\nexpect = \"deny\"", "say the `owner`");
        check("power = \"run\"\nvia = \"window\"\nexpect = \"deny\"", "`window` is no door");
        check("power = \"run\"\nexpect = \"needs_approval\"", "is no answer");
        check("power = \"run\"\nexpect = \"deny\"\ntool = \"read_file\"", "unknown field");
    }
}
