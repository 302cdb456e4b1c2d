//! The bundle's own tests: what they report, and what they notice.

use super::{catalog, names, source};
use crate::policy::{Bundle, Change, Folders, Labels, NamedFolder, Suite};

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
    let folder = |path: &str| NamedFolder { lexical: path.into(), real: path.into() };
    [("logs".to_owned(), folder("/var/log"))].into()
}

fn bundle(policies: &str, suite: &str) -> Bundle {
    let bundle = Bundle::load(&[source("policies/p.cedar", policies)], catalog(), &names());
    let suite = Suite::parse(&[source("policies/tests/p.toml", suite)]).expect("suite");
    bundle.expect("policies").with_suite(suite)
}

/// The expected failures, one per line.
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

/// Issue 15, finding 15: "expected needs_approval from , got deny".
#[test]
fn a_case_that_expects_a_yes_of_any_person_says_so() {
    check(
        &case("resource = \"@logs/btmp\"\nexpect = \"needs_approval\"\nasks = []"),
        &[
            "policies/tests/p.toml:1: n: operator read_file @logs/btmp: expected needs_approval from a person, \
           got deny: no policy permits it; the nearest is logs (policies/p.cedar:1), where `resource in \
           PAR::Path::\"/var/log/btmp\" || context.call.now > datetime(\"2031-01-01\")` holds",
        ],
    );
}

/// A case can set everything that a policy can test.
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
fn a_case_without_a_valid_call_fails() {
    for (more, expect) in [
        ("expect = \"deny\"", "`resource` is missing"),
        ("ceiling = [\"raed_file\"]\nresource = \"/var/log\"\nexpect = \"deny\"", "`ceiling`: no tool"),
        ("resource = \"@lags/a\"\nexpect = \"deny\"", "`[paths]` has no `lags`"),
        ("resource = \"/var/log/../x\"\nexpect = \"deny\"", "is neither a plain absolute path"),
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
    let reading = [
        "certificate_file",
        "diff_files",
        "file_info",
        "largest_paths",
        "list_dir",
        "read_config",
        "read_file",
    ];
    let reading: Vec<String> = reading.map(|tool| format!("{tool:?}")).into();
    check(&offered(&format!("{}, \"tail_file\", \"search_files\"", reading.join(", "))), &[]);
    check(&format!("{}ceiling = [\"list_dir\", \"deploy\"]\n", offered("\"list_dir\"")), &[]);
    check(
        &offered(&format!("{}, \"deploy\"", reading.join(", "))),
        &[
            "policies/tests/p.toml:1: offered: operator: expected [certificate_file, deploy, diff_files, file_info, \
               largest_paths, list_dir, read_config, read_file], got [certificate_file, diff_files, file_info, largest_paths, list_dir, read_config, \
               read_file, search_files, tail_file]: too many: search_files, tail_file; missing: deploy",
        ],
    );
}

#[test]
fn an_invalid_case_is_refused_with_its_line() {
    for (text, line, reason) in [
        (
            "[[case]]\nname = \"n\"\nrole = \"viewer\"\ntool = \"t\"\nexpect = \"deny\"\nnam = 1\n",
            6,
            "unknown field `nam`",
        ),
        ("\n[[cases]]\n", 2, "unknown field `cases`"),
        ("[[case]\n", 1, ""),
        (&case("expect = \"yes\""), 5, "unknown answer `yes`"),
        (&case("expect = \"deny\"\nrole2 = 1"), 6, "unknown field `role2`"),
        (&case("expect = \"deny\"").replace("operator", "chef"), 3, "unknown role `chef`"),
        (&case("expect = \"deny\"\nasks = [\"x\"]"), 6, "`asks` needs"),
        (&case("expect = \"deny\"\ngroups = [\"x\"]"), 6, "name one"),
        (&case("expect = \"deny\"\nnow = \"noon\""), 6, "`noon` is not a time"),
        (&case("expect = \"deny\"\nsource_ip = \"here\""), 6, "`here` is not an IP address"),
        (&case("expect = \"deny\"\nresource = 5"), 6, "a string or a list of strings"),
        ("[[offered]]\nrole = \"viewer\"\ntools = []\ntool = 1\n", 4, "unknown field `tool`"),
    ] {
        let errors = Suite::parse(&[source("t.toml", text)]).expect_err(text);
        assert_eq!((errors.len(), errors[0].line), (1, Some(line)), "{text}: {errors:?}");
        assert!(errors[0].reason.contains(reason), "{text}: {errors:?}");
    }
}

/// The digest covers the tests too, so that the ledger names what proved the rules.
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

/// A change that no case covers survives, and is named.
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

/// Both shipped variants: for several people, and for one.
#[test]
fn the_shipped_suite_holds_and_notices_every_change() {
    for people in ["", "one/"] {
        check_shipped(people);
    }
}

/// The shipped files, with those of `people` in place of others.
fn check_shipped(people: &str) {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
    let read = |below: &str, ending: &str| -> Vec<crate::policy::SourceFile> {
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
    folders.insert("workspace".to_owned(), NamedFolder { lexical: workspace.into(), real: workspace.into() });
    assert_eq!(bundle.prove(catalog(), &folders), []);
    let score = bundle.score(catalog(), &folders);
    assert!(score.made > 2 * bundle.policies().count() + 10, "{score:?}");
    assert_eq!(score.survivors, [], "the score of the shipped suite is {} %", score.percent());
}

/// Lists of a case multiply: a file of a few kilobytes would ask for more memory than there is.
#[test]
fn more_cases_than_a_bundle_may_have_are_refused() {
    let many = |word: &str, count: usize| format!("[{}]", vec![format!("\"{word}\""); count].join(", "));
    let refused =
        |text: &str| Suite::parse(&[source("t.toml", text)]).expect_err("too many")[0].reason.clone();
    let case = |role: &str, tool: &str, resource: &str| {
        format!(
            "[[case]]\nname = \"n\"\nrole = {role}\ntool = {tool}\nresource = {resource}\nexpect = \"deny\"\n"
        )
    };
    let text = case(&many("viewer", 1_000), &many("t", 1_000), &many("/a", 1_000));
    assert_eq!(refused(&text), "its lists make 1000000000 cases, more than 65536");
    let text = case(&many("viewer", 1), &many("t", 200), &many("/a", 200)).repeat(2);
    assert_eq!(refused(&text), "more than 65536 cases with this one");
    let text = format!(
        "[[use]]\nname = \"n\"\nrole = \"viewer\"\npower = {}\nowner = {}\nexpect = \"deny\"\n",
        many("run_read", 300),
        many("self", 300)
    );
    assert_eq!(refused(&text), "its lists make 90000 cases, more than 65536");
}

/// Every block of a file with faults says what is wrong with it, at its own line.
#[test]
fn all_faults_of_a_test_file_are_told_at_their_lines() {
    let told = |text: &str| -> Vec<String> {
        let faults = Suite::parse(&[source("t.toml", text)]).expect_err("faults");
        faults.iter().map(|fault| format!("{}: {}", fault.line.unwrap_or_default(), fault.reason)).collect()
    };
    let role = "unknown role `operater`, expected one of viewer, operator, approver, admin: did you mean `operator`?";
    let answer =
        "unknown answer `allowed`, expected one of allow, deny, needs_approval: did you mean `allow`?";
    let words = "[[case]]\nname = \"a\"\nrole = \"operater\"\ntool = \"t\"\nexpect = \"deny\"\n\n\
                 [[case]]\nname = \"b\"\nrole = \"viewer\"\ntool = \"t\"\nexpect = \"allowed\"\n";
    assert_eq!(told(words), [format!("3: {role}"), format!("11: {answer}")]);
    // A misspelled key does not hide them.
    let key = told(&format!("{words}\n[[case]]\nname = \"c\"\nrole = \"viewer\"\ntol = \"t\"\n"));
    assert_eq!(key[..2], [format!("3: {role}"), format!("11: {answer}")]);
    let missing: Vec<&str> = key[2..4].iter().map(String::as_str).collect();
    assert_eq!(missing, ["13: missing field `tool`", "13: missing field `expect`"]);
    assert!(
        key[4].starts_with("16: unknown field `tol`") && key[4].ends_with("did you mean `tool`?"),
        "{key:?}"
    );
    // Nor do the faults of one block hide each other.
    let all = told(
        "[[case]]\nname = 1\nrole = \"operater\"\ntool = \"t\"\nnow = \"noon\"\nsource_ip = \"here\"\n\
         expects = \"deny\"\nexpect = \"allowed\"\n",
    );
    let lines: Vec<&str> = all.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(lines, ["2", "3", "5", "6", "7", "8"], "{all:?}");
}
