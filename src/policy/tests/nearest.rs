//! Denials of calls that no policy permits.

use super::{answer, at, catalog, host, load, session, subject};
use crate::auth::Role;
use crate::policy::{Approved, Bundle, Counts, Question, Resource, Ruling};
use crate::tools::IdKind;
use crate::types::Channel;
use serde_json::json;

const DEPLOY: &str = "@id(\"deploy-demo\")
    permit(principal in PAR::Role::\"operator\", action == PAR::Action::\"deploy\", resource == PAR::Project::\"demo\");
    @id(\"needs-release\") @require_approval(\"release\") @advice(\"ask release\")
    forbid(principal, action == PAR::Action::\"deploy\", resource) unless { context.call.approved == \"approved\" };
    @id(\"rests\") forbid(principal, action == PAR::Action::\"deploy\", resource)
    when { context.call.failed_ago_s < 600 };
    @id(\"health\") permit(principal in PAR::Role::\"viewer\", action == PAR::Action::\"health_check\", resource);
    @id(\"few\") permit(principal in PAR::Role::\"operator\", action == PAR::Action::\"list_dir\", resource)
    when { context.call.calls_hour < 3 && principal.risk == 0 };";

fn with<T>(tool: &str, resource: &Resource, counts: Counts, work: impl FnOnce(&Question<'_>) -> T) -> T {
    let arguments = match resource {
        Resource::Id { id, .. } => json!({ "project": id, "version": "1.0.0" }),
        _ if tool == "health_check" => json!({}),
        _ => json!({ "path": "/var/log" }),
    };
    work(&Question {
        subject: &subject(Role::Operator),
        session: &session(catalog()),
        manifest: catalog().find(tool).expect("tool"),
        arguments: &arguments,
        resource,
        approved: Approved::No,
        now_us: 1_700_000_000_000_000,
        source_ip: None,
        channel: Channel::Http,
        counts,
        origins: None,
        is_chosen: false,
        is_halted: false,
    })
}

fn project(id: &str) -> Resource {
    Resource::Id { kind: IdKind::Project, id: id.to_owned() }
}

/// A6: an approval would not help a call that no policy permits, so the reason does not name it.
#[test]
fn a_denial_never_names_an_approval_that_would_not_help() {
    let bundle = load(DEPLOY);
    let deny = |id: &str, counts: Counts| {
        let answer = with("deploy", &project(id), counts, |question| bundle.decide(question).answer);
        let Ruling::Deny { policies, reason, advice, errors } = answer else { panic!("{answer:?}") };
        assert!(errors.is_empty() && advice.is_empty(), "{errors:?} {advice:?}");
        (policies, reason)
    };
    assert_eq!(deny("shop", Counts::default()), (vec![], "no policy permits it".to_owned()));
    // Nor a call that another rule forbids.
    let failed = Counts { failed_ago_s: Some(5), ..Counts::default() };
    assert_eq!(deny("demo", failed), (vec!["rests".to_owned()], "forbidden by rests".to_owned()));
    let asked =
        with("deploy", &project("demo"), Counts::default(), |question| bundle.decide(question).answer);
    assert_eq!((asked.word(), asked.policies()), ("needs_approval", &["needs-release".to_owned()][..]));
}

/// A6: what a person reads instead is the permit that was nearest.
#[test]
fn the_nearest_permit_says_what_it_is_for() {
    let bundle = load(DEPLOY);
    let nearest = |bundle: &Bundle, tool: &str, resource: &Resource, counts: Counts| {
        let found = with(tool, resource, counts, |question| bundle.nearest(question));
        found.map(|one| format!("{} {}: {}", one.policy, one.origin.unwrap_or_default(), one.why))
    };
    let none = Counts::default();
    assert_eq!(
        nearest(&bundle, "deploy", &project("shop"), none).as_deref(),
        Some("deploy-demo p.cedar:1: is for `demo`")
    );
    assert_eq!(
        nearest(&bundle, "health_check", &host(), none).as_deref(),
        Some("health p.cedar:7: is for the role `viewer`")
    );
    let often = Counts { calls_hour: 5, ..none };
    assert_eq!(
        nearest(&bundle, "list_dir", &at("/var/log", &["@logs"]), often).as_deref(),
        Some("few p.cedar:8: does not apply: `context.call.calls_hour < 3` does not hold")
    );
    assert_eq!(nearest(&bundle, "read_file", &at("/var/log/a", &["@logs"]), none), None);
    assert!(matches!(answer(&bundle, "read_file", &at("/var/log/a", &[])), Ruling::Deny { .. }));
}
