//! Refusals at load: what could mislead, what exhausts the stack, and sums that overflow.

use super::{at, catalog, load, names, session, source, subject, try_load};
use crate::auth::Role;
use crate::policy::{Approved, Bundle, Counts, PolicyError, Question, Ruling, Session};
use crate::types::limits;
use crate::types::text::prefix;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;

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
    check(&format!("@id(\"a\") {all}\n@id(\"a\")\n{all}"), 2, "`a` is already taken");
    check(&format!("\n@id(\"par.mine\") {all}"), 2, "PAR's own");
    check(
        &format!("@id(\"a\") {all}\n@id(\"t\") permit(principal == ?principal, action, resource);"),
        2,
        "no link uses the template `t`",
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
    // The first letter of each is Cyrillic.
    check(&scoped("principal in PAR::Role::\"\u{43e}perator\", action, resource"), 3, "mixed scripts");
    for path in ["var/log", "/var//log", "/var/../log", "/var/log/", "/var/./log", "@nowhere", "", "~/x"] {
        check(
            &scoped(&format!("principal, action, resource in PAR::Path::\"{path}\"")),
            3,
            "neither a plain",
        );
    }
    // No part of a broken bundle is loaded, and each file's fault is reported.
    let broken = [source("a.cedar", "permit("), source("b.cedar", all)];
    let errors = Bundle::load(&broken, catalog(), &names()).expect_err("broken");
    assert_eq!(
        errors.iter().map(|e| e.file.as_str()).collect::<BTreeSet<_>>(),
        ["a.cedar", "b.cedar"].into()
    );
    let twice =
        [source("a.cedar", &format!("@id(\"x\") {all}")), source("b.cedar", &format!("\n@id(\"x\") {all}"))];
    let errors = Bundle::load(&twice, catalog(), &names()).expect_err("twice");
    assert!(errors.iter().any(|e| e.to_string().starts_with("b.cedar:2: the policy id")), "{errors:?}");
}

/// Refused at this line, for this reason, with a fix.
fn check(text: &str, line: usize, reason: &str) {
    let errors = try_load(text).expect_err(text);
    let [error] = errors.as_slice() else { panic!("{text}\n{errors:?}") };
    assert_eq!((error.file.as_str(), error.line), ("p.cedar", Some(line)), "{text}\n{error}");
    assert!(error.reason.contains(reason), "{text}\n{error}");
    let shown = text.lines().nth(line - 1).expect("line");
    assert_eq!(error.shown.as_deref(), Some(prefix(shown, limits::SHOWN_BYTES_MAX)), "{text}");
    assert!(error.mend.is_some(), "{text}\n{error}");
}

/// Cedar parses and evaluates by recursion: text that nests too deep never gets there.
#[test]
fn what_would_exhaust_the_stack_is_refused() {
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
        format!("context.input.version != \"{}\"", "(".repeat(5_000)),
    ] {
        // Without optimisation, Cedar's parser needs more than the stack of a test.
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

/// What Cedar would load: each with the reported line, the reason, and a fix.
#[test]
fn what_cedar_accepts_and_par_does_not_is_refused_with_its_line() {
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
        check(&tail(path), 4, "the path as the caller wrote it");
    }
    // The id of a project has one spelling, and names one project.
    loads(
        "@id(\"x\") forbid(principal, action == PAR::Action::\"deploy\", resource) when { context.input.project like \"shop-*\" };",
    );

    for scope in ["principal, action, resource", "principal is PAR::Session, action, resource"] {
        for condition in ["", "when { principal in PAR::Role::\"admin\" }"] {
            check(
                &format!("\n@id(\"x\")\npermit({scope}) {condition};"),
                3,
                "names no principal, action or resource",
            );
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
                "unknown role",
            );
            check(
                &format!(
                    "\n@id(\"x\") {effect}(principal, action, resource is PAR::Path)\nwhen {{ principal in [PAR::Role::\"{role}\"] }};"
                ),
                3,
                "unknown role",
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
        check(&format!("\n@id(\"x\") {asks} permit{deploy};"), 2, "has no effect on a permit");
    }
    check(&format!("\n@id(\"x\") @require_approval forbid{deploy};"), 2, "names no group");
    check(&format!("\n@id(\"x\") @require_approval(\"\") forbid{deploy};"), 2, "names no group");
}

/// An error from Cedar is reported once for its line, by its cause, with a fix.
#[test]
fn one_mistake_is_reported_once_with_its_fix() {
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
    check(
        "permit(principal in PAR::Role::\"operator\", action in PAR::Action::\"call_tool\", resource);",
        "has no `@id",
        "write one",
    );
    check(&permit("principal, action == PAR::Action::\"raed_file\", resource"), "raed_file", "par tool list");
    check(&permit("principal in Role::\"operator\", action, resource"), "`Role`", "`PAR::Role`");
    check(&permit("principal == PAR::User::\"ben\", action, resource"), "applicable action", "always `in`");
    check(
        &permit("principal, action in PAR::Action::\"write\", resource"),
        "applicable action",
        "par tool list",
    );
    check(&permit("principal == ?principal, action, resource"), "no link uses", "the slot");
    check(&permit("principal, action, resource in PAR::Path::\"@log\""), "neither a plain", "`@logs`");
    check(&list("context.input.limit > 5"), "optional attribute", "context.input has limit");
    check(&list("context.input.lines > 5"), "`input.lines`", "par tool show");
    let all = "@id(\"x\") forbid(principal, action, resource) when { context.input.lines == 5 };";
    check(all, "`input.lines`", "call_tool");
    check(&list("false"), "impossible", "exclude each other");
    check(
        "@id(\"x\") forbid(principal, action in PAR::Action::\"call_tool\", resource) when { context.call.source_ip.isLoopback() };",
        "source_ip",
        "context.call has source_ip",
    );
    let errors = try_load(
        "@id(\"x\") forbid(principal, action, resource);\n@id(\"x\") forbid(principal, action, resource);",
    );
    assert_eq!(errors.expect_err("twice")[0].mend.as_deref(), Some("the other policy is at p.cedar:1"));
}

/// Sums as a policy may contain them, and numbers as a caller would choose them.
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

    /// A rule that loads never overflows, whatever the numbers; and a rule without arithmetic
    /// loads, unless it can never apply.
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
                let is_dead = |e: &PolicyError| e.reason.contains("is never true") || e.reason.contains("never applies");
                prop_assert!(has_sign || errors.iter().all(is_dead), "{}: {:?}", text, errors);
                let says = |e: &PolicyError| e.line == Some(4) && (e.reason.contains("may overflow") || is_dead(e));
                prop_assert!(errors.iter().all(says), "{:?}", errors);
            }
            Ok(bundle) => {
                let session = Session { risk, calls_used: risk, ..session(catalog()) };
                let verdict = bundle.decide(&Question {
                    subject: &subject(Role::Operator), session: &session,
                    manifest: catalog().find("tail_file").expect("tool"),
                    arguments: &json!({ "path": "/x", "lines": lines }), resource: &at("/var/log/syslog", &["@logs"]),
                    approved: Approved::No, now_us: 0, source_ip: None, channel: crate::types::Channel::Http,
            counts: Counts::default(),
            origins: None,
            is_chosen: false,
            is_halted: false,
                });
                let Ruling::Deny { errors, .. } = verdict.answer else { panic!("allowed") };
                prop_assert!(errors.is_empty(), "{}: {:?}", text, errors);
            }
        }
    }
}

/// A person who wrote several faults sees all of them: in every file, after a syntax fault, in a
/// policy without an id, and two on one line (the stranger's stumble 22).
#[test]
fn every_fault_of_every_file_is_reported_at_once() {
    let one = "\
@id(\"no-comma\") permit(principal action, resource);

@id(\"misspelled\")
permit(principal in PAR::Role::\"oprator\", action == PAR::Action::\"fersh\", resource);

forbid(principal, action == PAR::Action::\"health_check\", resource) when { resource.nothing };
";
    let two = "\
@id(\"misspelled\") permit(principal, action, resource);
@id(\"folder\") forbid(principal, action in PAR::Action::\"read\", resource in PAR::Path::\"var/log\");
@id(\"open\") forbid(principal, action, resource) when { \"open };
";
    let sources = [source("one.cedar", one), source("two.cedar", two)];
    let errors = Bundle::load(&sources, catalog(), &names()).expect_err("faults");
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    for (at, reason) in [
        ("one.cedar:1: ", "unexpected token `action`"),
        ("one.cedar:4: ", "oprator"),
        ("one.cedar:4: ", "fersh"),
        ("one.cedar:6: ", "has no `@id"),
        ("one.cedar:6: ", "nothing"),
        ("two.cedar:1: ", "already taken"),
        ("two.cedar:1: ", "names no principal, action or resource"),
        ("two.cedar:2: ", "neither a plain absolute path"),
        ("two.cedar:3: ", ""),
    ] {
        let is_there = told.iter().any(|one| one.starts_with(at) && one.contains(reason));
        assert!(is_there, "{at}{reason}\n{}", told.join("\n"));
    }
    let places: Vec<_> = errors.iter().map(|error| (error.file.clone(), error.line)).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(places.iter().all(|(_, line)| line.is_some()), "{places:?}");
}
