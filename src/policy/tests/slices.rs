//! A slice answers as all policies do, and the entities built by hand are those that Cedar builds.

use super::{ERRS, Session, arguments, at, catalog, host, load, names, sessions, source, subjects};
use crate::auth::{Source as Credential, Subject};
use crate::policy::Labels;
use crate::policy::request::build;
use crate::policy::request::lower;
use crate::policy::{Approved, Bundle, Counts, Groups, Question, Resource};
use crate::tools::IdKind;
use cedar_policy::{Entities, Response};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

const PRINCIPALS: [&str; 12] = [
    "principal",
    "principal is PAR::Session",
    "principal in PAR::Role::\"operator\"",
    "principal in PAR::Role::\"viewer\"",
    "principal is PAR::Session in PAR::Role::\"admin\"",
    "principal in PAR::User::\"ann\"",
    "principal in PAR::User::\"os:root\"",
    "principal in PAR::ApiKey::\"Ab3dEf9h\"",
    "principal in PAR::Group::\"release\"",
    "principal is PAR::Session in PAR::Group::\"night\"",
    "principal == PAR::Session::\"ses_1\"",
    "principal == PAR::Session::\"ses_2\"",
];
const ACTIONS: [&str; 9] = [
    "action",
    "action in PAR::Action::\"call_tool\"",
    "action in PAR::Action::\"read\"",
    "action in PAR::Action::\"exec\"",
    "action == PAR::Action::\"read_file\"",
    "action == PAR::Action::\"deploy\"",
    "action == PAR::Action::\"health_check\"",
    "action in [PAR::Action::\"read_file\", PAR::Action::\"deploy\"]",
    "action in [PAR::Action::\"exec\", PAR::Action::\"list_dir\"]",
];
const RESOURCES: [&str; 13] = [
    "resource",
    "resource is PAR::Path",
    "resource is PAR::Host",
    "resource is PAR::Project",
    "resource == PAR::Host::\"localhost\"",
    "resource == PAR::Project::\"demo\"",
    "resource in PAR::Project::\"shop\"",
    "resource in PAR::Path::\"@logs\"",
    "resource in PAR::Path::\"/\"",
    "resource is PAR::Path in PAR::Path::\"/var\"",
    "resource == PAR::Path::\"/var/log/wtmp\"",
    "resource in PAR::Path::\"/var/log/wtmp\"",
    "resource in PAR::Path::\"/srv\"",
];
const CONDITIONS: [&str; 6] = [
    "",
    "when { resource.labels.contains(\"secret\") }",
    "when { principal.risk > 5 }",
    "unless { context.call.approved == \"approved\" }",
    "when { context.call has approver && context.call.approver in PAR::Group::\"night\" }",
    "when { ERRS }",
];

/// The policies that load: effect, scopes and condition, without an id.
static POLICIES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for (at, principal) in PRINCIPALS.iter().enumerate() {
        for action in ACTIONS {
            for resource in RESOURCES {
                // Each scope with one condition and one effect, in turn.
                let condition = CONDITIONS[all.len() % CONDITIONS.len()].replace("ERRS", ERRS);
                let effect =
                    if (all.len() / CONDITIONS.len() + at).is_multiple_of(3) { "permit" } else { "forbid" };
                all.push(format!("{effect}({principal}, {action}, {resource}) {condition};"));
            }
        }
    }
    // Each load reports all refusals of one stage: first what can match nothing, then what PAR's
    // lints refuse. Each policy has its own line.
    loop {
        let text: String =
            all.iter().enumerate().map(|(at, text)| format!("@id(\"p{at}\")\n{text}\n")).collect();
        let Err(errors) = Bundle::load(&[source("all.cedar", &text)], catalog(), &names()) else {
            return all;
        };
        let refused: BTreeSet<usize> =
            errors.iter().filter_map(|error| error.line).map(|line| (line - 1) / 2).collect();
        assert!(!refused.is_empty(), "{errors:?}");
        let mut at = 0;
        all.retain(|_| {
            at += 1;
            !refused.contains(&(at - 1))
        });
    }
});

pub(super) fn bundle(picked: &[prop::sample::Index]) -> Bundle {
    let mut text = String::new();
    for (at, index) in picked.iter().enumerate() {
        text.push_str(&format!("@id(\"p{at}\") {}\n", index.get(&POLICIES)));
    }
    let file = "[path.\"/var/log/wtmp\"]\nlabels = [\"secret\"]\n[path.\"@workspace\"]\nlabels = [\"secret\"]\n\
                [project.demo]\nlabels = [\"secret\"]";
    let labels = Labels::parse(&source("entities.toml", file), &names()).expect("labels");
    let users = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    let groups = [("release", users(["ann", "ben"])), ("night", users(["os:root", "ben"]))];
    let loaded = Bundle::load(&[source("p.cedar", &text)], catalog(), &names());
    let labelled = loaded.and_then(|bundle| bundle.with_labels(labels));
    labelled
        .unwrap_or_else(|e| panic!("{e:?}"))
        .with_groups(Groups::new(groups.map(|(name, of)| (name.to_owned(), of))))
}

#[derive(Debug)]
pub(super) struct PolicyRequest {
    pub(super) who: Subject,
    pub(super) session: Session,
    pub(super) tool: &'static str,
    pub(super) resource: Resource,
    pub(super) approver: Option<&'static str>,
    pub(super) source_ip: Option<IpAddr>,
}

pub(super) fn asked() -> impl Strategy<Value = PolicyRequest> {
    let tools = prop::sample::select(vec!["read_file", "list_dir", "tail_file", "health_check", "deploy"]);
    let paths = prop::sample::select(vec![
        "/",
        "/var",
        "/var/log",
        "/var/log/wtmp",
        "/srv/w/x",
        "/var/log/a/b",
        "/vartmp",
    ]);
    let within = prop::collection::vec(
        prop::sample::select(vec!["@logs", "@workspace", "/var/log/wtmp", "/srv", "/var", "/var"]),
        0..4,
    );
    let projects = prop::sample::select(vec!["demo", "shop", "other"]);
    let approver = prop::option::of(prop::sample::select(vec!["ann", "ben", "os:root", "carl"]));
    (
        subjects(),
        sessions(),
        tools,
        paths,
        within,
        projects,
        any::<bool>(),
        approver,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(mut who, session, tool, path, within, project, is_outside, approver, is_remote, is_nobody)| {
                if is_nobody && matches!(who.source, Credential::Key { .. }) {
                    who.user = None;
                }
                let resource = match tool {
                    "health_check" => host(),
                    "deploy" => Resource::Id { kind: IdKind::Project, id: project.to_owned() },
                    _ if is_outside && within.len() == 3 => Resource::Outside { lexical: path.to_owned() },
                    _ => at(path, &within),
                };
                let source_ip = is_remote.then_some(IpAddr::from([127, 0, 0, 1]));
                PolicyRequest { who, session, tool, resource, approver, source_ip }
            },
        )
}

/// Decision, determining policies and errors.
fn told(response: &Response) -> (String, BTreeSet<String>, BTreeSet<String>) {
    let diagnostics = response.diagnostics();
    let errors = diagnostics.errors().map(ToString::to_string).collect();
    (format!("{:?}", response.decision()), diagnostics.reason().map(ToString::to_string).collect(), errors)
}

/// Compares each entity with the one that Cedar builds under the schema. Only actions that this one
/// is not in may be missing.
fn are_alike(ours: &Entities, checked: &Entities, tool: &str) -> Result<(), TestCaseError> {
    for entity in ours.iter() {
        let same = checked.get(&entity.uid()).is_some_and(|other| other.deep_eq(entity));
        prop_assert!(same, "{:?} is not {:?}", entity, checked.get(&entity.uid()));
    }
    for entity in checked.iter().filter(|entity| ours.get(&entity.uid()).is_none()) {
        let uid = entity.uid();
        prop_assert_eq!(uid.type_name().to_string(), "PAR::Action");
        let action = crate::policy::request::cedar::Uid("Action", tool.to_owned()).cedar().expect("action");
        prop_assert!(!checked.is_ancestor_of(&uid, &action) && uid != action);
    }
    Ok(())
}

/// Few of many policies are evaluated, and their set is built once.
#[test]
fn a_slice_is_small_and_kept() {
    assert!(POLICIES.len() > 400, "{}", POLICIES.len());
    let of_users: String = (0..40)
        .map(|at| {
            format!(
                "@id(\"u{at}\") permit(principal in PAR::User::\"u{at}\", action, resource is PAR::Path);\n"
            )
        })
        .collect();
    let of_paths = "@id(\"var\") permit(principal, action, resource in PAR::Path::\"/var\");
                    @id(\"log\") forbid(principal, action in PAR::Action::\"read\", resource == PAR::Path::\"/var/log\");
                    @id(\"deploy\") permit(principal, action == PAR::Action::\"deploy\", resource);";
    let bundle = load(&(of_users + of_paths));
    let uids = [
        crate::policy::request::cedar::Uid("User", "u7".to_owned()),
        crate::policy::request::cedar::Uid("Path", "/var".to_owned()),
    ];
    let slice = || bundle.slices.slice(&bundle.set, "read_file", uids.iter()).expect("slice").expect("small");
    let ids: BTreeSet<String> = slice().policies().map(|policy| policy.id().to_string()).collect();
    assert_eq!(
        ids,
        ["par.ceiling.read_file", "par.halted", "par.outside", "u7", "var"].map(str::to_owned).into()
    );
    assert!(Arc::ptr_eq(&slice(), &slice()));
    assert!(
        bundle.slices.slice(&bundle.set, "no_tool", uids.iter()).expect("slice").is_none(),
        "all of them"
    );
}

proptest! {
    #![proptest_config(crate::types::laws::cases(32))]

    #[test]
    fn a_slice_answers_what_all_policies_answer(
        picked in prop::collection::vec(any::<prop::sample::Index>(), 1..40), questions in prop::collection::vec(asked(), 40),
    ) {
        let (bundle, catalog) = (bundle(&picked), catalog());
        for asked in &questions {
            let arguments = match asked.tool {
                "deploy" => json!({ "project": "demo", "version": "1.0.0" }),
                tool => arguments(tool, "/x"),
            };
            let manifest = catalog.find(asked.tool).expect("tool");
            let question = Question {
                subject: &asked.who, session: &asked.session, manifest, arguments: &arguments, resource: &asked.resource,
                approved: asked.approver.map_or(Approved::No, |by| Approved::Approved { by: Some(by) }),
                now_us: 1_700_000_000_123_456, source_ip: asked.source_ip, channel: crate::types::Channel::Http,
            counts: Counts::default(),
            origins: None,
            is_chosen: false,
            is_halted: false,
            };
            let input = lower::record(&manifest.input, &arguments).expect("lowered");
            let built = build::build(&question, bundle.groups(), bundle.labels(), input);
            let (ours, slowly) = (bundle.ask(&built), bundle.ask_slowly(&built));
            let (ours, slowly) = (ours.map_err(|e| TestCaseError::fail(e.to_string()))?, slowly.map_err(|e| TestCaseError::fail(e.to_string()))?);
            prop_assert_eq!(told(&ours), told(&slowly), "{:?}", asked);
            let (_, entities) = built.cedar(&bundle.schema, &bundle.actions).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let (_, checked) = built.cedar_checked(&bundle.schema).map_err(|e| TestCaseError::fail(e.to_string()))?;
            are_alike(&entities, &checked, asked.tool)?;
        }
    }
}
