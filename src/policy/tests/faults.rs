//! Faults injected into many requests and bundles: no fault gives more than the answer without it.
//!
//! Each bundle is the shipped one, or one rule of it or of [`GUARDS`] together with a permit of
//! everything. `same` counts faults that change nothing; `narrower` counts answers that became a
//! deny, or a request for approval instead of an allow; `refused` counts bundles that do not load.
//! Optional facts (`approver`, `source_ip`) are not removed: a request without them is valid.

use super::{
    Approved, ERRS, PERMIT_ALL, Question, Resource, Role, Ruling, Session, SourceFile, Subject, arguments,
    at, catalog, host, names, os_subject, session, source, subject, top,
};
use crate::policy::Labels;
use crate::policy::load::bundle::Bundle;
use crate::policy::request::build;
use crate::policy::request::cedar::{Built, Uid, Value};
use crate::policy::request::lower;
use crate::policy::{Counts, Groups};
use crate::tools::{Catalog, IdKind, Places};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

/// Rules that a request could escape if it lost something.
const GUARDS: [&str; 12] = [
    "@id(\"g-operator\") forbid(principal in PAR::Role::\"operator\", action, resource);",
    "@id(\"g-viewer\") forbid(principal in PAR::Role::\"viewer\", action, resource is PAR::Path);",
    "@id(\"g-group\") forbid(principal in PAR::Group::\"release\", action, resource);",
    "@id(\"g-user\") forbid(principal in PAR::User::\"ann\", action, resource);",
    "@id(\"g-key\") forbid(principal in PAR::ApiKey::\"Ab3dEf9h\", action, resource);",
    "@id(\"g-class\") forbid(principal, action in PAR::Action::\"read\", resource);",
    "@id(\"g-tools\") forbid(principal, action in [PAR::Action::\"exec\", PAR::Action::\"read_file\"], resource);",
    "@id(\"g-folder\") forbid(principal, action, resource in PAR::Path::\"/var\");",
    "@id(\"g-named\") forbid(principal, action, resource in PAR::Path::\"@logs\");",
    "@id(\"g-label\") forbid(principal, action in PAR::Action::\"call_tool\", resource) when { resource.labels.contains(\"secret\") };",
    "@id(\"g-session\") forbid(principal, action in PAR::Action::\"call_tool\", resource) when { principal.taint.contains(\"untrusted\") || principal.risk > 3 };",
    "@id(\"g-fact\") forbid(principal, action in PAR::Action::\"call_tool\", resource) when { context.call.calls_hour > 2 && context.call.approved == \"no\" };",
];

/// How the answers to the requests compare.
#[derive(Clone, Copy, Debug, Default)]
struct FaultCounts {
    same: usize,
    narrower: usize,
    refused: usize,
}

#[derive(Default)]
struct FaultTable(BTreeMap<&'static str, FaultCounts>);

impl FaultTable {
    fn add(&mut self, fault: &'static str, without: &Ruling, with: &Ruling, told: impl Fn() -> String) {
        let rank = |answer: &Ruling| {
            ["deny", "needs_approval", "allow"].iter().position(|word| *word == answer.word())
        };
        assert!(rank(with) <= rank(without), "{fault} widens {without:?} to {with:?}: {}", told());
        let row = self.0.entry(fault).or_default();
        if rank(with) == rank(without) { row.same += 1 } else { row.narrower += 1 }
    }

    fn refuse(&mut self, fault: &'static str) {
        self.0.entry(fault).or_default().refused += 1;
    }

    fn text(&self) -> String {
        let head = format!("{:<44} {:>6} {:>9} {:>8}\n", "fault", "same", "narrower", "refused");
        let row = |(fault, FaultCounts { same, narrower, refused }): (&&str, &FaultCounts)| {
            format!("{fault:<44} {same:>6} {narrower:>9} {refused:>8}\n")
        };
        head + &self.0.iter().map(row).collect::<String>()
    }

    fn cases(&self) -> usize {
        self.0.values().map(|row| row.same + row.narrower + row.refused).sum()
    }
}

fn shipped_text(name: &str) -> String {
    std::fs::read_to_string(top().join("policies").join(name)).expect("shipped file")
}

fn shipped_files() -> Vec<SourceFile> {
    ["10-read.cedar", "20-deploy.cedar", "90-never.cedar"]
        .map(|name| source(name, &shipped_text(name)))
        .into()
}

fn entities() -> String {
    shipped_text("entities.toml")
}

fn labels(text: &str) -> Result<Labels, Vec<super::PolicyError>> {
    Labels::parse(&source("entities.toml", text), &names())
}

fn groups() -> Groups {
    Groups::new(
        [("release", "ann"), ("night", "ben")].map(|(group, user)| (group.to_owned(), vec![user.to_owned()])),
    )
}

fn load(sources: &[SourceFile]) -> Result<Bundle, Vec<super::PolicyError>> {
    let bundle = Bundle::load(sources, catalog(), &names())?.with_labels(labels(&entities())?)?;
    Ok(bundle.with_groups(groups()))
}

/// The text of each rule: the shipped ones, and the guards.
fn rules() -> Vec<String> {
    let whole = load(&shipped_files()).expect("shipped");
    let shipped = whole.policies().map(|(id, _)| whole.text(id).expect("text"));
    // Cedar's text of a policy is that of its file, with its annotations.
    shipped.chain(GUARDS.map(str::to_owned)).collect()
}

/// The shipped bundle, and each rule together with a permit of everything.
static SOURCES: LazyLock<Vec<Vec<SourceFile>>> = LazyLock::new(|| {
    let alone =
        rules().into_iter().map(|rule| vec![source("all.cedar", PERMIT_ALL), source("one.cedar", &rule)]);
    std::iter::once(shipped_files()).chain(alone).collect()
});

struct FaultRequest {
    who: Subject,
    session: Session,
    tool: &'static str,
    resource: Resource,
    approved: Approved<'static>,
}

/// Requests that together match each rule.
fn requests() -> Vec<FaultRequest> {
    let ask = |who: Subject, tool, resource, approved| FaultRequest {
        who,
        session: Session { taint: BTreeSet::from(["untrusted".to_owned()]), ..session(catalog()) },
        tool,
        resource,
        approved,
    };
    let demo = || Resource::Id { kind: IdKind::Project, id: "demo".to_owned() };
    let by = |by| Approved::Approved { by: Some(by) };
    let without_user = || Subject { user: None, ..subject(Role::Viewer) };
    vec![
        ask(subject(Role::Operator), "read_file", at("/var/log/syslog", &["@logs"]), Approved::No),
        ask(
            subject(Role::Operator),
            "read_file",
            at("/srv/w/notes", &["@workspace", "/var/log/wtmp"]),
            Approved::No,
        ),
        ask(
            subject(Role::Admin),
            "tail_file",
            at("/var/log/audit/x", &["@logs", "/var/log/audit"]),
            Approved::No,
        ),
        ask(without_user(), "list_dir", at("/var/log", &["@logs"]), Approved::Confirmed { by: None }),
        ask(os_subject(Role::Operator), "read_file", at("/srv/w/notes", &["@workspace"]), Approved::No),
        ask(os_subject(Role::Operator), "health_check", host(), Approved::No),
        ask(subject(Role::Admin), "deploy", demo(), by("ben")),
        ask(subject(Role::Operator), "deploy", demo(), Approved::No),
        ask(
            subject(Role::Operator),
            "read_file",
            Resource::Outside { lexical: "/etc/shadow".to_owned() },
            Approved::No,
        ),
    ]
}

fn with_question<T>(asked: &FaultRequest, work: impl FnOnce(&Question<'_>) -> T) -> T {
    let arguments = match asked.tool {
        "deploy" => json!({ "project": "demo", "version": "1.0.0" }),
        tool => arguments(tool, "/x"),
    };
    work(&Question {
        subject: &asked.who,
        session: &asked.session,
        manifest: catalog().find(asked.tool).expect("tool"),
        arguments: &arguments,
        resource: &asked.resource,
        approved: asked.approved,
        now_us: 1_700_000_000_000_000,
        source_ip: None,
        channel: crate::types::Channel::Http,
        counts: Counts { calls_hour: 3, ..Counts::default() },
        origins: None,
        is_chosen: false,
        is_halted: false,
    })
}

fn build(bundle: &Bundle, question: &Question<'_>) -> Built {
    let input = lower::record(&question.manifest.input, question.arguments).expect("lowered");
    build::build(question, bundle.groups(), bundle.labels(), input)
}

/// Every place at which each fault can be injected into a request.
fn faulty(built: &Built) -> Vec<(&'static str, Built)> {
    let mut out = Vec::new();
    let changed = |change: &dyn Fn(&mut Built)| {
        let mut built = built.clone();
        change(&mut built);
        built
    };
    for (at, node) in built.nodes.iter().enumerate() {
        let is_folder = node.uid.0 == "Path" && node.uid != built.resource;
        let [alone, with_ties] = match node.uid.0 {
            "Role" => ["role missing", "role and ties missing"],
            "Group" => ["group missing", "group and ties missing"],
            "User" => ["user missing", "user and ties missing"],
            "ApiKey" => ["key missing", "key and ties missing"],
            "Session" => ["session missing", "session and ties missing"],
            _ if is_folder => ["folder or name above missing", "folder or name above and ties missing"],
            _ => ["object missing", "object and ties missing"],
        };
        let without = changed(&|built| {
            built.nodes.remove(at);
        });
        let mut untied = without.clone();
        for other in &mut untied.nodes {
            other.parents.retain(|uid| *uid != node.uid);
        }
        out.extend([(alone, without), (with_ties, untied)]);
        for parent in 0..node.parents.len() {
            out.push((
                "membership missing",
                changed(&|built| {
                    built.nodes[at].parents.remove(parent);
                }),
            ));
        }
        for name in node.attributes.keys() {
            let of = |value: Option<Value>| {
                changed(&|built| {
                    built.nodes[at].attributes.remove(name);
                    built.nodes[at].attributes.extend(value.clone().map(|value| (name.clone(), value)));
                })
            };
            out.push(("attribute missing", of(None)));
            out.push(("attribute of another type", of(Some(Value::Record(BTreeMap::new())))));
            let other = if name == "labels" { Value::Set(Vec::new()) } else { Value::Bool(true) };
            let fault = if name == "labels" { "labels lost" } else { "attribute of another type" };
            out.push((fault, of(Some(other))));
        }
    }
    in_context(built, &mut out);
    for action in ["nothing", "read", "call_tool", ""] {
        out.push(("action unknown", changed(&|built| built.action = action.to_owned())));
    }
    out.push(("principal unknown", changed(&|built| built.principal = Uid("Session", "other".to_owned()))));
    out.push(("resource unknown", changed(&|built| built.resource = Uid("Path", "/other".to_owned()))));
    out
}

/// Faults in the facts and in the arguments.
fn in_context(built: &Built, out: &mut Vec<(&'static str, Built)>) {
    let changed = |change: &dyn Fn(&mut Built)| {
        let mut built = built.clone();
        change(&mut built);
        built
    };
    for (part, record) in &built.context {
        out.push((
            "facts or arguments missing",
            changed(&|built| {
                built.context.remove(part);
            }),
        ));
        let Value::Record(members) = record else {
            let other = changed(&|built| {
                built.context.insert(part.clone(), Value::Set(Vec::new()));
            });
            out.push(("fact or argument of another type", other));
            continue;
        };
        for name in members.keys().filter(|name| *name != "approver") {
            let of = |value: Option<Value>| {
                changed(&|built| {
                    let Some(Value::Record(members)) = built.context.get_mut(part) else { return };
                    members.remove(name);
                    members.extend(value.clone().map(|value| (name.clone(), value)));
                })
            };
            let is_optional = part == "input" && ["limit", "offset"].contains(&name.as_str());
            if !is_optional {
                out.push(("fact or argument missing", of(None)));
            }
            out.push(("fact or argument of another type", of(Some(Value::Set(Vec::new())))));
        }
    }
}

/// A catalog of the shipped tools without some, or with another input.
fn other_catalog(without: &[&str], change: impl Fn(&str) -> String) -> Catalog {
    let folder = tempfile::tempdir().expect("folder");
    for manifest in catalog().manifests().filter(|manifest| !without.contains(&manifest.name.as_str())) {
        let name = format!("{}.toml", manifest.name);
        let text = std::fs::read_to_string(top().join("tools.d").join(&name)).expect("manifest");
        std::fs::write(folder.path().join(&name), change(&text)).expect("written");
    }
    let paths = [("logs", "/var/log"), ("workspace", "/nonexistent/workspace")];
    let names = BTreeMap::from(paths.map(|(name, path)| (name.to_owned(), path.into())));
    Catalog::load(folder.path(), &Places { names, private: Vec::new() }).expect("tools")
}

/// The manifest with another argument, which calls do not have.
fn more_arguments(text: &str) -> String {
    let text = text.replace("required = [\"path\"", "required = [\"more\", \"path\"");
    if text.contains("\"more\"") { text + "\n[input.properties.more]\ntype = \"string\"\n" } else { text }
}

/// Faults of one request, under each bundle.
fn in_requests(table: &mut FaultTable) {
    for sources in SOURCES.iter() {
        let bundle = load(sources).expect("bundle");
        for asked in requests() {
            with_question(&asked, |question| {
                let without = bundle.decide(question).answer;
                for (fault, built) in faulty(&build(&bundle, question)) {
                    let with = bundle.answers_whole(&built, bundle.groups()).0;
                    table.add(fault, &without, &with, || format!("{sources:?} {built:?}"));
                }
            });
        }
    }
}

/// Faults in what is loaded: an erring rule in addition to the others, another schema, actions
/// without their classes.
fn in_bundles(table: &mut FaultTable) {
    let errs = ["permit", "forbid"].map(|effect| {
        source("errs.cedar", &format!("@id(\"errs\") {effect}(principal, action in PAR::Action::\"call_tool\", resource) when {{ {ERRS} }};"))
    });
    let others = [
        ("schema without the tool", other_catalog(&["read_file", "deploy", "health_check"], str::to_owned)),
        ("schema of other arguments", other_catalog(&["deploy"], more_arguments)),
    ];
    for sources in SOURCES.iter() {
        let bundle = load(sources).expect("bundle");
        for errs in &errs {
            let erring = load(&[sources.as_slice(), std::slice::from_ref(errs)].concat()).expect("erring");
            compare(table, "a rule errs", &bundle, &erring);
        }
        for (fault, other) in &others {
            let loaded = Bundle::load(sources, other, &names());
            match loaded.and_then(|bundle| bundle.with_labels(labels(&entities())?)) {
                Ok(other) => compare(table, fault, &bundle, &other.with_groups(groups())),
                Err(_) => table.refuse(fault),
            }
        }
    }
    for manifest in catalog().manifests() {
        for lost in 0..3 {
            let mut bundle = load(&shipped_files()).expect("bundle");
            bundle.actions.0.entry(manifest.name.clone()).and_modify(|entities| {
                if lost == 0 {
                    entities.clear();
                } else {
                    entities[0] = Arc::new(without_ancestor(&entities[0], lost - 1));
                }
            });
            bundle.canary(catalog()).expect_err("an action without its class");
            table.refuse("action or its class missing");
        }
    }
}

fn without_ancestor(action: &cedar_policy_core::ast::Entity, at: usize) -> cedar_policy_core::ast::Entity {
    let mut ancestors: Vec<_> = action.ancestors().cloned().collect();
    ancestors.sort();
    ancestors.remove(at);
    let parents = ancestors.into_iter().collect();
    cedar_policy_core::ast::Entity::new_with_attr_partial_value(
        action.uid().clone(),
        [],
        Default::default(),
        parents,
        [],
    )
}

fn compare(table: &mut FaultTable, fault: &'static str, without: &Bundle, with: &Bundle) {
    for asked in requests() {
        with_question(&asked, |question| {
            let (without, with) = (without.decide(question).answer, with.decide(question).answer);
            table.add(fault, &without, &with, || format!("{question:?}"));
        });
    }
}

/// Files cut short within a rule or an entry, and files that are gone.
fn in_files(table: &mut FaultTable) {
    for rule in rules() {
        let rule = rule.trim_end();
        for cut in (1..rule.len()).step_by(5).filter_map(|end| rule.get(..end)) {
            load(&[source("all.cedar", PERMIT_ALL), source("one.cedar", cut)]).expect_err(cut);
            table.refuse("a rule broken");
        }
    }
    let shipped = shipped_files();
    let text = entities();
    let mut before = String::new();
    for entry in text.split_inclusive("\n\n") {
        let from = entry.find("[path.").filter(|_| !entry.contains("# [")).unwrap_or(entry.len());
        // Also after the header's bracket: a table without its labels.
        for cut in (from + 1..entry.trim_end().len()).filter_map(|end| entry.get(..end)) {
            let cut = format!("{before}{cut}");
            labels(&cut).expect_err(&cut);
            table.refuse("entities file broken");
        }
        before.push_str(entry);
    }
    for text in ["", "# nothing", "[path.\"/var/log/private\"]\nlabels = [\"secrets\"]"] {
        let loaded =
            Bundle::load(&shipped, catalog(), &names()).and_then(|bundle| bundle.with_labels(labels(text)?));
        loaded.expect_err("nothing is labelled secret");
        table.refuse("entities file without the label");
    }
}

/// Two bundles that many threads query at the same time: each answers as if it were alone.
fn in_a_race(table: &mut FaultTable) {
    let shipped = load(&shipped_files()).expect("shipped");
    for sources in SOURCES.iter().skip(1).take(8) {
        let other = load(sources).expect("bundle");
        let alone: Vec<[Ruling; 2]> = requests()
            .iter()
            .map(|asked| {
                with_question(asked, |question| {
                    [&shipped, &other].map(|bundle| bundle.decide(question).answer)
                })
            })
            .collect();
        let racing: Vec<Vec<[Ruling; 2]>> = std::thread::scope(|scope| {
            let ask = || {
                requests()
                    .iter()
                    .map(|asked| {
                        with_question(asked, |question| {
                            [&shipped, &other].map(|bundle| bundle.decide(question).answer)
                        })
                    })
                    .collect()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().expect("thread")).collect()
        });
        for answers in racing {
            assert_eq!(answers, alone);
            for (with, without) in answers.iter().flatten().zip(alone.iter().flatten()) {
                table.add("two bundles at once", without, with, String::new);
            }
        }
    }
}

#[test]
fn no_fault_gives_more() {
    let mut table = FaultTable::default();
    in_requests(&mut table);
    in_bundles(&mut table);
    in_files(&mut table);
    in_a_race(&mut table);
    assert!(table.cases() >= 10_000, "{} cases", table.cases());
    let found = table.text();
    assert!(found == include_str!("faults.out"), "src/policy/tests/faults.out is not:\n{found}");
}
