//! Sessions that have read untrusted output, and tools of the class `admin`.

use super::{load, names, session, source, subject, try_load};
use crate::auth::Role;
use crate::policy::{
    Approved, Bundle, Counts, Evaluation, Obligation, Question, RecordedRequest, Resource, Ruling, Session,
    UNTRUSTED,
};
use crate::tools::{Catalog, IdKind, Places};
use crate::types::Channel;
use crate::types::json::{canonical, parse_strict};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Two tools of the class `admin`, and one of another.
fn catalog() -> Catalog {
    let folder = tempfile::tempdir().expect("folder");
    for (name, class) in [("restart", "admin"), ("purge", "admin"), ("rotate", "exec")] {
        let manifest = format!(
            "name = \"{name}\"\nsummary = \"Test.\"\nclass = \"{class}\"\nrisk = \"high\"\n\
             command = [\"/usr/bin/true\"]\nruntime = \"static\"\noutput = \"text\"\nuntrusted_output = true\n\
             [resource]\ntype = \"Service\"\nfrom = \"/service\"\ncanonical = \"id\"\n[sandbox]\n[limits]\n\
             wall_ms_max = 1000\noutput_bytes_max = 65536\nmemory_bytes_max = 134217728\nprocesses_max = 4\n\
             [input]\ntype = \"object\"\nadditionalProperties = false\nrequired = [\"service\"]\n\
             [input.properties.service]\ntype = \"string\"\nmaxLength = 64\n"
        );
        std::fs::write(folder.path().join(format!("{name}.toml")), manifest).expect("written");
    }
    let names = BTreeMap::from([("logs".to_owned(), "/var/log".into())]);
    Catalog::load(folder.path(), &Places { names, private: Vec::new() }).expect("tools")
}

const RULES: &str = "@id(\"nginx\") @tainted(\"confirm\")
    permit(principal in PAR::Role::\"operator\", action == PAR::Action::\"restart\", resource == PAR::Service::\"nginx\")
    when { context.call.calls_hour < 3 };
    @id(\"all\") permit(principal in PAR::Role::\"operator\", action in PAR::Action::\"call_tool\", resource);";

fn rules(catalog: &Catalog, text: &str) -> Bundle {
    Bundle::load(&[source("policies/p.cedar", text)], catalog, &names()).expect("bundle")
}

/// The answer to an operator who asks for `tool` on `service`.
fn ask(
    bundle: &Bundle,
    catalog: &Catalog,
    is_tainted: bool,
    tool: &str,
    service: &str,
    approved: Approved<'_>,
) -> Evaluation {
    bundle.decide(&Question {
        subject: &subject(Role::Operator),
        session: &asking(catalog, is_tainted),
        manifest: catalog.find(tool).expect("tool"),
        arguments: &json!({ "service": service }),
        resource: &Resource::Id { kind: IdKind::Service, id: service.to_owned() },
        approved,
        now_us: 1_700_000_000_000_000,
        source_ip: None,
        channel: Channel::Http,
        counts: Counts::default(),
        origins: None,
        is_chosen: false,
        is_halted: false,
    })
}

fn asking(catalog: &Catalog, is_tainted: bool) -> Session {
    let taint = if is_tainted { BTreeSet::from([UNTRUSTED.to_owned()]) } else { BTreeSet::new() };
    Session { taint, ..session(catalog) }
}

/// A7: a person's confirmation of the exact call lifts the taint where a permit of that call says
/// so, and nowhere else.
#[test]
fn a_confirmation_lifts_the_taint_where_the_permit_says_so() {
    let catalog = catalog();
    let bundle = rules(&catalog, RULES);
    let kept = Bundle::rebuild(bundle.archive().as_bytes(), bundle.digest()).expect("rebuilt");
    let check = |is_tainted, tool: &str, service: &str, approved, word: &str, policies: &[&str]| {
        let told = ask(&bundle, &catalog, is_tainted, tool, service, approved);
        assert_eq!(
            (told.answer.word(), told.answer.policies()),
            (word, &policies.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()[..]),
            "{tool} {service} {approved:?}"
        );
        // The record leads to the same answer.
        let written = canonical(&told.request).expect("canonical");
        let recorded =
            RecordedRequest::read(&parse_strict(written.as_bytes(), 64).expect("JSON")).expect("request");
        assert_eq!(kept.decide_again(&recorded).answer, told.answer);
    };
    let confirmed = Approved::Confirmed { by: Some("ann") };
    check(false, "restart", "nginx", Approved::No, "allow", &["all", "nginx"]);
    check(true, "restart", "nginx", Approved::No, "needs_approval", &["par.tainted-confirm"]);
    check(true, "restart", "nginx", confirmed, "allow", &["all", "nginx"]);
    check(true, "restart", "nginx", Approved::Approved { by: None }, "allow", &["all", "nginx"]);
    // Another permit covers this call, which no confirmation lifts.
    check(true, "restart", "sshd", Approved::No, "deny", &["par.tainted.restart"]);
    check(true, "restart", "sshd", confirmed, "deny", &["par.tainted.restart"]);
    check(false, "restart", "sshd", Approved::No, "allow", &["all"]);
    check(true, "purge", "nginx", Approved::No, "deny", &["par.tainted"]);
    check(true, "purge", "nginx", confirmed, "deny", &["par.tainted"]);
    check(true, "rotate", "nginx", Approved::No, "allow", &["all"]);
    let asked = ask(&bundle, &catalog, true, "restart", "nginx", Approved::No).answer;
    assert!(matches!(asked, Ruling::NeedsApproval { gates, .. } if gates == [Obligation::Confirm]));
}

/// Issue 15, finding A6: a call that no permit covers named `par.tainted.restart`, which no
/// confirmation could have lifted for it.
#[test]
fn a_call_without_a_permit_is_denied_for_that_in_a_tainted_run_too() {
    let catalog = catalog();
    let only = RULES.split("@id(\"all\")").next().expect("the first rule");
    let other = format!(
        "{only}@id(\"sshd\") permit(principal in PAR::Role::\"operator\", \
         action == PAR::Action::\"restart\", resource == PAR::Service::\"sshd\");"
    );
    for (rules_text, service, expect) in [
        (only, "nginx", None),
        (only, "sshd", Some(&[][..])),
        (&other, "sshd", Some(&["par.tainted.restart".to_owned()][..])),
        (&other, "cron", Some(&[][..])),
    ] {
        let bundle = rules(&catalog, rules_text);
        for approved in [Approved::No, Approved::Confirmed { by: None }] {
            let answer = ask(&bundle, &catalog, true, "restart", service, approved).answer;
            match expect {
                Some(policies) => assert_eq!((answer.word(), answer.policies()), ("deny", policies)),
                None => assert_ne!(answer.word(), "deny"),
            }
        }
        let untainted = ask(&bundle, &catalog, false, "restart", "cron", Approved::No).answer;
        let tainted = ask(&bundle, &catalog, true, "restart", "cron", Approved::No).answer;
        assert_eq!(untainted, tainted);
    }
}

/// A tool that can be confirmed stays in the offer; the others leave it.
#[test]
fn a_tainted_run_is_offered_what_a_person_can_confirm() {
    let catalog = catalog();
    let offered = |text: &str, is_tainted| {
        let bundle = rules(&catalog, text);
        let session = asking(&catalog, is_tainted);
        let offered = bundle.offered(&subject(Role::Operator), &session, catalog.manifests());
        offered.iter().map(|manifest| manifest.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(offered(RULES, false), ["purge", "restart", "rotate"]);
    assert_eq!(offered(RULES, true), ["restart", "rotate"]);
    assert_eq!(offered(&RULES.replace("@tainted(\"confirm\")", ""), true), ["rotate"]);
    // A rule in shadow mode only reports.
    assert_eq!(offered(&RULES.replace("@tainted", "@mode(\"shadow\") @tainted"), true), ["rotate"]);
    let every = "@id(\"all\") @tainted(\"confirm\") permit(principal, action in PAR::Action::\"call_tool\", resource);";
    assert_eq!(offered(every, true), ["purge", "restart", "rotate"]);
}

/// Without the annotation nothing differs from the first format.
#[test]
fn without_the_annotation_the_taint_cannot_be_lifted() {
    let catalog = catalog();
    let bundle = rules(&catalog, &RULES.replace("@tainted(\"confirm\")", ""));
    for approved in [Approved::No, Approved::Confirmed { by: None }, Approved::Approved { by: None }] {
        let answer = ask(&bundle, &catalog, true, "restart", "nginx", approved).answer;
        assert_eq!((answer.word(), answer.policies()), ("deny", &["par.tainted".to_owned()][..]));
    }
}

/// Annotations that PAR does not know, or that would have no effect, are refused with their line.
#[test]
fn an_annotation_without_effect_is_refused() {
    let check = |text: &str, reason: &str, mend: &str| {
        let errors = try_load(text).expect_err(text);
        let told = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(told.contains(reason) && told.contains(mend), "{text}: {told}");
    };
    let permit = "permit(principal in PAR::Role::\"operator\", action in PAR::Action::\"read\", resource);";
    let forbid = "forbid(principal, action in PAR::Action::\"read\", resource) unless { context.call.approved == \"confirmed\" };";
    let on = |annotation: &str, rule: &str| format!("@id(\"a\")\n{annotation}\n{rule}");
    check(
        &on("@expire(\"8h\")", forbid),
        "p.cedar:2: unknown annotation `@expire`",
        "did you mean `@expires`?",
    );
    check(
        &on("@requires_confirm(\"\")", forbid),
        "unknown annotation `@requires_confirm`",
        "did you mean `@require_confirm`?",
    );
    check(
        &on("@author(\"ann\")", permit),
        "unknown annotation `@author`",
        "the annotations are @id, @advice",
    );
    check(
        &on("@tainted(\"yes\")", permit),
        "unknown value `@tainted(\"yes\")`",
        "its only value is `confirm`",
    );
    check(&on("@tainted(\"confirm\")", forbid), "`@tainted` has no effect on a `forbid`", "on the `permit`");
    check(
        &on("@tainted(\"confirm\")", permit),
        "permits no tool of the class `admin`",
        "only those are denied",
    );
    check(&on("@expires(\"8h\")", permit), "`@expires` has no effect", "@require_approval");
    check(&on("@expires(\"8h\")", forbid), "`@expires` has no effect", "@require_confirm");
    for span in ["8d", "0s", "8", "soon", "169h"] {
        let annotation = format!("@require_confirm(\"\") @expires(\"{span}\")");
        check(&on(&annotation, forbid), "is not a span of at most seven days", "`90s`, `30m`, `8h` or `7d`");
    }
    let bundle = load(&on("@require_confirm(\"\") @expires(\"7d\")", forbid));
    assert_eq!((bundle.expires_s("a"), bundle.expires_s("b")), (Some(604_800), None));
    check(
        &on("", &permit.replace(");", ") when { context.channel == \"web\" };")),
        "`channel` is never `web`",
        "http, page, cli",
    );
    check(
        &on("", &permit.replace(");", ") when { [\"http\", \"web\"].contains(context.channel) };")),
        "`channel` is never `web`",
        "http, page, cli",
    );
}
