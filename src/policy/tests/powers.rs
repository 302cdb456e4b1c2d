//! Powers of the API: the shipped table, what no policy lifts, and what remains without policies.

use super::{Subject, catalog, load, names, os_subject, shipped, source, subject, top, try_load};
use crate::auth::Role;
use crate::policy::request::power_use;
use crate::policy::{
    Bundle, Door, Evaluation, Groups, HeldOver, Over, Power, Ran, RecordedRequest, Ruling, Use, Via,
};
use serde_json::json;
use std::net::IpAddr;

const HTTP: Door = Door { via: Via::Http, source_ip: None };

fn asked<'a>(who: &'a Subject, power: Power, owner: &'a str, door: Door) -> Use<'a> {
    let over = if power.over() == HeldOver::Server { Over::Server } else { Over::Owned { id: "one", owner } };
    let (now_us, ran) = (1_700_000_000_000_000, Ran::default());
    Use { subject: who, power, over, door, expires_us: None, now_us, ran }
}

fn ask(bundle: &Bundle, who: &Subject, power: Power, owner: &str, door: Door) -> Ruling {
    bundle.decide_use(&asked(who, power, owner, door)).answer
}

fn allows(bundle: &Bundle, who: &Subject, power: Power, owner: &str, door: Door) -> bool {
    matches!(ask(bundle, who, power, owner, door), Ruling::Allow { .. })
}

fn api() -> Bundle {
    let name = "policies/00-api.cedar";
    let text = std::fs::read_to_string(top().join(name)).expect("shipped policy");
    let mut sources = shipped();
    sources.push(source(name, &text));
    Bundle::load(&sources, catalog(), &names()).expect("shipped policies")
}

/// `yes`: on everyone's objects. `own`: only on those that the same caller asked for.
fn table(bundle: &Bundle, who: fn(Role) -> Subject, door: Door) -> String {
    let row = |first: &str, cells: [&str; 4]| {
        let [a, b, c, d] = cells;
        format!("{first:<14} {a:<6} {b:<8} {c:<8} {d}\n")
    };
    let mut table = row("power", Role::ALL.map(Role::as_str));
    for power in Power::ALL {
        let cells = Role::ALL.map(|role| {
            let who = who(role);
            let (own, other) = (
                allows(bundle, &who, power, &who.id(), door),
                allows(bundle, &who, power, "key:other", door),
            );
            match (own, other) {
                (true, true) => "yes",
                (true, false) => "own",
                (false, true) => "other",
                (false, false) => "-",
            }
        });
        table.push_str(&row(power.as_str(), cells));
    }
    table
}

/// The whole table of the shipped policies, for review in a diff.
#[test]
fn the_table_of_roles_and_powers() {
    let golden = "\
power          viewer operator approver admin
run            -      yes      -        yes
run_read       yes    own      -        yes
audit_read     yes    -        -        yes
approval_read  -      -        yes      yes
approve        -      -        yes      yes
key_manage     -      -        -        yes
tools_read     yes    yes      -        yes
health_read    yes    yes      -        yes
reload         -      -        -        yes
redact         -      -        -        yes
export         yes    -        -        yes
run_cancel     -      own      -        yes
halt           -      -        yes      yes
";
    for via in Via::ALL {
        assert_eq!(table(&api(), subject, Door { via, source_ip: None }), golden);
        assert_eq!(table(&api(), os_subject, Door { via, source_ip: None }), golden);
    }
}

/// Nothing runs and nothing is approved; an administrator can read, and repair from the host
/// itself.
#[test]
fn without_policies_an_administrator_reads_and_repairs() {
    let by_key = "\
power          viewer operator approver admin
run            -      -        -        -
run_read       -      -        -        yes
audit_read     -      -        -        yes
approval_read  -      -        -        yes
approve        -      -        -        -
key_manage     -      -        -        -
tools_read     -      -        -        yes
health_read    -      -        -        yes
reload         -      -        -        -
redact         -      -        -        -
export         -      -        -        -
run_cancel     -      -        -        -
halt           -      -        -        -
";
    let by_socket = by_key.replace(
        "key_manage     -      -        -        -\n",
        "key_manage     -      -        -        yes\n",
    );
    let by_socket = by_socket.replace(
        "reload         -      -        -        -\n",
        "reload         -      -        -        yes\n",
    );
    let by_socket = by_socket.replace(
        "halt           -      -        -        -\n",
        "halt           -      -        -        yes\n",
    );
    let closed = Bundle::closed(catalog(), vec!["policies/x.cedar:1: a fault".to_owned()]).expect("closed");
    assert_eq!(closed.broken().len(), 1);
    // A file with rules on tools only, a rule in shadow mode and a `forbid` grant no power: the
    // built-in policies stay.
    let shadow = load(
        "@id(\"s\") @mode(\"shadow\") permit(principal in PAR::Role::\"viewer\", action == PAR::Action::\"run\", resource);",
    );
    let of_tools = Bundle::load(&shipped(), catalog(), &names()).expect("policies");
    for bundle in [&closed, &shadow, &of_tools] {
        assert_eq!(table(bundle, subject, HTTP), by_key);
        assert_eq!(table(bundle, os_subject, Door::SOCKET), by_socket);
    }
    // One permit of a power removes the built-in policies: they add nothing to an operator's own
    // rules.
    let own = load(
        "@id(\"h\") permit(principal in PAR::Role::\"viewer\", action == PAR::Action::\"health_read\", resource);",
    );
    assert!(!allows(&own, &subject(Role::Admin), Power::AuditRead, "", HTTP));
    assert!(allows(&own, &subject(Role::Admin), Power::HealthRead, "", HTTP), "an admin is a viewer too");
}

/// A rule lets a key run from one network only. From another network it cannot run now, but that
/// does not make it an approver.
#[test]
fn a_key_that_runs_elsewhere_may_run() {
    let run = "permit(principal in PAR::Role::\"approver\", action == PAR::Action::\"run\", resource)";
    let may = |more: &str| {
        load(&format!("@id(\"r\") {run}\n{more}")).may_ever(&subject(Role::Approver), Power::Run)
    };
    let near = "when { context has source_ip && context.source_ip.isInRange(ip(\"10.0.0.0/8\")) };";
    let bundle = load(&format!("@id(\"r\") {run} {near}"));
    let far = Door { via: Via::Http, source_ip: Some(IpAddr::from([192, 168, 0, 1])) };
    let here = Door { via: Via::Http, source_ip: Some(IpAddr::from([10, 1, 2, 3])) };
    assert!(!allows(&bundle, &subject(Role::Approver), Power::Run, "", far));
    assert!(allows(&bundle, &subject(Role::Approver), Power::Run, "", here));
    assert!(bundle.may_ever(&subject(Role::Approver), Power::Run), "it may run from where the rule says");
    assert!(!bundle.may_ever(&subject(Role::Viewer), Power::Run));
    assert!(may("when { context.via == \"page\" };"), "another door is not another person");
    assert!(may("when { context.now > datetime(\"2100-01-01\") };"));
    assert!(may("when { context has expires };"));
    let forbid = "; @id(\"f\") forbid(principal, action == PAR::Action::\"run\", resource)";
    assert!(may(&format!("{forbid} when {{ context.via == \"http\" }};")), "a forbid that may not be met");
    assert!(!may(&format!("{forbid};")), "and one that always is");
    assert!(!may(&format!("{forbid} when {{ principal in PAR::Role::\"approver\" }};")));
    assert!(!may("when { principal in PAR::User::\"ben\" };"), "a condition on who it is counts");
    assert!(may("when { principal in PAR::User::\"ann\" };"));
}

/// Each is a rule that a reader would misunderstand.
#[test]
fn what_could_mislead_about_powers_is_refused() {
    let check = |text: &str, reason: &str| {
        let errors = try_load(&format!("@id(\"x\")\n{text}")).expect_err(text);
        let [error] = errors.as_slice() else { panic!("{text}\n{errors:?}") };
        assert!(error.line.is_some() && error.mend.is_some(), "{text}\n{error}");
        assert!(error.reason.contains(reason), "{text}\n{error}");
    };
    let both = "permits both tools and powers of the API";
    check("permit(principal in PAR::Role::\"viewer\", action, resource);", both);
    check("permit(principal is PAR::Caller in PAR::Role::\"viewer\", action, resource);", both);
    check("permit(principal, action, resource is PAR::Run);", both);
    load("@id(\"x\") permit(principal in PAR::Role::\"viewer\", action, resource is PAR::Path);");
    load("@id(\"x\") permit(principal, action in PAR::Action::\"api\", resource);");
    load("@id(\"x\") forbid(principal in PAR::Role::\"viewer\", action, resource);");

    let read = "(principal, action == PAR::Action::\"run_read\", resource)";
    check(&format!("@require_approval(\"a\") forbid{read};"), "has no effect");
    check(&format!("@require_confirm forbid{read};"), "has no effect");
    check(&format!("forbid{read} when {{ resource == PAR::Run::\"run_1\" }};"), "names a single `Run`");
    check(
        "forbid(principal, action == PAR::Action::\"approve\", resource == PAR::Approval::\"apr_1\");",
        "names a single `Approval`",
    );
    check(
        &format!("forbid{read} when {{ resource.owner == PAR::Caller::\"ann\" }};"),
        "unknown Caller `ann`",
    );
    check("forbid(principal == PAR::Caller::\"Ab3dEf9h\", action, resource);", "unknown Caller `Ab3dEf9h`");
    check(
        "forbid(principal, action == PAR::Action::\"run\", resource == PAR::Server::\"prod\");",
        "unknown Server `prod`",
    );
    let in_group = "which groups an owner is in";
    check(&format!("forbid{read} when {{ resource.owner in PAR::Role::\"admin\" }};"), in_group);
    check(&format!("forbid{read} when {{ {{\"a\": resource.owner}}.a in PAR::User::\"ann\" }};"), in_group);
    check(&format!("forbid{read} when {{ context.via == \"pages\" }};"), "unknown door `pages`");
    check(&format!("forbid{read} when {{ \"tcp\" != context.via }};"), "unknown door `tcp`");
    check(&format!("permit{read} when {{ context.source_ip.isLoopback() }};"), "source_ip");
    check("forbid(principal, action == PAR::Action::\"shred\", resource);", "unrecognized action");
    load(&format!("@id(\"x\") forbid{read} when {{ resource.owner == PAR::Caller::\"os:root\" }};"));
}

#[test]
fn a_tool_cannot_take_the_name_of_an_action() {
    use crate::tools::{Manifest, Places};
    let text = std::fs::read_to_string(top().join("tools.d/health_check.toml")).expect("manifest");
    let parse = |name: &str| {
        let text = text.replace("name = \"health_check\"", &format!("name = \"{name}\""));
        Manifest::parse(std::path::Path::new("x.toml"), text.as_bytes(), &Places::default())
    };
    parse("health").expect("a name of its own");
    let others = ["call_tool", "api", "read", "admin"];
    for name in Power::ALL.map(Power::as_str).into_iter().chain(others) {
        let error = parse(name).expect_err(name).to_string();
        let line = 1 + text.lines().position(|line| line.starts_with("name")).expect("line");
        assert!(error.starts_with(&format!("x.toml:{line}: `{name}` is the name of a")), "{error}");
    }
}

/// Rules on the caller's user, group, key and class of powers, and on the context.
#[test]
fn rules_on_powers_see_caller_address_and_expiry() {
    let all = "@id(\"all\") permit(principal, action in PAR::Action::\"api\", resource);\n";
    let (ann, door) =
        (subject(Role::Viewer), Door { via: Via::Page, source_ip: Some(IpAddr::from([10, 0, 0, 9])) });
    let groups = Groups::new([("ops".to_owned(), vec!["ann".to_owned()])]);
    let denied = |forbid: &str, expires_us: Option<u64>| {
        let bundle = load(&format!("{all}@id(\"no\") forbid({forbid};")).with_groups(groups.clone());
        let of = asked(&ann, Power::RunRead, "key:Ab3dEf9h", door);
        match bundle.decide_use(&Use { expires_us, ..of }).answer {
            Ruling::Deny { policies, errors, .. } => policies == ["no"] && errors.is_empty(),
            _ => false,
        }
    };
    for scope in [
        "principal in PAR::Role::\"viewer\"",
        "principal in PAR::User::\"ann\"",
        "principal in PAR::Group::\"ops\"",
        "principal in PAR::ApiKey::\"Ab3dEf9h\"",
        "principal == PAR::Caller::\"key:Ab3dEf9h\"",
        "principal is PAR::Caller",
    ] {
        for action in ["action", "action in PAR::Action::\"api\"", "action == PAR::Action::\"run_read\""] {
            assert!(denied(&format!("{scope}, {action}, resource)"), None), "{scope} {action}");
        }
        if scope.contains(" in ") {
            assert!(
                !denied(&format!("{scope}, action in PAR::Action::\"call_tool\", resource)"), None),
                "{scope}"
            );
        }
    }
    let read = "principal, action == PAR::Action::\"run_read\", resource) when";
    for (condition, expires_us, is_met) in [
        ("resource.owner == principal", None, true),
        ("resource.owner != principal", None, false),
        ("context.via == \"page\"", None, true),
        ("context.via == \"http\"", None, false),
        ("context has source_ip && context.source_ip.isInRange(ip(\"10.0.0.0/8\"))", None, true),
        ("context has source_ip && context.source_ip.isInRange(ip(\"11.0.0.0/8\"))", None, false),
        ("context has expires", None, false),
        (
            "context has expires && context.expires < datetime(\"2031-01-01\")",
            Some(1_893_456_000_000_000),
            true,
        ),
        ("context.now > datetime(\"2023-01-01\")", None, true),
    ] {
        assert_eq!(denied(&format!("{read} {{ {condition} }}"), expires_us), is_met, "{condition}");
    }
}

/// An error in a policy is a deny, and so is a power on the wrong type of object; and the decision
/// can be repeated from its record.
#[test]
fn a_use_fails_closed_and_can_be_repeated() {
    let far = "context.now.offset(duration(\"9223372036854775807ms\")) > context.now";
    let bundle = load(&format!(
        "@id(\"all\") permit(principal, action in PAR::Action::\"api\", resource);\n\
         @id(\"odd\") forbid(principal, action == PAR::Action::\"reload\", resource) when {{ {far} }};"
    ));
    let who = subject(Role::Admin);
    let Ruling::Deny { errors, policies, .. } = ask(&bundle, &who, Power::Reload, "", HTTP) else {
        panic!("an error allowed")
    };
    assert!(policies.is_empty() && errors.len() == 1, "{errors:?}");
    for (power, over) in [
        (Power::Run, Over::Owned { id: "x", owner: "key:x" }),
        (Power::RunRead, Over::Server),
        (Power::Approve, Over::Server),
    ] {
        let answer = bundle.decide_use(&Use { over, ..asked(&who, power, "", HTTP) }).answer;
        assert!(matches!(answer, Ruling::Deny { errors, .. } if errors.len() == 1), "{power:?}");
    }
    let door = Door { via: Via::Page, source_ip: Some(IpAddr::from([10, 0, 0, 9])) };
    for (power, owner) in [(Power::RunRead, who.id()), (Power::Approve, "os:root".to_owned())] {
        let of = Use { expires_us: Some(1), ..asked(&who, power, &owner, door) };
        let Evaluation { answer, request, .. } = api().decide_use(&of);
        assert_eq!(request["context"]["via"], json!("page"));
        assert_eq!(request["context"]["source_ip"], json!({ "__extn": { "fn": "ip", "arg": "10.0.0.9" } }));
        let recorded = RecordedRequest::read(&request).expect("recorded");
        assert_eq!(api().decide_again(&recorded).answer, answer);
        let other = api().decide_other(&recorded);
        assert!(other.fits && other.answer == answer, "as Cedar's own checks have it: {other:?}");
    }
}

/// Only those of many rules that apply are evaluated, and the answer is that of all of them.
#[test]
fn a_slice_answers_a_use_as_all_policies_do() {
    let mut text = std::fs::read_to_string(top().join("policies/00-api.cedar")).expect("shipped policy");
    for at in 0..200 {
        let power = Power::ALL[at % Power::ALL.len()].as_str();
        let (user, effect) = (if at % 7 == 0 { "ann" } else { "ben" }, ["permit", "forbid"][at % 2]);
        text.push_str(&format!(
            "@id(\"u{at}\") {effect}(principal in PAR::User::\"{user}{at}\", action == PAR::Action::\"{power}\", resource);\n\
             @id(\"a{at}\") {effect}(principal in PAR::User::\"{user}\", action == PAR::Action::\"{power}\", resource)\n\
             when {{ context.via == \"page\" }};\n"
        ));
    }
    let bundle = load(&text);
    for (who, via) in Role::ALL.iter().flat_map(|role| Via::ALL.map(|via| (subject(*role), via))) {
        for (power, owner) in
            Power::ALL.iter().flat_map(|power| [(*power, who.id()), (*power, "os:x".to_owned())])
        {
            let of = asked(&who, power, &owner, Door { via, source_ip: None });
            let built = power_use::build(&of, &Groups::default());
            let (sliced, all) =
                (bundle.ask(&built).expect("sliced"), bundle.ask_slowly(&built).expect("all"));
            assert_eq!(sliced.decision(), all.decision(), "{power:?}");
            let told = |response: &cedar_policy::Response| {
                crate::policy::decide::decision::sorted(response.diagnostics().reason())
            };
            assert_eq!(told(&sliced), told(&all), "{power:?}");
        }
    }
}

/// To Cedar a missing entity is in nothing and has no owner: an incomplete request is refused.
#[test]
fn a_use_that_has_lost_something_is_refused() {
    use crate::policy::request::cedar::Built;
    let (bundle, ann) = (api(), subject(Role::Admin));
    let groups = Groups::new([("ops".to_owned(), vec!["ann".to_owned()])]);
    let of = asked(&ann, Power::Approve, "os:root", HTTP);
    let check = |what: &str, lose: &dyn Fn(&mut Built), is_whole: bool| {
        let mut built = power_use::build(&of, &groups);
        lose(&mut built);
        let (answer, _) = bundle.answers_whole(&built, &groups);
        assert_eq!(matches!(answer, Ruling::Allow { .. }), is_whole, "{what}: {answer:?}");
    };
    check("nothing", &|_| {}, true);
    for kind in ["Role", "ApiKey", "User", "Group", "Caller", "Approval"] {
        check(kind, &|built| built.nodes.retain(|node| node.uid.0 != kind), false);
        check(
            kind,
            &|built| built.nodes.iter_mut().for_each(|node| node.parents.retain(|uid| uid.0 != kind)),
            matches!(kind, "Caller" | "Approval"),
        );
    }
    check("owner", &|built| built.nodes.iter_mut().for_each(|node| node.attributes.clear()), false);
    let another = &|built: &mut Built| {
        let principal = built.principal.clone();
        let owned = built.nodes.iter_mut().filter(|node| node.uid.0 == "Approval");
        owned.for_each(|node| {
            node.attributes
                .insert("owner".to_owned(), crate::policy::request::cedar::Value::Entity(principal.clone()));
        });
    };
    check("another owner", another, false);
}
