//! Laws of decisions: each can be repeated from its record, a rule on a folder covers exactly what
//! is below it, and no tool that may run is hidden.

use super::{
    PERMIT_ALL, answer, arguments, ask, at, catalog, groups, host, is_below, load, names, names_of_paths,
    sessions, shipped, source, subjects, try_load,
};
use crate::policy::{Approved, Bundle, Counts, Question, RecordedRequest, Resource, Ruling, nearest};
use crate::types::json::{canonical, parse_strict};
use cedar_policy::{Authorizer, Context, Decision, Entities, EntityUid, Request};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

/// Repeats the decision from its record alone, as anyone with the bundle can.
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

    /// A decision is the same each time, and the same again from its record, written and read as
    /// the ledger does.
    #[test]
    fn a_decision_can_be_repeated_from_its_record(
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
        /// The same bundle, rebuilt from its archive.
        static KEPT: LazyLock<Bundle> = LazyLock::new(|| {
            Bundle::rebuild(BUNDLE.archive().as_bytes(), BUNDLE.digest()).expect("rebuilt")
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
            channel: crate::types::Channel::Http,
            counts: Counts::default(),
            origins: None,
            is_chosen: false,
            is_halted: false,
        };
        let verdict = bundle.decide(&question);
        let second = bundle.decide(&question);
        prop_assert_eq!(&verdict.answer, &second.answer);
        prop_assert_eq!(&verdict.request, &second.request);

        let written = canonical(&verdict.request).expect("canonical");
        let read = parse_strict(written.as_bytes(), 64).expect("JSON");
        let recorded = RecordedRequest::read(&read).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let later = KEPT.decide_again(&recorded);
        prop_assert_eq!((&later.answer, &later.shadow, later.fits), (&verdict.answer, &verdict.shadow, true));

        let (decision, policies, errors) = again(bundle, &read).map_err(TestCaseError::fail)?;

        // The explanation agrees with it: from the question and from the record, and part by part.
        let (told, considered) = bundle.explain_recorded(catalog, &read).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(&told, &verdict.answer);
        prop_assert_eq!(&considered, &bundle.explain(&question));
        for one in considered.iter().filter(|one| one.error.is_none()) {
            prop_assert_eq!(one.matched, one.failing.is_empty(), "{:?}", one);
        }
        let permits: Vec<&String> = considered.iter().filter(|c| c.permits && c.matched).map(|c| &c.policy).collect();
        if let Ruling::Allow { policies } = &verdict.answer {
            let mut permits = permits.clone();
            permits.sort();
            prop_assert_eq!(permits, policies.iter().collect::<Vec<_>>());
        }
        prop_assert_eq!(nearest(&considered).is_none(), !permits.is_empty());
        match &verdict.answer {
            Ruling::Allow { policies: then } => {
                prop_assert_eq!((decision, &policies, errors), (Decision::Allow, then, 0));
            }
            Ruling::Deny { errors: then, .. } if !then.is_empty() => prop_assert_eq!(errors, then.len()),
            other => {
                prop_assert_eq!((decision, errors), (Decision::Deny, 0));
                // A deny leaves out the rules that ask a person: an approval would not help.
                let is_gate = |id: &String| bundle.text(id).is_some_and(|text| text.contains("@require_"));
                let is_named = |id: &String| other.policies().contains(id);
                prop_assert!(other.policies().iter().all(|id| policies.contains(id)));
                prop_assert!(policies.iter().all(|id| is_named(id) || is_gate(id)), "{:?} of {:?}", other, policies);
            }
        }
    }

    /// A path is allowed below the folder that a policy names, and nowhere else: only whole names
    /// match.
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
            prop_assert_eq!(matches!(answer, Ruling::Allow { .. }), expect, "{}", &path);
        }
        // A `forbid` on it also holds if the object is known to lie there under another name.
        let denied = |resource: &Resource| matches!(answer(&FORBIDS, "read_file", resource), Ruling::Deny { .. });
        prop_assert_eq!(denied(&at(&path, &[])), expect);
        prop_assert!(denied(&at(&path, &["/var/log"])));
    }

    /// What would be allowed is offered: hiding is never stricter than deciding.
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
        // A scope that nothing can match is refused at load.
        let text = format!("@id(\"x\") permit({principal}, {action}, {scope}) {condition};\n{forbid}");
        let Ok(bundle) = try_load(&text) else { return Ok(()) };
        let catalog = catalog();
        // The deploy job has its own resource, which no scope above names.
        for manifest in catalog.manifests().filter(|manifest| manifest.name != "deploy") {
            let resource = if manifest.name == "health_check" { host() } else { at("/var/log/syslog", &["@logs"]) };
            let answer = ask(&bundle, &who, &session, &manifest.name, &resource).answer;
            let offered = bundle.may_offer(&who, &session, manifest);
            let may_run = !matches!(answer, Ruling::Deny { .. });
            prop_assert!(offered || !may_run, "{} {}", text, &manifest.name);
            let is_of_principal = condition.is_empty() || condition.contains("principal.taint") || condition.contains("principal.budget");
            if scope != "resource" || !forbid.is_empty() || !is_of_principal { continue; }
            prop_assert_eq!(matches!(answer, Ruling::Allow { .. }), offered, "{} {} {}", principal, action, &manifest.name);
        }
    }
}
