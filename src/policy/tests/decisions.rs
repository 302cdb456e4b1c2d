//! Known ways in which a policy engine allows by mistake, each of which must be closed.

use super::{
    ERRS, PERMIT_ALL, answer, arguments, ask, at, catalog, host, load, os_subject, session, subject,
};
use crate::auth::{Role, Subject};
use crate::policy::{
    Approved, Considered, Counts, Obligation, Question, RecordedRequest, Resource, Ruling, Session, nearest,
};
use serde_json::json;
use std::collections::BTreeSet;

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
    assert_eq!(with(0, 0), Ruling::Allow { policies: vec!["all".to_owned()] });
    assert_eq!(with(32, 0).policies(), ["used"]);
    let Ruling::Deny { policies, errors, reason, .. } = with(0, 1) else { panic!("an overflow allowed") };
    assert!(policies.is_empty() && errors.len() == 1 && errors[0].contains("overflow"), "{errors:?}");
    assert_eq!(reason, "the policy could not be evaluated");
    // A permit that errors is a deny too, even if another permit matches.
    let bundle = load(&format!(
        "{PERMIT_ALL}@id(\"odd\") permit(principal, action == PAR::Action::\"health_check\", resource)
         when {{ {ERRS} }};"
    ));
    let odd = ask(&bundle, &subject(Role::Operator), &session(catalog()), "health_check", &host()).answer;
    assert!(matches!(odd, Ruling::Deny { errors, .. } if errors.len() == 1));
}

#[test]
fn forbids_on_classes_roles_and_users_match() {
    let forbidden = |forbid: &str, who: &Subject| {
        let bundle = load(&format!("{PERMIT_ALL}@id(\"no\") forbid({forbid});"));
        let verdict = ask(&bundle, who, &session(catalog()), "read_file", &at("/var/log/syslog", &["@logs"]));
        match verdict.answer {
            Ruling::Deny { policies, .. } => policies == ["no"],
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
fn no_file_can_widen_the_ceiling_or_the_roots() {
    let bundle = load(PERMIT_ALL);
    let operator = subject(Role::Operator);
    let narrow = Session { ceiling: BTreeSet::from(["list_dir".to_owned()]), ..session(catalog()) };
    let inside = at("/var/log/syslog", &["@logs"]);
    let verdict = ask(&bundle, &operator, &narrow, "read_file", &inside);
    assert_eq!(verdict.answer.policies(), ["par.ceiling.read_file"]);
    assert!(matches!(ask(&bundle, &operator, &narrow, "list_dir", &inside).answer, Ruling::Allow { .. }));
    let outside = Resource::Outside { lexical: "/var/log/syslog".to_owned() };
    let Ruling::Deny { policies, reason, .. } = answer(&bundle, "read_file", &outside) else {
        panic!("allowed")
    };
    assert_eq!((policies, reason.as_str()), (vec!["par.outside".to_owned()], "not permitted or not found"));
    // The default deny, and its reason.
    let Ruling::Deny { policies, reason, .. } = answer(&load(""), "read_file", &inside) else {
        panic!("allowed")
    };
    assert_eq!((policies.len(), reason.as_str()), (0, "no policy permits it"));
}

#[test]
fn a_person_is_asked_only_if_approval_would_help() {
    const APPROVE: &str = "@id(\"two\") @require_approval(\"admins\")
        forbid(principal, action in PAR::Action::\"read\", resource) unless { context.call.approved == \"approved\" };\n";
    const CONFIRM: &str = "@id(\"sure\") @require_confirm
        forbid(principal, action in PAR::Action::\"read\", resource) when { context.call.approved == \"no\" };\n";
    const NEVER: &str = "@id(\"never\") forbid(principal, action in PAR::Action::\"read\", resource);\n";
    const ANYHOW: &str =
        "@id(\"anyhow\") @require_confirm forbid(principal, action in PAR::Action::\"read\", resource)
        unless { context.call.approved == \"confirmed\" && context.call.calls_hour > 1000 };\n";
    let overflows = format!(
        "@id(\"over\") forbid(principal, action in PAR::Action::\"read\", resource)
         when {{ context.call.approved != \"no\" && {ERRS} }};\n"
    );
    let inside = at("/var/log/syslog", &["@logs"]);
    let check = |texts: &[&str], expect: &str, gates: &[Obligation]| {
        let bundle = load(&texts.concat());
        let session = session(catalog());
        let answer = ask(&bundle, &subject(Role::Operator), &session, "read_file", &inside).answer;
        assert_eq!(answer.word(), expect, "{texts:?}: {answer:?}");
        if let Ruling::NeedsApproval { gates: asked, .. } = answer {
            assert_eq!(asked, gates, "{texts:?}");
        }
    };
    let admins = || Obligation::Approval { group: "admins".to_owned() };
    check(&[PERMIT_ALL, APPROVE], "needs_approval", &[admins()]);
    check(&[PERMIT_ALL, CONFIRM], "needs_approval", &[Obligation::Confirm]);
    check(&[PERMIT_ALL, APPROVE, CONFIRM], "needs_approval", &[Obligation::Confirm, admins()]);
    check(&[APPROVE], "deny", &[]);
    check(&[PERMIT_ALL, APPROVE, NEVER], "deny", &[]);
    check(&[PERMIT_ALL, ANYHOW], "deny", &[]);
    check(&[PERMIT_ALL, CONFIRM, &overflows], "deny", &[]);
    check(&[PERMIT_ALL], "allow", &[]);
}

/// A recorded request that does not match another bundle's schema is a deny there, and marked as
/// such.
#[test]
fn a_request_that_does_not_match_is_a_deny() {
    let bundle = load(PERMIT_ALL);
    let verdict = ask(&bundle, &subject(Role::Operator), &session(catalog()), "health_check", &host());
    let recorded = RecordedRequest::read(&verdict.request).expect("read");
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
        let again = bundle.decide_other(&RecordedRequest::read(&request).expect("read"));
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
        RecordedRequest::read(&request).expect_err(place);
    }
}

/// What did not hold is reported as the rule writes it, each part with its line.
#[test]
fn what_does_not_hold_is_reported_as_the_rule_writes_it() {
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
            channel: crate::types::Channel::Http,
            counts: Counts::default(),
            origins: None,
            is_chosen: false,
            is_halted: false,
        };
        bundle.explain(&question)
    };
    let told = |considered: &[Considered], id: &str| -> Vec<String> {
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
    // The permit with the fewest failing parts, not the first policy.
    assert_eq!(nearest(&considered).map(|one| one.policy.as_str()), Some("far"));
    let elsewhere = question(&at("/elsewhere", &[]));
    assert_eq!(told(&elsewhere, "near")[0], "7 resource is not a PAR::Path in PAR::Path::\"/var\"");
}
