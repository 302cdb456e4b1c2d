//! Runs cases about requests to language models.

use super::outcome::CaseFailure;
use crate::policy::decide::ruling::Ruling;
use crate::policy::load::bundle::Bundle;
use crate::policy::load::suite::case::{AskCase, CasePlace, Expect, NOW_US, Who};
use crate::policy::request::question::AskQuestion;
use crate::tools::Catalog;
use crate::types::{Channel, ModelSink, limits};

impl Bundle {
    pub(in crate::policy) fn check_ask(&self, case: &AskCase, catalog: &Catalog) -> Option<CaseFailure> {
        let answer = case.answer(self, catalog);
        let explain = || case.with(catalog, |asked| self.explain_ask_among(asked, &case.who.groups));
        (!case.expect.matches(&answer)).then(|| CaseFailure {
            place: case.place.clone(),
            name: case.name.clone(),
            asked: case.asked(),
            expected: case.expect.described(),
            got: answer.word().to_owned(),
            why: self.why(&answer, explain),
        })
    }
}

impl AskCase {
    /// A request of `who` to the model `name`, of which nothing else is known.
    pub(in crate::policy) fn of(who: Who, name: String) -> Self {
        let unknown = String::new;
        let sink = ModelSink {
            name,
            provider: unknown(),
            model: unknown(),
            host: unknown(),
            reply_tokens_max: limits::REPLY_TOKENS_MAX,
        };
        Self {
            place: CasePlace { file: unknown(), line: 0 },
            name: unknown(),
            who,
            sink,
            input_tokens: 0,
            fallback_of: None,
            now_us: NOW_US,
            source_ip: None,
            channel: Channel::Http,
            expect: Expect { word: "allow", policies: None, asks: None },
        }
    }

    /// Whether `bundle` answers as expected.
    pub(in crate::policy) fn holds(&self, bundle: &Bundle, catalog: &Catalog) -> bool {
        self.expect.matches(&self.answer(bundle, catalog))
    }

    pub(in crate::policy) fn answer(&self, bundle: &Bundle, catalog: &Catalog) -> Ruling {
        self.with(catalog, |asked| bundle.decide_ask_among(asked, &self.who.groups).answer)
    }

    fn with<T>(&self, catalog: &Catalog, ask: impl FnOnce(&AskQuestion<'_>) -> T) -> T {
        let (subject, session) = (self.who.subject(), self.who.session(catalog));
        ask(&AskQuestion {
            subject: &subject,
            session: &session,
            sink: &self.sink,
            is_halted: false,
            input_tokens: self.input_tokens,
            fallback_of: self.fallback_of.as_deref(),
            now_us: self.now_us,
            source_ip: self.source_ip,
            channel: self.channel,
        })
    }

    /// The request, briefly.
    pub(in crate::policy) fn asked(&self) -> String {
        let of = self.fallback_of.as_ref().map_or_else(String::new, |name| format!(" in place of {name}"));
        format!("{} asks {}{of}", self.who, self.sink.id())
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::tests::{catalog, names, source};
    use crate::policy::{Bundle, Folders, Suite};

    const POLICIES: &str = r#"@id("local")
permit (principal, action == PAR::Action::"model.ask", resource is PAR::Sink)
when { resource.host == "127.0.0.1:8080" };

@id("no-payroll")
forbid (principal, action == PAR::Action::"model.ask", resource == PAR::Sink::"model:cloud")
when { principal.seen.contains("payroll") || principal.taint.contains("untrusted") };
"#;

    fn check(suite: &str, expect: &[&str]) {
        let bundle =
            Bundle::load(&[source("policies/p.cedar", POLICIES)], catalog(), &names()).expect("policies");
        let suite_of = Suite::parse(&[source("policies/tests/p.toml", suite)]).expect("suite");
        let failures = bundle.with_suite(suite_of).prove(catalog(), &Folders::new());
        assert_eq!(failures.iter().map(ToString::to_string).collect::<Vec<_>>(), expect, "{suite}");
    }

    #[test]
    fn an_answer_that_is_not_as_expected_says_where_what_and_why() {
        let case = |more: &str| format!("[[ask]]\nname = \"n\"\nrole = \"operator\"\n{more}\n");
        check(&case("host = \"127.0.0.1:8080\"\nexpect = \"allow\"\npolicies = [\"local\"]"), &[]);
        check(
            &case(
                "sink = [\"model:default\", \"model:cloud\"]\nhost = \"api.example.com:443\"\nexpect = \"deny\"",
            ),
            &[],
        );
        check(
            &case(
                "sink = \"model:cloud\"\nhost = \"127.0.0.1:8080\"\nseen = [\"payroll\"]\nexpect = \"allow\"",
            ),
            &["policies/tests/p.toml:1: n: operator asks model:cloud: expected allow, got deny: no-payroll \
               (policies/p.cedar:5)"],
        );
        check(
            &case("fallback_of = \"local\"\nhost = \"api.example.com:443\"\nexpect = \"allow\""),
            &[
                "policies/tests/p.toml:1: n: operator asks model:default in place of local: expected allow, got \
               deny: no policy permits it; the nearest is local (policies/p.cedar:1), where `resource.host == \
               \"127.0.0.1:8080\"` does not hold",
            ],
        );
    }

    #[test]
    fn an_invalid_case_is_refused_with_its_line() {
        let check = |more: &str, reason: &str| {
            let text = format!("\n[[ask]]\nname = \"n\"\nrole = \"operator\"\n{more}\n");
            let errors = Suite::parse(&[source("policies/tests/p.toml", &text)]).expect_err(more);
            let told = errors[0].to_string();
            assert!(told.starts_with("policies/tests/p.toml:") && told.contains(reason), "{told}");
        };
        check("sink = \"channel:chat\"\nexpect = \"deny\"", "unknown sink `channel:chat`");
        check("sink = []\nexpect = \"deny\"", "`sink` is empty");
        check("expect = \"needs_approval\"", "unknown answer `needs_approval` for a model");
        check("expect = \"deny\"\ntool = \"read_file\"", "unknown field");
    }
}
