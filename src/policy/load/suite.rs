//! The bundle's own tests, as an operator writes them: `policies/tests/*.toml`.
//!
//! A case says who asks for what, and what the answer must be. `role`, `tool` and `resource` may be lists:
//! the case then stands for each combination. A case sees nothing of `par.toml` but the folders of
//! `[paths]`: who is in a group is said beside it, so that a suite says the same on every host.

use super::error::{PolicyError, Source, line_of, located};
use crate::policy::request::groups::Groups;
use crate::policy::request::question::Counts;
use crate::policy::testing::power_case::{RawUse, UseCase};
use crate::auth::Role;
use crate::types::{Digest, limits};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use toml::Spanned;

/// When a case plays that does not say when, in microseconds since 1970: 2030-01-01T00:00:00Z.
pub(in crate::policy) const NOW_US: u64 = 1_893_456_000_000_000;

/// Every case and tool list of a bundle. Empty where it has no tests.
#[derive(Clone, Debug, Default)]
pub struct Suite {
    pub(in crate::policy) cases: Vec<Case>,
    pub(in crate::policy) offered: Vec<Offered>,
    pub(in crate::policy) uses: Vec<UseCase>,
    /// `policies/tests/NAME.toml` with the digest of its bytes.
    files: BTreeMap<String, Digest>,
}

/// One expected decision, not yet brought together with a catalog.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Case {
    pub(in crate::policy) place: Place,
    pub(in crate::policy) name: String,
    pub(in crate::policy) who: Who,
    pub(in crate::policy) tool: String,
    pub(in crate::policy) arguments: Map<String, Value>,
    pub(in crate::policy) resource: Option<String>,
    pub(in crate::policy) within: Vec<String>,
    pub(in crate::policy) approved: Yes,
    pub(in crate::policy) approver: Option<String>,
    pub(in crate::policy) now_us: u64,
    pub(in crate::policy) source_ip: Option<IpAddr>,
    pub(in crate::policy) counts: Counts,
    pub(in crate::policy) expect: Expect,
}

/// One expected list of tools.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Offered {
    pub(in crate::policy) place: Place,
    pub(in crate::policy) who: Who,
    pub(in crate::policy) tools: BTreeSet<String>,
}

/// Who asks, in which groups, and how far its session is.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Who {
    pub(in crate::policy) role: Role,
    pub(in crate::policy) user: Option<String>,
    pub(in crate::policy) groups: Arc<Groups>,
    /// The tools that are left to it; `None` is all of them.
    pub(in crate::policy) ceiling: Option<BTreeSet<String>>,
    pub(in crate::policy) taint: BTreeSet<String>,
    pub(in crate::policy) calls_used: i64,
    pub(in crate::policy) budget: i64,
    pub(in crate::policy) risk: i64,
}

/// What the answer must be.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Expect {
    pub(in crate::policy) word: &'static str,
    /// The determining policies, all of them; `None` where the case does not say.
    pub(in crate::policy) policies: Option<BTreeSet<String>>,
    /// The groups that are asked; `None` likewise.
    pub(in crate::policy) asks: Option<BTreeSet<String>>,
}

/// Whether a person said yes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(in crate::policy) enum Yes {
    #[default]
    No,
    Confirmed,
    Approved,
}

/// Where a case stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Such as `policies/tests/10-read.toml`.
    pub file: String,
    /// From 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl Suite {
    /// Reads test files. Unknown keys, roles and answers are refused; tools and arguments are looked at when
    /// the suite is run, since they are the catalog's.
    pub fn parse(sources: &[Source]) -> Result<Self, Vec<PolicyError>> {
        let (mut suite, mut errors) = (Self::default(), Vec::new());
        for source in sources {
            suite.files.insert(source.name.clone(), Digest::of(source.text.as_bytes()));
            match toml::from_str::<RawFile>(&source.text) {
                Ok(file) => errors.extend(suite.add(source, file).err()),
                Err(e) => {
                    let offset = e.span().map(|span| span.start);
                    errors.push(located(source, offset, e.message().to_owned()));
                }
            }
        }
        if errors.is_empty() { Ok(suite) } else { Err(errors) }
    }

    /// Cases of calls and of powers, and tool lists, each combination counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cases.len() + self.offered.len() + self.uses.len()
    }

    /// Whether there is nothing to run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tests of which only the files' digests are known: there is nothing to run.
    pub(in crate::policy) fn known_by(files: BTreeMap<String, Digest>) -> Self {
        Self { files, ..Self::default() }
    }

    /// Each file with the digest of its bytes.
    pub(in crate::policy) fn files(&self) -> &BTreeMap<String, Digest> {
        &self.files
    }

    /// One line for each file, for the bundle's digest.
    pub(in crate::policy) fn lines(&self) -> String {
        self.files.iter().map(|(name, digest)| format!("{name} {digest}\n")).collect()
    }

    fn add(&mut self, source: &Source, file: RawFile) -> Result<(), PolicyError> {
        for raw in file.case {
            let refuse = |reason: String| located(source, Some(raw.span().start), reason);
            let place = Place { file: source.name.clone(), line: line_of(&source.text, raw.span().start) };
            self.add_case(&place, raw.get_ref(), &file.groups).map_err(refuse)?;
        }
        for raw in file.uses {
            let refuse = |reason: String| located(source, Some(raw.span().start), reason);
            let place = Place { file: source.name.clone(), line: line_of(&source.text, raw.span().start) };
            self.uses.extend(raw.get_ref().cases(&place, &file.groups).map_err(refuse)?);
        }
        for raw in file.offered {
            let refuse = |reason: String| located(source, Some(raw.span().start), reason);
            let place = Place { file: source.name.clone(), line: line_of(&source.text, raw.span().start) };
            let tools: BTreeSet<String> = raw.get_ref().tools.iter().cloned().collect();
            let RawOffered { role, groups, .. } = raw.get_ref();
            for who in each(role, &raw.get_ref().who(), groups, &file.groups).map_err(refuse)? {
                self.offered.push(Offered { place: place.clone(), who, tools: tools.clone() });
            }
        }
        Ok(())
    }

    fn add_case(&mut self, place: &Place, raw: &RawCase, groups: &RawGroups) -> Result<(), String> {
        let word = ["allow", "deny", "needs_approval"].into_iter().find(|word| *word == raw.expect);
        let word = word.ok_or_else(|| {
            format!("`{}` is no answer: answers are allow, deny, needs_approval", raw.expect)
        })?;
        if raw.asks.is_some() && word != "needs_approval" {
            return Err("`asks` goes with `expect = \"needs_approval\"`".to_owned());
        }
        let set = |words: &Option<Vec<String>>| words.as_ref().map(|words| words.iter().cloned().collect());
        let expect = Expect { word, policies: set(&raw.policies), asks: set(&raw.asks) };
        let now_us = raw.now.as_deref().map(moment).transpose()?.unwrap_or(NOW_US);
        let source_ip = raw
            .source_ip
            .as_deref()
            .map(|words| words.parse().map_err(|_| format!("`source_ip`: `{words}` is no address")));
        let source_ip = source_ip.transpose()?;
        let counts = Counts {
            calls_hour: raw.calls_hour,
            failures_hour: raw.failures_hour,
            failed_ago_s: raw.failed_ago_s,
        };
        let resources: Vec<Option<String>> = match &raw.resource {
            None => vec![None],
            Some(many) => many.words().iter().cloned().map(Some).collect(),
        };
        let combined = || {
            raw.tool.words().iter().flat_map(|tool| resources.iter().map(move |resource| (tool, resource)))
        };
        for who in each(&raw.role, &raw.who(), &raw.groups, groups)? {
            for (tool, resource) in combined() {
                self.cases.push(Case {
                    place: place.clone(),
                    name: raw.name.clone(),
                    who: who.clone(),
                    tool: tool.clone(),
                    arguments: raw.arguments.clone(),
                    resource: resource.clone(),
                    within: raw.within.clone(),
                    approved: raw.approved,
                    approver: raw.approver.clone(),
                    now_us,
                    source_ip,
                    counts,
                    expect: expect.clone(),
                });
            }
        }
        Ok(())
    }
}

pub(in crate::policy) fn moment(words: &str) -> Result<u64, String> {
    let at: Option<jiff::Timestamp> = words.parse().ok();
    at.and_then(|at| u64::try_from(at.as_microsecond()).ok())
        .ok_or_else(|| format!("`now`: `{words}` is no time such as 2030-01-01T00:00:00Z"))
}

pub(in crate::policy) type RawGroups = BTreeMap<String, Vec<String>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    /// Who is in which group in this file's cases.
    #[serde(default)]
    groups: RawGroups,
    #[serde(default)]
    case: Vec<Spanned<RawCase>>,
    #[serde(default)]
    offered: Vec<Spanned<RawOffered>>,
    #[serde(default, rename = "use")]
    uses: Vec<Spanned<RawUse>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCase {
    name: String,
    role: Many,
    user: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
    ceiling: Option<BTreeSet<String>>,
    #[serde(default)]
    taint: BTreeSet<String>,
    #[serde(default)]
    calls_used: i64,
    budget: Option<i64>,
    #[serde(default)]
    risk: i64,
    tool: Many,
    #[serde(default)]
    arguments: Map<String, Value>,
    resource: Option<Many>,
    #[serde(default)]
    within: Vec<String>,
    #[serde(default)]
    approved: Yes,
    approver: Option<String>,
    source_ip: Option<String>,
    now: Option<String>,
    #[serde(default)]
    calls_hour: i64,
    #[serde(default)]
    failures_hour: i64,
    failed_ago_s: Option<i64>,
    expect: String,
    policies: Option<Vec<String>>,
    asks: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOffered {
    role: Many,
    user: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
    ceiling: Option<BTreeSet<String>>,
    #[serde(default)]
    taint: BTreeSet<String>,
    #[serde(default)]
    calls_used: i64,
    budget: Option<i64>,
    #[serde(default)]
    risk: i64,
    tools: Vec<String>,
}

/// One word, or a list of them that stands for each.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts was expected")]
pub(in crate::policy) enum Many {
    One(String),
    Each(Vec<String>),
}

impl Many {
    pub(in crate::policy) fn words(&self) -> &[String] {
        match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::Each(words) => words,
        }
    }
}

impl RawCase {
    fn who(&self) -> Who {
        Who {
            role: Role::Viewer,
            user: self.user.clone(),
            groups: Arc::default(),
            ceiling: self.ceiling.clone(),
            taint: self.taint.clone(),
            calls_used: self.calls_used,
            budget: self.budget.unwrap_or(i64::from(limits::CALLS_PER_RUN_MAX)),
            risk: self.risk,
        }
    }
}

impl RawOffered {
    fn who(&self) -> Who {
        Who {
            role: Role::Viewer,
            user: self.user.clone(),
            groups: Arc::default(),
            ceiling: self.ceiling.clone(),
            taint: self.taint.clone(),
            calls_used: self.calls_used,
            budget: self.budget.unwrap_or(i64::from(limits::CALLS_PER_RUN_MAX)),
            risk: self.risk,
        }
    }
}

/// `who` with each of `roles`, in the file's groups and those of its own.
pub(in crate::policy) fn each(roles: &Many, who: &Who, own: &[String], groups: &RawGroups) -> Result<Vec<Who>, String> {
    let mut groups = groups.clone();
    for group in own {
        let user = who.user.clone().ok_or("`groups` says which groups the `user` is in: name one")?;
        groups.entry(group.clone()).or_default().push(user);
    }
    if roles.words().is_empty() {
        return Err("`role` names nobody, and so the case asks nothing".to_owned());
    }
    let groups = Arc::new(Groups::new(groups));
    let roles = roles.words().iter().map(|word| {
        let role = Role::parse(word).ok_or_else(|| {
            format!("`{word}` is no role: roles are {}", Role::ALL.map(Role::as_str).join(", "))
        })?;
        Ok(Who { role, groups: groups.clone(), ..who.clone() })
    });
    roles.collect()
}

#[cfg(test)]
mod tests {
    use super::Suite;
    use crate::policy::tests::{catalog, names, source};
    use crate::policy::{Bundle, Change, Folder, Folders, Labels};

    const POLICIES: &str = r#"@id("logs")
permit (principal in PAR::Role::"operator", action in PAR::Action::"read", resource in PAR::Path::"/var/log")
when { context.call.calls_hour < 3 && principal.taint.isEmpty() }
unless { resource in PAR::Path::"/var/log/btmp" || context.call.now > datetime("2031-01-01") };

@id("sure")
@require_approval("night")
forbid (principal in PAR::Group::"day", action == PAR::Action::"list_dir", resource)
unless { context.call.approved == "approved" };
"#;

    fn folders() -> Folders {
        let folder = |path: &str| Folder { lexical: path.into(), real: path.into() };
        [("logs".to_owned(), folder("/var/log"))].into()
    }

    fn bundle(policies: &str, suite: &str) -> Bundle {
        let bundle = Bundle::load(&[source("policies/p.cedar", policies)], catalog(), &names());
        let suite = Suite::parse(&[source("policies/tests/p.toml", suite)]).expect("suite");
        bundle.expect("policies").with_suite(suite)
    }

    /// What fails, each in a line.
    fn check(suite: &str, expect: &[&str]) {
        let failures = bundle(POLICIES, suite).prove(catalog(), &folders());
        assert_eq!(failures.iter().map(ToString::to_string).collect::<Vec<_>>(), expect, "{suite}");
    }

    fn case(more: &str) -> String {
        format!("[[case]]\nname = \"n\"\nrole = \"operator\"\ntool = \"read_file\"\n{more}\n")
    }

    #[test]
    fn a_case_that_does_not_hold_says_where_what_and_why() {
        check(&case("resource = \"@logs/syslog\"\nexpect = \"allow\"\npolicies = [\"logs\"]"), &[]);
        check(
            &case("resource = \"@logs/syslog\"\nexpect = \"deny\""),
            &["policies/tests/p.toml:1: n: operator read_file @logs/syslog: expected deny, got allow: logs \
               (policies/p.cedar:1)"],
        );
        check(
            &case("resource = [\"@logs/a\", \"@logs/b\"]\ntaint = [\"untrusted\"]\nexpect = \"allow\""),
            &["a", "b"].map(|name| format!(
                "policies/tests/p.toml:1: n: operator, tainted read_file @logs/{name}: expected allow, got deny: \
                 no policy permits it; the nearest is logs (policies/p.cedar:1), where `principal.taint.isEmpty()` \
                 does not hold"
            )).each_ref().map(String::as_str),
        );
        check(
            "\n[groups]\nday = [\"ana\"]\n[[case]]\nname = \"asks\"\nrole = [\"operator\", \"admin\"]\n\
             user = \"ana\"\ntool = \"list_dir\"\nresource = \"/var/log\"\nexpect = \"needs_approval\"\n\
             asks = [\"day\"]\n",
            &["operator", "admin"].map(|role| format!(
                "policies/tests/p.toml:4: asks: {role} ana list_dir /var/log: expected needs_approval from day, \
                 got needs_approval from night: sure (policies/p.cedar:6)"
            )).each_ref().map(String::as_str),
        );
    }

    /// Everything that a policy may look at can be said.
    #[test]
    fn a_case_says_what_policies_see() {
        let on = "resource = \"/var/log/syslog\"\nexpect =";
        for (more, expect) in [
            ("calls_hour = 2", "allow"),
            ("calls_hour = 3", "deny"),
            ("taint = [\"untrusted\"]", "deny"),
            ("ceiling = [\"read_file\"]", "allow"),
            ("ceiling = [\"list_dir\"]", "deny"),
            ("ceiling = []", "deny"),
            ("budget = 0", "allow"),
            ("now = \"2030-12-31T23:59:59Z\"", "allow"),
            ("now = \"2031-01-01T00:00:01Z\"", "deny"),
            ("within = [\"/var/log/btmp\"]", "deny"),
            ("within = [\"/var/log/wtmp\"]", "allow"),
            ("user = \"ana\"\ngroups = [\"day\"]", "allow"),
        ] {
            check(&case(&format!("{more}\n{on} \"{expect}\"")), &[]);
        }
        let list = |more: &str| case(&format!("{more}\n{on} ")).replace("read_file", "list_dir");
        for (more, expect) in [
            ("user = \"ana\"", "allow"),
            ("user = \"ana\"\ngroups = [\"day\"]", "needs_approval"),
            ("user = \"ana\"\ngroups = [\"day\"]\napproved = \"approved\"\napprover = \"ben\"", "allow"),
            ("user = \"ana\"\ngroups = [\"day\"]\napproved = \"confirmed\"", "deny"),
        ] {
            check(list(more).replace("expect = ", &format!("expect = \"{expect}\"")).as_str(), &[]);
        }
    }

    #[test]
    fn what_no_call_can_be_made_from_fails() {
        for (more, expect) in [
            ("expect = \"deny\"", "it says no `resource`"),
            ("ceiling = [\"raed_file\"]\nresource = \"/var/log\"\nexpect = \"deny\"", "`ceiling`: no tool"),
            ("resource = \"@lags/a\"\nexpect = \"deny\"", "`[paths]` has no `lags`"),
            ("resource = \"/var/log/../x\"\nexpect = \"deny\"", "is no plain absolute path"),
            ("resource = \"/var/log\"\narguments = { lines = 3 }\nexpect = \"deny\"", "arguments: "),
        ] {
            let failures = bundle(POLICIES, &case(more)).prove(catalog(), &folders());
            let told: Vec<String> = failures.iter().map(ToString::to_string).collect();
            assert!(told.len() == 1 && told[0].contains(expect), "{more}: {told:?}");
        }
        let unknown = case("expect = \"deny\"").replace("read_file", "raed_file");
        check(
            &unknown,
            &["policies/tests/p.toml:1: n: operator raed_file: expected deny, got no call: no tool is \
                           named `raed_file`"],
        );
    }

    #[test]
    fn a_list_of_tools_is_exact() {
        let offered = |tools: &str| format!("[[offered]]\nrole = \"operator\"\ntools = [{tools}]\n");
        check(&offered("\"read_file\", \"tail_file\", \"list_dir\", \"search_files\""), &[]);
        check(&format!("{}ceiling = [\"list_dir\", \"deploy\"]\n", offered("\"list_dir\"")), &[]);
        check(
            &offered("\"read_file\", \"tail_file\", \"deploy\""),
            &[
                "policies/tests/p.toml:1: offered: operator: expected [deploy, read_file, tail_file], got [list_dir, \
               read_file, search_files, tail_file]: too many: list_dir, search_files; lacks deploy",
            ],
        );
    }

    #[test]
    fn what_is_no_case_is_refused_with_its_line() {
        for (text, line, reason) in [
            ("[[case]]\nnam = 1\n", 2, "unknown field `nam`"),
            ("\n[[cases]]\n", 2, "unknown field `cases`"),
            ("[[case]\n", 1, ""),
            (&case("expect = \"yes\""), 1, "`yes` is no answer"),
            (&case("expect = \"deny\"\nrole2 = 1"), 6, "unknown field `role2`"),
            (&case("expect = \"deny\"").replace("operator", "chef"), 1, "`chef` is no role"),
            (&case("expect = \"deny\"\nasks = [\"x\"]"), 1, "`asks` goes with"),
            (&case("expect = \"deny\"\ngroups = [\"x\"]"), 1, "name one"),
            (&case("expect = \"deny\"\nnow = \"noon\""), 1, "`noon` is no time"),
            (&case("expect = \"deny\"\nsource_ip = \"here\""), 1, "`here` is no address"),
            (&case("expect = \"deny\"\nresource = 5"), 6, "a text or a list of texts"),
            ("[[offered]]\nrole = \"viewer\"\ntools = []\ntool = 1\n", 4, "unknown field `tool`"),
        ] {
            let errors = Suite::parse(&[source("t.toml", text)]).expect_err(text);
            assert_eq!((errors.len(), errors[0].line), (1, Some(line)), "{text}: {errors:?}");
            assert!(errors[0].reason.contains(reason), "{text}: {errors:?}");
        }
    }

    /// The digest is of the tests too, so that what proved the rules is what the ledger names.
    #[test]
    fn the_digest_covers_the_tests() {
        let digest = |suite: &str| bundle(POLICIES, suite).digest();
        let one = case("resource = \"/var/log\"\nexpect = \"allow\"");
        assert_ne!(digest(&one), digest(&format!("{one}\n")));
        let without =
            Bundle::load(&[source("policies/p.cedar", POLICIES)], catalog(), &names()).expect("policies");
        assert_ne!(without.digest(), digest(""));
        assert_eq!(without.digest(), without.with_suite(Suite::default()).digest());
    }

    /// What a suite does not look at survives, and by name.
    #[test]
    fn changes_that_no_case_notices_survive() {
        let survivors = |suite: &str| {
            let score = bundle(POLICIES, suite).score(catalog(), &folders());
            let told = |one: &crate::policy::Survivor| match &one.change {
                Change::Without(words) => format!("{} {words}", one.at),
                other => format!("{} {other:?}", one.at),
            };
            (score.made, score.survivors.iter().map(told).collect::<Vec<_>>())
        };
        let mut suite = case("resource = \"/var/log/syslog\"\nexpect = \"allow\"");
        let (made, left) = survivors(&suite);
        assert_eq!(
            left,
            [
                "policies/p.cedar:3 context.call.calls_hour < 3",
                "policies/p.cedar:3 principal.taint.isEmpty()",
                "policies/p.cedar:4 resource in PAR::Path::\"/var/log/btmp\" || context.call.now > \
                 datetime(\"2031-01-01\")",
                "policies/p.cedar:4 resource in PAR::Path::\"/var/log/btmp\"",
                "policies/p.cedar:4 context.call.now > datetime(\"2031-01-01\")",
                "policies/p.cedar:6 Drop",
                "policies/p.cedar:6 Flip",
                "policies/p.cedar:9 context.call.approved == \"approved\"",
            ]
        );
        for more in [
            "calls_hour = 3\nresource = \"/var/log/syslog\"\nexpect = \"deny\"",
            "taint = [\"x\"]\nresource = \"/var/log/syslog\"\nexpect = \"deny\"",
            "resource = \"/var/log/btmp\"\nexpect = \"deny\"",
            "now = \"2031-02-01T00:00:00Z\"\nresource = \"/var/log/syslog\"\nexpect = \"deny\"",
        ] {
            suite.push_str(&case(more));
        }
        let day = "user = \"ana\"\ngroups = [\"day\"]\nresource = \"/var/log\"\nexpect = \"needs_approval\"";
        suite.push_str(&case(day).replace("read_file", "list_dir"));
        assert_eq!(survivors(&suite), (made, Vec::new()));
    }

    /// Both of what is shipped: for several people, and for one.
    #[test]
    fn the_shipped_suite_holds_and_notices_every_change() {
        for people in ["", "one/"] {
            check_shipped(people);
        }
    }

    /// The shipped files, those of `people` in the place of others.
    fn check_shipped(people: &str) {
        let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
        let read = |below: &str, ending: &str| -> Vec<crate::policy::Source> {
            let mut files = std::collections::BTreeMap::new();
            for part in ["", people] {
                let folder = top.join(part).join(below);
                let paths = std::fs::read_dir(folder).expect("folder").flatten().map(|item| item.path());
                for path in paths.filter(|p| p.extension().is_some_and(|e| e == ending)) {
                    let name = format!("policies/{below}{}", path.file_name().expect("name").display());
                    files.insert(name, std::fs::read_to_string(path).expect("file"));
                }
            }
            files.iter().map(|(name, text)| source(name, text)).collect()
        };
        let suite = Suite::parse(&read("tests/", "toml")).expect("suite");
        let bundle = Bundle::load(&read("", "cedar"), catalog(), &names()).expect("policies");
        let labels = std::fs::read_to_string(top.join("entities.toml")).expect("labels");
        let labels = Labels::parse(&source("policies/entities.toml", &labels), &names()).expect("labels");
        let bundle = bundle.with_labels(labels).expect("labels").with_suite(suite);
        let mut folders = folders();
        let workspace = "/nonexistent/workspace";
        folders.insert("workspace".to_owned(), Folder { lexical: workspace.into(), real: workspace.into() });
        assert_eq!(bundle.prove(catalog(), &folders), []);
        let score = bundle.score(catalog(), &folders);
        assert!(score.made > 2 * bundle.policies().count() + 10, "{score:?}");
        assert_eq!(score.survivors, [], "the score of the shipped suite is {} %", score.percent());
    }
}
