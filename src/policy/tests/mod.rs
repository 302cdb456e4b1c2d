//! Every known way in which a policy engine says yes by mistake, and that each is shut; and that a
//! decision can be made again from its record.

use super::{
    Answer, Approved, Bundle, Counts, Gate, Groups, Labels, PolicyError, Question, Recorded, Resource,
    Session, Source, Suite, nearest,
};
use crate::auth::{Role, Source as Credential, Subject};
use crate::tools::{Catalog, Places};
use crate::types::json::{canonical, parse_strict};
use crate::types::text::prefix;
use crate::types::{KeyId, limits};
use cedar_policy::{Authorizer, Context, Decision, Entities, EntityUid, Request};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::LazyLock;

mod faults;
mod links;
mod lowering;
mod narrow;
mod powers;
mod slices;

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(super) fn names() -> BTreeSet<String> {
    ["logs", "workspace"].map(str::to_owned).into()
}

/// The shipped tools, read once.
pub(super) fn catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
        let paths = [("logs", "/var/log"), ("workspace", "/nonexistent/workspace")];
        let names = BTreeMap::from(paths.map(|(name, path)| (name.to_owned(), path.into())));
        Catalog::load(&top().join("tools.d"), &Places { names, private: Vec::new() }).expect("shipped tools")
    });
    &CATALOG
}

pub(super) fn source(name: &str, text: &str) -> Source {
    Source { name: name.to_owned(), text: text.to_owned() }
}

fn shipped() -> Vec<Source> {
    ["policies/10-read.cedar", "policies/40-taint.cedar", "policies/90-never.cedar"]
        .map(|name| source(name, &std::fs::read_to_string(top().join(name)).expect("shipped policy")))
        .into()
}

fn try_load(text: &str) -> Result<Bundle, Vec<PolicyError>> {
    Bundle::load(&[source("p.cedar", text)], catalog(), &names())
}

fn load(text: &str) -> Bundle {
    try_load(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
}

fn subject(role: Role) -> Subject {
    let id = KeyId::parse("Ab3dEf9h").expect("id");
    Subject { source: Credential::Key { id, name: "ops".to_owned() }, role, user: Some("ann".to_owned()) }
}

fn os_subject(role: Role) -> Subject {
    Subject { source: Credential::Os { name: "root".to_owned() }, role, user: Some("os:root".to_owned()) }
}

fn session(catalog: &Catalog) -> Session {
    Session {
        id: "ses_1".to_owned(),
        ceiling: catalog.manifests().map(|manifest| manifest.name.clone()).collect(),
        taint: BTreeSet::new(),
        tainted_by: Vec::new(),
        calls_used: 0,
        budget: 32,
        risk: 0,
    }
}

fn host() -> Resource {
    Resource::Fixed { kind: "Host".to_owned(), id: "localhost".to_owned() }
}

fn at(canonical: &str, within: &[&str]) -> Resource {
    let within = within.iter().map(|name| (*name).to_owned()).collect();
    Resource::Path { canonical: canonical.to_owned(), within }
}

fn arguments(tool: &str, path: &str) -> Value {
    match tool {
        "health_check" => json!({}),
        "tail_file" => json!({ "path": path, "lines": 10 }),
        "search_files" => json!({ "path": path, "pattern": "error" }),
        _ => json!({ "path": path }),
    }
}

/// The answer for an operator's key, or for the session and subject given.
fn ask(bundle: &Bundle, who: &Subject, session: &Session, tool: &str, resource: &Resource) -> super::Verdict {
    let catalog = catalog();
    bundle.decide(&Question {
        subject: who,
        session,
        manifest: catalog.find(tool).expect("tool"),
        arguments: &arguments(tool, "/as/the/model/wrote/it"),
        resource,
        approved: Approved::No,
        now_us: 1_700_000_000_123_456,
        source_ip: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        counts: Counts::default(),
    })
}

fn answer(bundle: &Bundle, tool: &str, resource: &Resource) -> Answer {
    ask(bundle, &subject(Role::Operator), &session(catalog()), tool, resource).answer
}

const PERMIT_ALL: &str = "@id(\"all\") permit(principal, action in PAR::Action::\"call_tool\", resource);\n";

/// What errs beyond the year 292277026596; of all that can err this is what no check at load finds.
const ERRS: &str = "context.call.now.offset(duration(\"9223372036854775807ms\")) > context.call.now";

#[test]
fn a_forbid_that_errors_is_a_deny() {
    let bundle = load(&format!(
        "{PERMIT_ALL}@id(\"used\") forbid(principal, action == PAR::Action::\"health_check\", resource)
         when {{ principal.calls_used >= principal.budget || (principal.risk > 0 && {ERRS}) }};"
    ));
    let with = |calls_used, risk| {
        let session = Session { calls_used, risk, ..session(catalog()) };
        ask(&bundle, &subject(Role::Operator), &session, "health_check", &host()).answer
    };
    assert_eq!(with(0, 0), Answer::Allow { policies: vec!["all".to_owned()] });
    assert_eq!(with(32, 0).policies(), ["used"]);
    let Answer::Deny { policies, errors, reason, .. } = with(0, 1) else { panic!("an overflow allowed") };
    assert!(policies.is_empty() && errors.len() == 1 && errors[0].contains("overflow"), "{errors:?}");
    assert_eq!(reason, "the policy could not be evaluated");
    // So is a permit that errors, beside one that does not.
    let bundle = load(&format!(
        "{PERMIT_ALL}@id(\"odd\") permit(principal, action == PAR::Action::\"health_check\", resource)
         when {{ {ERRS} }};"
    ));
    let odd = ask(&bundle, &subject(Role::Operator), &session(catalog()), "health_check", &host()).answer;
    assert!(matches!(odd, Answer::Deny { errors, .. } if errors.len() == 1));
}

#[test]
fn forbids_on_classes_roles_and_users_match() {
    let forbidden = |forbid: &str, who: &Subject| {
        let bundle = load(&format!("{PERMIT_ALL}@id(\"no\") forbid({forbid});"));
        let verdict = ask(&bundle, who, &session(catalog()), "read_file", &at("/var/log/syslog", &["@logs"]));
        match verdict.answer {
            Answer::Deny { policies, .. } => policies == ["no"],
            _ => false,
        }
    };
    let operator = subject(Role::Operator);
    for action in [
        "action in PAR::Action::\"read\"",
        "action in PAR::Action::\"call_tool\"",
        "action in [PAR::Action::\"write\", PAR::Action::\"read\"]",
        "action == PAR::Action::\"read_file\"",
        "action",
    ] {
        assert!(forbidden(&format!("principal, {action}, resource"), &operator), "{action}");
    }
    assert!(!forbidden("principal, action == PAR::Action::\"list_dir\", resource", &operator));
    for role in Role::ALL {
        let forbid = format!("principal in PAR::Role::\"{}\", action, resource", role.as_str());
        for other in Role::ALL {
            let held =
                role == other || (other == Role::Admin && matches!(role, Role::Operator | Role::Viewer));
            assert_eq!(forbidden(&forbid, &subject(other)), held, "{forbid}: {other:?}");
            assert_eq!(forbidden(&forbid, &os_subject(other)), held, "{forbid}: {other:?}");
        }
    }
    assert!(forbidden("principal in PAR::ApiKey::\"Ab3dEf9h\", action, resource", &operator));
    assert!(forbidden("principal in PAR::User::\"ann\", action, resource", &operator));
    assert!(forbidden("principal in PAR::User::\"os:root\", action, resource", &os_subject(Role::Viewer)));
    assert!(forbidden("principal, action, resource in PAR::Path::\"/var\"", &operator));
    assert!(forbidden("principal, action, resource in PAR::Path::\"@logs\"", &operator));
    assert!(!forbidden("principal, action, resource in PAR::Path::\"/var/lo\"", &operator));
}

#[test]
fn what_could_mislead_is_refused_at_load_with_its_line() {
    let check = |text: &str, line: usize, reason: &str| {
        let errors = try_load(text).expect_err(text);
        let told = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(told.contains(&format!("p.cedar:{line}: ")), "{text}\n{told}");
        assert!(told.contains(reason), "{text}\n{told}");
    };
    let all = "permit(principal, action, resource);";
    check("// first\n\npermit(principal action, resource);", 3, "unexpected token");
    check(&format!("@id(\"a\") {all}\n\n{all}"), 3, "has no `@id");
    check(&format!("// \";\" and \\\n@id(\"a;\\\"\") {all}\n@id(\"\")\n{all}"), 3, "has no `@id");
    check(&format!("@id(\"a\") {all}\n@id(\"a\")\n{all}"), 2, "`a` is there already");
    check(&format!("\n@id(\"par.mine\") {all}"), 2, "PAR's own");
    check(
        &format!("@id(\"a\") {all}\n@id(\"t\") permit(principal == ?principal, action, resource);"),
        2,
        "nothing links the template `t`",
    );
    for (condition, reason) in [
        ("principal.nonsense == 1", "nonsense"),
        ("context.input.path == \"/x\"", "path"),
        ("context.call.source_ip.isLoopback()", "source_ip"),
        ("principal.calls_used == \"1\"", "type"),
        ("ip(principal.taint) == ip(\"::1\")", ""),
        ("resource.nothing", "nothing"),
        ("false", "impossible"),
    ] {
        let text = format!(
            "@id(\"x\")\nforbid(principal, action == PAR::Action::\"health_check\", resource)\nwhen {{\n  {condition} }};"
        );
        let errors = try_load(&text).expect_err(&text);
        let told = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(told.starts_with("p.cedar:") && told.contains(reason), "{condition}: {told}");
    }
    let scoped = |scope: &str| format!("\n\n@id(\"x\") permit({scope});");
    check(&scoped("principal, action == PAR::Action::\"nothing\", resource"), 3, "nothing");
    check(&scoped("principal is PAR::Host, action, resource"), 3, "applicable action");
    check(
        &scoped("principal, action == PAR::Action::\"read_file\", resource is PAR::Host"),
        3,
        "applicable action",
    );
    check(&scoped("principal in PAR::Path::\"/var\", action, resource"), 3, "applicable action");
    check(&scoped("principal in PAR::Rolle::\"operator\", action, resource"), 3, "Rolle");
    // The first letter is Cyrillic, in each of these.
    check(&scoped("principal in PAR::Role::\"\u{43e}perator\", action, resource"), 3, "mixed scripts");
    for path in ["var/log", "/var//log", "/var/../log", "/var/log/", "/var/./log", "@nowhere", "", "~/x"] {
        check(
            &scoped(&format!("principal, action, resource in PAR::Path::\"{path}\"")),
            3,
            "neither a plain",
        );
    }
    // Nothing of a broken bundle is taken, and each file's fault is told.
    let broken = [source("a.cedar", "permit("), source("b.cedar", all)];
    let errors = Bundle::load(&broken, catalog(), &names()).expect_err("broken");
    assert_eq!(
        errors.iter().map(|e| e.file.as_str()).collect::<BTreeSet<_>>(),
        ["a.cedar", "b.cedar"].into()
    );
    let twice =
        [source("a.cedar", &format!("@id(\"x\") {all}")), source("b.cedar", &format!("\n@id(\"x\") {all}"))];
    let errors = Bundle::load(&twice, catalog(), &names()).expect_err("twice");
    assert!(errors[0].to_string().starts_with("b.cedar:2: "), "{errors:?}");
}

/// Refused at this line, for this reason, with a way to mend it.
fn check(text: &str, line: usize, reason: &str) {
    let errors = try_load(text).expect_err(text);
    let [error] = errors.as_slice() else { panic!("{text}\n{errors:?}") };
    assert_eq!((error.file.as_str(), error.line), ("p.cedar", Some(line)), "{text}\n{error}");
    assert!(error.reason.contains(reason), "{text}\n{error}");
    let shown = text.lines().nth(line - 1).expect("line");
    assert_eq!(error.shown.as_deref(), Some(prefix(shown, limits::SHOWN_BYTES_MAX)), "{text}");
    assert!(error.mend.is_some(), "{text}\n{error}");
}

/// Cedar parses and evaluates by recursion: what is too deep never gets there.
#[test]
fn what_would_take_the_stack_is_refused() {
    let rule = move |condition: &str| {
        format!(
            "@id(\"deep\") forbid(principal, action == PAR::Action::\"deploy\", resource)\nwhen {{ {condition} }};"
        )
    };
    let one = "context.input.version == \"1\"";
    let chain = |count: usize, word: &str| vec![one; count].join(word);
    let nested = |count: usize| format!("{}{one}{}", "(".repeat(count), ")".repeat(count));
    for fine in [
        nested(20),
        chain(100, " && "),
        format!("{}true{}", "if true then ".repeat(40), " else false".repeat(40)),
        format!("{one} // {}\n", "(".repeat(5_000)),
        format!("context.input.version == \"{}\"", "(".repeat(5_000)),
    ] {
        // Unoptimised, Cedar's parser wants more than the stack of a test.
        let big = std::thread::Builder::new().stack_size(16 << 20);
        big.spawn(move || load(&rule(&fine))).expect("thread").join().expect("is loaded");
    }
    for deep in [
        nested(40),
        nested(100_000),
        chain(2_000, " && "),
        chain(2_000, " || "),
        format!("{}true{}", "if true then ".repeat(2_000), " else false".repeat(2_000)),
        format!("{}{one}", "!".repeat(3_000)),
        format!("{}1{} == 1", "[".repeat(1_000), "]".repeat(1_000)),
        format!("1{} == 1", " + 1".repeat(2_000)),
        format!("context{} == 1", ".a".repeat(5_000)),
    ] {
        check(&rule(&deep), 2, "brackets 32 deep");
    }
    check(
        &format!("{}{}", rule("true").trim_end_matches(';'), " unless { false }".repeat(2_000) + ";"),
        2,
        "brackets 32 deep",
    );
}

/// What Cedar would load: each with the line that is told, the reason, and the way to mend it.
#[test]
fn what_cedar_takes_and_par_does_not_is_refused_with_its_line() {
    let tail = |condition: &str| {
        format!(
            "@id(\"x\")\nforbid(principal, action == PAR::Action::\"tail_file\", resource)\nwhen {{\n{condition} }};"
        )
    };
    let loads = |text: &str| {
        load(text);
    };

    for sum in [
        "context.input.lines + 1 > 2",
        "1 - context.input.lines > 2",
        "context.input.lines * 2 > 2",
        "-context.input.lines > 2",
        "-(-context.input.lines) > 2",
        "principal.calls_used + 1 > principal.budget",
        "(if principal.risk > 1 then principal.risk else 1) * 2 > 1",
        "[context.input.lines + 1].contains(3)",
        "{\"a\": [{\"b\": 1 + context.input.lines}]}.a.contains({\"b\": 1})",
        "9223372036854775807 + 1 > 0",
        "-9223372036854775808 - 1 < 0",
        "-(-9223372036854775808) < 0",
        "4611686018427387904 * 2 > 0",
        "principal.risk > 1 || (false && context.input.lines + 1 > 0)",
    ] {
        check(&tail(sum), 4, "may overflow");
        check(&tail(&format!("true &&\n {sum}")), 5, "may overflow");
        check(&tail("true").replace("when {\ntrue", &format!("unless {{\n{sum}")), 4, "may overflow");
    }
    for fine in [
        "context.input.lines > 60 * 60 - 1 + -3",
        "context.input.lines > -9223372036854775808",
        "context.input.lines >= principal.calls_used",
        "resource.labels.contains(\"secret\") // 1 + context.input.lines",
    ] {
        loads(&tail(&format!("{fine}\n")));
    }

    for path in [
        "context.input.path like \"/var/log/*\"",
        "context.input[\"path\"] like \"*.log\"",
        "context.input.path == \"/var/log/wtmp\"",
        "[\"/var/log/wtmp\"].contains(context.input.path)",
        "{\"a\": context.input}.a.path like \"*\"",
        "(if context.input.lines > 3 then context.input else context.input).path like \"*\"",
        "!(context.input has path) || context.input.path like \"*\"",
    ] {
        check(&tail(path), 4, "the path in the caller's words");
    }
    // The id of a project is one word, and names one project.
    loads(
        "@id(\"x\") forbid(principal, action == PAR::Action::\"deploy\", resource) when { context.input.project like \"shop-*\" };",
    );

    for scope in ["principal, action, resource", "principal is PAR::Session, action, resource"] {
        for condition in ["", "when { principal in PAR::Role::\"admin\" }"] {
            check(&format!("\n@id(\"x\")\npermit({scope}) {condition};"), 3, "neither principal nor action");
            loads(&format!("@id(\"x\") forbid({scope}) {condition};"));
        }
    }
    for scope in [
        "principal in PAR::Role::\"operator\", action in PAR::Action::\"call_tool\", resource",
        "principal is PAR::Session in PAR::Role::\"operator\", action, resource",
        "principal, action in PAR::Action::\"read\", resource",
        "principal, action, resource is PAR::Path",
    ] {
        loads(&format!("@id(\"x\") permit({scope});"));
    }

    for role in ["operater", "Operator", "", "root"] {
        for effect in ["permit", "forbid"] {
            check(
                &format!("\n@id(\"x\") {effect}(principal in PAR::Role::\"{role}\", action, resource);"),
                2,
                "is no role",
            );
            check(
                &format!(
                    "\n@id(\"x\") {effect}(principal, action, resource is PAR::Path)\nwhen {{ principal in [PAR::Role::\"{role}\"] }};"
                ),
                3,
                "is no role",
            );
        }
    }
    let deploy = "(principal, action == PAR::Action::\"deploy\", resource)";
    for (condition, what) in [
        ("context.call.approved == \"aproved\"", "`approved` is never `aproved`"),
        ("\"yes\" == context.call.approved", "`approved` is never `yes`"),
        ("context.call.approved != \"granted\"", "`approved` is never `granted`"),
        ("principal.taint.contains(\"untrsuted\")", "`taint` is never `untrsuted`"),
        ("principal.ceiling.contains(\"raed_file\")", "`ceiling` is never `raed_file`"),
    ] {
        check(&format!("\n@id(\"x\") forbid{deploy}\nwhen {{ {condition} }};"), 3, what);
    }
    for asks in
        ["@require_approval(\"release\")", "@require_approval", "@require_confirm", "@require_confirm(\"\")"]
    {
        check(&format!("\n@id(\"x\") {asks} permit{deploy};"), 2, "on a permit asks nobody");
    }
    check(&format!("\n@id(\"x\") @require_approval forbid{deploy};"), 2, "names no group");
    check(&format!("\n@id(\"x\") @require_approval(\"\") forbid{deploy};"), 2, "names no group");
}

/// An error of Cedar's is told once for its line, by its cause, and says how to mend it.
#[test]
fn one_mistake_is_told_once_and_with_its_remedy() {
    let check = |text: &str, reason: &str, mend: &str| {
        let errors = try_load(text).expect_err(text);
        let [error] = errors.as_slice() else { panic!("{text}\n{errors:?}") };
        assert!(error.reason.contains(reason), "{text}\n{error}");
        assert!(error.mend.as_deref().is_some_and(|told| told.contains(mend)), "{text}\n{error}");
    };
    let permit = |scope: &str| format!("@id(\"x\") permit({scope});");
    let list = |condition: &str| {
        format!(
            "@id(\"x\") forbid(principal, action == PAR::Action::\"list_dir\", resource) when {{ {condition} }};"
        )
    };
    check("permit(principal action, resource);", "unexpected token `action`", "`,`");
    check("permit(principal, action, resource);", "has no `@id", "write one");
    check(&permit("principal, action == PAR::Action::\"raed_file\", resource"), "raed_file", "par tool list");
    check(&permit("principal in Role::\"operator\", action, resource"), "`Role`", "`PAR::Role`");
    check(&permit("principal == PAR::User::\"ben\", action, resource"), "applicable action", "always `in`");
    check(
        &permit("principal, action in PAR::Action::\"write\", resource"),
        "applicable action",
        "par tool list",
    );
    check(&permit("principal == ?principal, action, resource"), "nothing links", "the slot");
    check(&permit("principal, action, resource in PAR::Path::\"@log\""), "neither a plain", "`@logs`");
    check(&list("context.input.limit > 5"), "optional attribute", "context.input has limit");
    check(&list("context.input.lines > 5"), "`input.lines`", "par tool show");
    let all = "@id(\"x\") forbid(principal, action, resource) when { context.input.path == \"/x\" };";
    check(all, "`input.path`", "call_tool");
    check(&list("false"), "impossible", "exclude each other");
    check(
        "@id(\"x\") forbid(principal, action in PAR::Action::\"call_tool\", resource) when { context.call.source_ip.isLoopback() };",
        "source_ip",
        "context.call has source_ip",
    );
    let errors = try_load(
        "@id(\"x\") forbid(principal, action, resource);\n@id(\"x\") forbid(principal, action, resource);",
    );
    assert_eq!(errors.expect_err("twice")[0].mend.as_deref(), Some("the other stands at p.cedar:1"));
}

/// Sums as a policy may write them, and numbers as a caller would choose them.
fn sums() -> impl Strategy<Value = String> {
    let numbers = prop_oneof![any::<i64>(), -3_i64..3, Just(i64::MIN), Just(i64::MAX)];
    let leaf = prop_oneof![
        4 => numbers.prop_map(|number| number.to_string()),
        1 => prop::sample::select(vec!["context.input.lines", "principal.risk", "principal.calls_used"])
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let two = (inner.clone(), prop::sample::select(vec!["+", "-", "*"]), inner.clone());
        prop_oneof![
            two.prop_map(|(left, sign, right)| format!("({left} {sign} {right})")),
            inner.clone().prop_map(|of| format!("-({of})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("(if {a} < {b} then {a} else {b})")),
        ]
    })
}

proptest! {
    #![proptest_config(crate::types::laws::cases(160))]

    /// A rule that was loaded never overflows, whatever the numbers; and one without arithmetic is loaded.
    #[test]
    fn no_rule_that_loads_can_overflow(
        sum in sums(), than in sums(), lines in prop_oneof![Just(i64::MIN), Just(i64::MAX), any::<i64>()],
        risk in prop_oneof![Just(i64::MIN), Just(i64::MAX), any::<i64>()],
    ) {
        let text = format!(
            "@id(\"x\")\nforbid(principal, action == PAR::Action::\"tail_file\", resource)\nwhen {{\n{sum} < {than} }};"
        );
        let has_sign = [" + ", " - ", " * ", "-("].iter().any(|sign| text.contains(sign));
        match try_load(&text) {
            Err(errors) => {
                prop_assert!(has_sign, "{}", text);
                prop_assert!(errors.iter().all(|e| e.line == Some(4) && e.reason.contains("may overflow")), "{:?}", errors);
            }
            Ok(bundle) => {
                let session = Session { risk, calls_used: risk, ..session(catalog()) };
                let verdict = bundle.decide(&Question {
                    subject: &subject(Role::Operator), session: &session,
                    manifest: catalog().find("tail_file").expect("tool"),
                    arguments: &json!({ "path": "/x", "lines": lines }), resource: &at("/var/log/syslog", &["@logs"]),
                    approved: Approved::No, now_us: 0, source_ip: None, counts: Counts::default(),
                });
                let Answer::Deny { errors, .. } = verdict.answer else { panic!("allowed") };
                prop_assert!(errors.is_empty(), "{}: {:?}", text, errors);
            }
        }
    }
}

#[test]
fn no_file_can_widen_the_ceiling_or_the_roots() {
    let bundle = load(PERMIT_ALL);
    let operator = subject(Role::Operator);
    let narrow = Session { ceiling: BTreeSet::from(["list_dir".to_owned()]), ..session(catalog()) };
    let inside = at("/var/log/syslog", &["@logs"]);
    let verdict = ask(&bundle, &operator, &narrow, "read_file", &inside);
    assert_eq!(verdict.answer.policies(), ["par.ceiling.read_file"]);
    assert!(matches!(ask(&bundle, &operator, &narrow, "list_dir", &inside).answer, Answer::Allow { .. }));
    let outside = Resource::Outside { lexical: "/var/log/syslog".to_owned() };
    let Answer::Deny { policies, reason, .. } = answer(&bundle, "read_file", &outside) else {
        panic!("allowed")
    };
    assert_eq!((policies, reason.as_str()), (vec!["par.outside".to_owned()], "not permitted or not found"));
    // Default deny, and what is said of it.
    let Answer::Deny { policies, reason, .. } = answer(&load(""), "read_file", &inside) else {
        panic!("allowed")
    };
    assert_eq!((policies.len(), reason.as_str()), (0, "default: no policy permits it"));
}

#[test]
fn a_person_is_asked_only_where_a_yes_would_help() {
    const APPROVE: &str = "@id(\"two\") @require_approval(\"admins\")
        forbid(principal, action in PAR::Action::\"read\", resource) unless { context.call.approved == \"approved\" };\n";
    const CONFIRM: &str = "@id(\"sure\") @require_confirm
        forbid(principal, action in PAR::Action::\"read\", resource) when { context.call.approved == \"no\" };\n";
    const NEVER: &str = "@id(\"never\") forbid(principal, action in PAR::Action::\"read\", resource);\n";
    const ANYHOW: &str =
        "@id(\"anyhow\") @require_confirm forbid(principal, action in PAR::Action::\"read\", resource);\n";
    let overflows = format!(
        "@id(\"over\") forbid(principal, action in PAR::Action::\"read\", resource)
         when {{ context.call.approved != \"no\" && {ERRS} }};\n"
    );
    let inside = at("/var/log/syslog", &["@logs"]);
    let check = |texts: &[&str], expect: &str, gates: &[Gate]| {
        let bundle = load(&texts.concat());
        let session = session(catalog());
        let answer = ask(&bundle, &subject(Role::Operator), &session, "read_file", &inside).answer;
        assert_eq!(answer.word(), expect, "{texts:?}: {answer:?}");
        if let Answer::NeedsApproval { gates: asked, .. } = answer {
            assert_eq!(asked, gates, "{texts:?}");
        }
    };
    let admins = || Gate::Approval { group: "admins".to_owned() };
    check(&[PERMIT_ALL, APPROVE], "needs_approval", &[admins()]);
    check(&[PERMIT_ALL, CONFIRM], "needs_approval", &[Gate::Confirm]);
    check(&[PERMIT_ALL, APPROVE, CONFIRM], "needs_approval", &[Gate::Confirm, admins()]);
    check(&[APPROVE], "deny", &[]);
    check(&[PERMIT_ALL, APPROVE, NEVER], "deny", &[]);
    check(&[PERMIT_ALL, ANYHOW], "deny", &[]);
    check(&[PERMIT_ALL, CONFIRM, &overflows], "deny", &[]);
    check(&[PERMIT_ALL], "allow", &[]);
}

fn groups() -> Groups {
    Groups::new([("night".to_owned(), vec!["ann".to_owned(), "os:root".to_owned()])])
}

/// A shadow permit permits nothing, a shadow forbid forbids nothing, an error of either denies nothing; each
/// is told where it would have made a difference, and only there.
#[test]
fn what_is_in_shadow_mode_is_only_reported() {
    let check = |policies: &str, answer: (&str, &str), beside: Option<(&str, &str, usize)>| {
        let bundle = load(policies);
        let verdict = ask(&bundle, &subject(Role::Operator), &session(catalog()), "health_check", &host());
        assert_eq!(
            (verdict.answer.word(), verdict.answer.policies().join(" ").as_str()),
            answer,
            "{policies}"
        );
        let told = verdict.shadow.map(|s| (s.decision, s.policies.join(" "), s.errors.len()));
        assert_eq!(told, beside.map(|(word, by, n)| (word, by.to_owned(), n)), "{policies}");
        let named: Vec<&str> = bundle.in_shadow().collect();
        assert_eq!(named.len(), policies.matches("@mode").count(), "{named:?}");
        assert!(named.iter().all(|id| bundle.text(id).is_some_and(|text| text.contains("@mode"))));
    };
    let shadow = |rest: &str| format!("@id(\"s\") @mode(\"shadow\") {rest}\n");
    let health = "principal, action == PAR::Action::\"health_check\", resource";
    let forbid = shadow(&format!("forbid({health});"));
    let permit = shadow(&format!("permit({health});"));
    let errs = shadow(&format!("forbid({health}) when {{ {ERRS} }};"));
    let asks = |id: &str, group: &str, more: &str| {
        format!(
            "@id(\"{id}\") @require_approval(\"{group}\") {more} forbid({health}) \
             unless {{ context.call.approved == \"approved\" }};"
        )
    };
    check(&format!("{PERMIT_ALL}{forbid}"), ("allow", "all"), Some(("deny", "s", 0)));
    check(&permit, ("deny", ""), Some(("allow", "s", 0)));
    check(&format!("{PERMIT_ALL}{errs}"), ("allow", "all"), Some(("deny", "", 1)));
    check(&errs, ("deny", ""), Some(("deny", "", 1)));
    // What would be decided all the same is not told.
    check(&format!("{PERMIT_ALL}{permit}"), ("allow", "all"), None);
    check(&forbid, ("deny", ""), None);
    // A question that is only a shadow asks nobody; one that asks others is told.
    let gate = asks("s", "night", "@mode(\"shadow\")");
    check(&format!("{PERMIT_ALL}{gate}"), ("allow", "all"), Some(("needs_approval", "s", 0)));
    let both = format!("{PERMIT_ALL}{}{gate}", asks("g", "day", ""));
    check(&both, ("needs_approval", "g"), Some(("needs_approval", "g s", 0)));
    // A shadow permit does not make a yes count, and offers no tool.
    check(&format!("{permit}{}", asks("g", "day", "")), ("deny", "g"), Some(("needs_approval", "g", 0)));
    let manifest = catalog().find("health_check").expect("tool");
    assert!(!load(&permit).may_offer(&subject(Role::Operator), &session(catalog()), manifest));
    assert!(load(PERMIT_ALL).may_offer(&subject(Role::Operator), &session(catalog()), manifest));
}

#[test]
fn a_mode_that_is_not_known_is_refused() {
    for mode in ["@mode(\"shado\")", "@mode(\"Shadow\")", "@mode(\"\")", "@mode", "@mode(\"enforce\")"] {
        let errors = try_load(&format!("@id(\"a\")\n{mode}\n{PERMIT_ALL}").replace("@id(\"all\") ", ""));
        let told = errors.expect_err(mode)[0].to_string();
        assert!(told.starts_with("p.cedar:2: `@mode(") && told.contains("is no mode"), "{told}");
    }
}

/// What is kept of a bundle makes the same bundle, and nothing that differs from it is taken for it.
#[test]
fn a_bundle_is_made_again_from_what_is_kept() {
    let sources = [
        shipped(),
        vec![source(
            "policies/50.cedar",
            "@id(\"x\") @mode(\"shadow\") forbid(principal, action, resource);",
        )],
    ];
    let entities = source("policies/entities.toml", "[project.demo]\nlabels = [\"secret\"]\n");
    let labels = Labels::parse(&entities, &names()).expect("labels");
    let bundle = Bundle::load(&sources.concat(), catalog(), &names()).expect("bundle");
    let tests = source("policies/tests/a.toml", "");
    let suite = Suite::parse(&[tests]).expect("tests");
    let bundle = bundle.with_labels(labels).expect("labels").with_suite(suite).with_groups(groups());
    let (kept, digest) = (bundle.keep(), bundle.digest());
    let again = Bundle::rebuild(kept.as_bytes(), digest).expect("rebuilt");
    assert_eq!((again.digest(), again.keep()), (digest, kept.clone()));
    assert_eq!(again.set, bundle.set);
    let with_shadow = |bundle: &Bundle| bundle.with_shadow.as_ref().map(|(set, _)| set.clone());
    assert!(with_shadow(&again).is_some() && with_shadow(&again) == with_shadow(&bundle));
    assert_eq!(again.groups(), bundle.groups());
    assert_eq!(again.other_engine(), None);
    let refused = |text: &str| Bundle::rebuild(text.as_bytes(), digest).expect_err("taken");
    let value: Value = serde_json::from_str(&kept).expect("JSON");
    for (place, new) in [
        ("/t", json!("par/bundle/2")),
        (
            "/policies/0/text",
            json!("@id(\"a\") permit(principal, action in PAR::Action::\"read\", resource);"),
        ),
        ("/policies/0/name", json!("policies/11-read.cedar")),
        ("/policies", json!([])),
        ("/policies/1", value["policies"][0].clone()),
        ("/base", json!("namespace PAR {}")),
        ("/schema", json!("{}")),
        ("/engine", json!("0.0.0")),
        ("/lines", json!("")),
        ("/groups", json!({ "night": ["ann"] })),
        ("/groups", json!(null)),
        ("/entities", json!(null)),
        ("/entities", json!("0".repeat(64))),
        ("/entities", json!("none")),
        ("/tests", json!({})),
        ("/tests", json!({ "policies/tests/a.toml": "none" })),
    ] {
        let mut changed = value.clone();
        *changed.pointer_mut(place).expect(place) = new;
        refused(&changed.to_string());
    }
    // A line more, of a file that does not count, changes the digest.
    let mut more = value.clone();
    more["lines"] =
        json!(format!("{}tools.d/zz {}\n", value["lines"].as_str().expect("lines"), "0".repeat(64)));
    assert!(refused(&more.to_string()).contains("leads to the digest"));
    refused(kept.split_at(kept.len() / 2).0);
    refused("");
}

/// A recorded request that does not fit another bundle's schema is a deny there, and told apart.
#[test]
fn a_request_that_does_not_fit_is_a_deny() {
    let bundle = load(PERMIT_ALL);
    let verdict = ask(&bundle, &subject(Role::Operator), &session(catalog()), "health_check", &host());
    let recorded = Recorded::read(&verdict.request).expect("read");
    assert_eq!((recorded.tool(), recorded.session()), ("health_check", "ses_1"));
    assert_eq!(recorded.resource(), ("Host", "localhost"));
    assert_eq!(bundle.decide_again(&recorded).answer.word(), "allow");
    for (place, new) in [
        ("/context/input", json!({ "more": 1 })),
        ("/context/call/approved", json!(7)),
        ("/action/id", json!("no_tool")),
        ("/resource/type", json!("PAR::Project")),
        ("/entities/0/attrs", json!({ "x": 1 })),
    ] {
        let mut request = verdict.request.clone();
        *request.pointer_mut(place).expect(place) = new;
        let again = bundle.decide_other(&Recorded::read(&request).expect("read"));
        assert_eq!((again.answer.word(), again.fits), ("deny", false), "{place}");
    }
    for (place, new) in [
        ("/context", json!([])),
        ("/entities", json!({})),
        ("/principal/type", json!("User")),
        ("/resource/type", json!("PAR::Nothing")),
        ("/action/type", json!("PAR::User")),
        ("/context/call/now", json!({ "__extn": { "fn": "duration", "arg": "1h" } })),
        ("/context/call/calls_hour", json!(1.5)),
        ("/context/call/dry_run", json!(null)),
    ] {
        let mut request = verdict.request.clone();
        *request.pointer_mut(place).expect(place) = new;
        Recorded::read(&request).expect_err(place);
    }
}

#[test]
fn the_digest_names_policies_tools_and_their_files() {
    let all = catalog();
    let digest = |sources: &[Source]| Bundle::load(sources, all, &names()).expect("bundle").digest();
    let shipped = shipped();
    let reversed: Vec<Source> = shipped.iter().rev().cloned().collect();
    assert_eq!(digest(&shipped), digest(&reversed), "the order of reading does not count");
    assert_ne!(digest(&shipped), digest(&shipped[..1]));
    let mut changed = shipped.clone();
    changed[0].text.push('\n');
    assert_ne!(digest(&shipped), digest(&changed));
    let mut renamed = shipped.clone();
    renamed[0].name = "policies/11-read.cedar".to_owned();
    assert_ne!(digest(&shipped), digest(&renamed));
    assert_ne!(digest(&[]), Bundle::load(&[], &Catalog::default(), &names()).expect("bundle").digest());
}

/// What did not hold is told in the rule's own words, each with its line.
#[test]
fn what_does_not_hold_is_told_in_the_rules_own_words() {
    let text = r#"@id("far") permit (principal in PAR::Role::"viewer", action, resource in PAR::Path::"/srv")
when { principal.risk > 3 };
@id("near") permit (
    principal in PAR::Role::"operator",
    action in PAR::Action::"read",
    resource is PAR::Path in
        PAR::Path::"/var"
) when {
    resource in PAR::Path::"/var/log" && (context.call.calls_hour < 3 || principal.risk == 9) &&
    principal.taint.contains("untrusted")
} unless { context.call.dry_run || principal.risk < 1 }
when { !(principal.risk > 5) && !principal.taint.isEmpty() };
@id("not") forbid (principal, action, resource is PAR::Host);
"#;
    let bundle = load(text);
    let question = |resource: &Resource| {
        let session = session(catalog());
        let question = Question {
            subject: &subject(Role::Operator),
            session: &session,
            manifest: catalog().find("read_file").expect("tool"),
            arguments: &arguments("read_file", "/x"),
            resource,
            approved: Approved::No,
            now_us: 0,
            source_ip: None,
            counts: Counts::default(),
        };
        bundle.explain(&question)
    };
    let told = |considered: &[super::Considered], id: &str| -> Vec<String> {
        let one = considered.iter().find(|one| one.policy == id).expect("policy").clone();
        one.failing.iter().map(|part| format!("{:?} {}", part.line.unwrap_or(0), part.words)).collect()
    };
    let considered = question(&at("/var/log/syslog", &[]));
    assert_eq!(
        told(&considered, "far"),
        [
            "1 principal is not in PAR::Role::\"viewer\"",
            "1 resource is not in PAR::Path::\"/srv\"",
            "2 `principal.risk > 3` does not hold"
        ]
    );
    assert_eq!(
        told(&considered, "near"),
        [
            "10 `principal.taint.contains(\"untrusted\")` does not hold",
            "11 `context.call.dry_run || principal.risk < 1` holds",
            "12 `!principal.taint.isEmpty()` does not hold",
        ]
    );
    assert_eq!(told(&considered, "not"), ["13 resource is not a PAR::Host"]);
    assert_eq!(
        considered.iter().find(|c| c.policy == "near").and_then(|c| c.failed_at.as_deref()),
        Some("p.cedar:10")
    );
    // Fewest parts, not those of the first policy.
    assert_eq!(nearest(&considered).map(|one| one.policy.as_str()), Some("far"));
    let elsewhere = question(&at("/elsewhere", &[]));
    assert_eq!(told(&elsewhere, "near")[0], "7 resource is not a PAR::Path in PAR::Path::\"/var\"");
}

fn names_of_paths() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        prop::sample::select(vec![
            "var",
            "log",
            "logs",
            "lo",
            "log2",
            "Log",
            "log ",
            "etc",
            "shadow",
            "wtmp",
            "wtmp.1",
            "a\u{301}",
            "\u{e1}",
            "l\u{43e}g",
            "@logs",
            "*",
            "\"",
            "\\",
            "nonexistent",
            "workspace",
            "log\n",
            "\u{202e}gol",
        ])
        .prop_map(str::to_owned),
        "[^/\0]{1,6}".prop_filter("a plain name", |name| name != "." && name != ".."),
    ];
    prop::collection::vec(name, 0..5).prop_map(|names| format!("/{}", names.join("/")))
}

fn is_below(path: &str, folder: &str) -> bool {
    Path::new(path).starts_with(folder)
}

fn subjects() -> impl Strategy<Value = Subject> {
    (prop::sample::select(Role::ALL.to_vec()), any::<bool>())
        .prop_map(|(role, by_key)| if by_key { subject(role) } else { os_subject(role) })
}

fn sessions() -> impl Strategy<Value = Session> {
    let numbers = prop_oneof![Just(0_i64), Just(1), 0..100_i64, Just((1_i64 << 53) - 1)];
    let words = prop::collection::btree_set("[a-z_]{1,8}", 0..3);
    (words, prop::bool::weighted(0.9), numbers.clone(), numbers).prop_map(
        |(taint, is_whole, calls_used, risk)| {
            let whole = session(catalog());
            let ceiling = if is_whole { whole.ceiling.clone() } else { taint.clone() };
            Session { ceiling, taint, calls_used, risk, ..whole }
        },
    )
}

/// Makes the decision again from its record alone, as anybody can who has the bundle.
fn again(bundle: &Bundle, request: &Value) -> Result<(Decision, Vec<String>, usize), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let uid = |name: &str| EntityUid::from_json(request[name].clone()).map_err(|e| text(&e));
    let (principal, action, resource) = (uid("principal")?, uid("action")?, uid("resource")?);
    let context = Context::from_json_value(request["context"].clone(), Some((&bundle.schema, &action)));
    let context = context.map_err(|e| text(&e))?;
    let entities = Entities::from_json_value(request["entities"].clone(), Some(&bundle.schema));
    let entities = entities.map_err(|e| text(&e))?;
    let request =
        Request::new(principal, action, resource, context, Some(&bundle.schema)).map_err(|e| text(&e))?;
    let response = Authorizer::new().is_authorized(&request, &bundle.set, &entities);
    let mut policies: Vec<String> = response.diagnostics().reason().map(ToString::to_string).collect();
    policies.sort();
    Ok((response.decision(), policies, response.diagnostics().errors().count()))
}

proptest! {
    #![proptest_config(crate::types::laws::cases(160))]

    /// A decision is the same each time, and again from its record, written and read as the ledger does.
    #[test]
    fn a_decision_can_be_made_again_from_its_record(
        path in names_of_paths(), kind in 0_u8..4, who in subjects(), session in sessions(),
        tool in prop::sample::select(vec!["read_file", "list_dir", "tail_file", "health_check"]),
        now_us in 0_u64..4_000_000_000_000_000, words in ".{0,30}", number in -(1_i64 << 53) + 1..1_i64 << 53, v6 in any::<[u8; 16]>(),
    ) {
        static BUNDLE: LazyLock<Bundle> = LazyLock::new(|| {
            let mut sources = shipped();
            sources.push(source("policies/extra.cedar", "
                @id(\"over\") forbid(principal, action == PAR::Action::\"list_dir\", resource)
                  when { principal.risk > 5 && context.call.now.offset(duration(\"9223372036854775807ms\")) > context.call.now };
                @id(\"ask\") @require_confirm forbid(principal, action == PAR::Action::\"tail_file\", resource)
                  when { context.input.lines > 100 && context.call.approved == \"no\" };
                @id(\"beside\") @mode(\"shadow\") forbid(principal, action in PAR::Action::\"call_tool\", resource)
                  when { principal.calls_used > 50 };
                @id(\"errs-beside\") @mode(\"shadow\") permit(principal, action == PAR::Action::\"read_file\", resource)
                  when { principal.risk > 7 && context.call.now.offset(duration(\"9223372036854775807ms\")) > context.call.now };
                @id(\"home\") permit(principal, action in PAR::Action::\"read\", resource in PAR::Path::\"/var\")
                  when { context.call has source_ip && context.call.source_ip.isLoopback()
                         && context.call.now < datetime(\"2030-01-01\") };"));
            Bundle::load(&sources, catalog(), &names()).expect("bundle").with_groups(groups())
        });
        /// The same bundle, made again from what is kept of it.
        static KEPT: LazyLock<Bundle> = LazyLock::new(|| {
            Bundle::rebuild(BUNDLE.keep().as_bytes(), BUNDLE.digest()).expect("rebuilt")
        });
        let (bundle, catalog) = (&*BUNDLE, catalog());
        let resource = match (tool, kind) {
            ("health_check", _) => host(),
            (_, 0) => at(&path, &["@logs"]),
            (_, 1) => at(&path, &["@workspace", "/elsewhere", "/elsewhere"]),
            (_, 2) => Resource::Outside { lexical: path.clone() },
            _ => at(&path, &[]),
        };
        let mut arguments = arguments(tool, &words);
        match tool {
            "tail_file" => arguments["lines"] = json!(number),
            "read_file" => arguments["offset"] = json!(number),
            _ => {}
        }
        let question = Question {
            subject: &who, session: &session, manifest: catalog.find(tool).expect("tool"), arguments: &arguments,
            resource: &resource, approved: Approved::No, now_us,
            source_ip: match kind { 0 => None, 1 => Some(IpAddr::from(v6)), _ => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)) },
            counts: Counts::default(),
        };
        let verdict = bundle.decide(&question);
        let second = bundle.decide(&question);
        prop_assert_eq!(&verdict.answer, &second.answer);
        prop_assert_eq!(&verdict.request, &second.request);

        let written = canonical(&verdict.request).expect("canonical");
        let read = parse_strict(written.as_bytes(), 64).expect("JSON");
        let recorded = Recorded::read(&read).map_err(TestCaseError::fail)?;
        let later = KEPT.decide_again(&recorded);
        prop_assert_eq!((&later.answer, &later.shadow, later.fits), (&verdict.answer, &verdict.shadow, true));

        let (decision, policies, errors) = again(bundle, &read).map_err(TestCaseError::fail)?;

        // What explains it agrees with it: from the question and from the record, and part by part.
        let (told, considered) = bundle.explain_recorded(catalog, &read).map_err(TestCaseError::fail)?;
        prop_assert_eq!(&told, &verdict.answer);
        prop_assert_eq!(&considered, &bundle.explain(&question));
        for one in considered.iter().filter(|one| one.error.is_none()) {
            prop_assert_eq!(one.matched, one.failing.is_empty(), "{:?}", one);
        }
        let permits: Vec<&String> = considered.iter().filter(|c| c.permits && c.matched).map(|c| &c.policy).collect();
        if let Answer::Allow { policies } = &verdict.answer {
            let mut permits = permits.clone();
            permits.sort();
            prop_assert_eq!(permits, policies.iter().collect::<Vec<_>>());
        }
        prop_assert_eq!(nearest(&considered).is_none(), !permits.is_empty());
        match &verdict.answer {
            Answer::Allow { policies: then } => {
                prop_assert_eq!((decision, &policies, errors), (Decision::Allow, then, 0));
            }
            Answer::Deny { errors: then, .. } if !then.is_empty() => prop_assert_eq!(errors, then.len()),
            other => {
                prop_assert_eq!((decision, errors), (Decision::Deny, 0));
                prop_assert_eq!(policies.as_slice(), other.policies());
            }
        }
    }

    /// A path is allowed below the folder that a policy names, and nowhere else: by whole names.
    #[test]
    fn a_folder_holds_what_is_below_it_and_nothing_else(path in names_of_paths()) {
        static PERMITS: LazyLock<Bundle> =
            LazyLock::new(|| load("@id(\"logs\") permit(principal, action, resource in PAR::Path::\"/var/log\");"));
        static FORBIDS: LazyLock<Bundle> = LazyLock::new(|| {
            load(&format!("{PERMIT_ALL}@id(\"no\") forbid(principal, action, resource in PAR::Path::\"/var/log\");"))
        });
        let expect = is_below(&path, "/var/log");
        for tool in ["read_file", "list_dir", "tail_file"] {
            let answer = answer(&PERMITS, tool, &at(&path, &[]));
            prop_assert_eq!(matches!(answer, Answer::Allow { .. }), expect, "{}", &path);
        }
        // A forbid on it holds too when the object is known to lie there under another name.
        let denied = |resource: &Resource| matches!(answer(&FORBIDS, "read_file", resource), Answer::Deny { .. });
        prop_assert_eq!(denied(&at(&path, &[])), expect);
        prop_assert!(denied(&at(&path, &["/var/log"])));
    }

    /// What would be allowed is offered: hiding is never stricter than deciding, nor is it a decision.
    #[test]
    fn no_allowed_tool_is_hidden(
        principal in prop::sample::select(vec![
            "principal", "principal is PAR::Session", "principal in PAR::Role::\"operator\"", "principal in PAR::Role::\"viewer\"",
            "principal is PAR::Session in PAR::Role::\"admin\"", "principal in PAR::User::\"ann\"", "principal in PAR::ApiKey::\"Ab3dEf9h\"",
            "principal == PAR::Session::\"ses_1\"", "principal == PAR::Session::\"ses_2\"", "principal in PAR::Role::\"approver\"",
        ]),
        action in prop::sample::select(vec![
            "action", "action in PAR::Action::\"read\"", "action in PAR::Action::\"call_tool\"", "action == PAR::Action::\"read_file\"",
            "action in [PAR::Action::\"read_file\", PAR::Action::\"list_dir\"]", "action in [PAR::Action::\"read\"]",
            "action == PAR::Action::\"health_check\"",
        ]),
        scope in prop::sample::select(vec![
            "resource", "resource is PAR::Path", "resource is PAR::Host", "resource == PAR::Host::\"localhost\"",
            "resource in PAR::Path::\"@logs\"", "resource is PAR::Path in PAR::Path::\"/var\"", "resource in PAR::Path::\"/srv\"",
        ]),
        condition in prop::sample::select(vec![
            "", "when { !principal.taint.contains(\"untrusted\") }", "when { principal.risk == 0 || resource in PAR::Host::\"localhost\" }",
            "unless { principal.calls_used >= principal.budget }", "when { context.call.approved == \"no\" }",
        ]),
        forbid in prop::sample::select(vec![
            "", "forbid(principal, action in PAR::Action::\"call_tool\", resource) when { principal.taint.contains(\"untrusted\") };",
            "@require_confirm(\"\") forbid(principal, action in PAR::Action::\"call_tool\", resource) when { principal.taint.contains(\"untrusted\") } unless { context.call.approved == \"confirmed\" };",
            "forbid(principal, action == PAR::Action::\"read_file\", resource in PAR::Path::\"/srv\");",
            "forbid(principal, action in PAR::Action::\"read\", resource is PAR::Path) when { principal.risk > 0 };",
            "forbid(principal, action == PAR::Action::\"health_check\", resource == PAR::Host::\"localhost\");",
            "forbid(principal in PAR::Role::\"viewer\", action in PAR::Action::\"call_tool\", resource) when { context.call.calls_hour > 3 };",
        ]),
        who in subjects(), session in sessions(), is_tainted in any::<bool>(),
    ) {
        let mut session = session;
        if is_tainted {
            session.taint.insert("untrusted".to_owned());
        }
        let forbid = if forbid.is_empty() { String::new() } else { format!("@id(\"f\") {forbid}") };
        // A scope that nothing can meet is refused at load.
        let text = format!("@id(\"x\") permit({principal}, {action}, {scope}) {condition};\n{forbid}");
        let Ok(bundle) = try_load(&text) else { return Ok(()) };
        let catalog = catalog();
        // The deploy job has a resource of its own, which no scope above names.
        for manifest in catalog.manifests().filter(|manifest| manifest.name != "deploy") {
            let resource = if manifest.name == "health_check" { host() } else { at("/var/log/syslog", &["@logs"]) };
            let answer = ask(&bundle, &who, &session, &manifest.name, &resource).answer;
            let offered = bundle.may_offer(&who, &session, manifest);
            let may_run = !matches!(answer, Answer::Deny { .. });
            prop_assert!(offered || !may_run, "{} {}", text, &manifest.name);
            let is_of_principal = condition.is_empty() || condition.contains("principal.taint") || condition.contains("principal.budget");
            if scope != "resource" || !forbid.is_empty() || !is_of_principal { continue; }
            prop_assert_eq!(matches!(answer, Answer::Allow { .. }), offered, "{} {} {}", principal, action, &manifest.name);
        }
    }
}
