//! The shipped policies as a table that a person can read in a diff: roles × tools × objects.

#![expect(clippy::disallowed_methods, reason = "tests are told by the environment what to require")]

use par::auth::{Role, Source as Credential, Subject};
use par::policy::{
    Approved, Bundle, Counts, Door, HeldOver, Labels, Over, Power, Question, Ran, Resource, Ruling, Session,
    SourceFile, Use, Via,
};
use par::tools::{Catalog, IdKind, Places};
use par::types::KeyId;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// The objects: the canonical path, or that it is outside, and the names that contain it.
const OBJECTS: [(&str, &[&str]); 17] = [
    ("/var/log", &["@logs"]),
    ("/var/log/syslog", &["@logs"]),
    ("/var/log/nginx/error.log", &["@logs"]),
    ("/var/log/wtmp", &["@logs"]),
    ("/var/log/wtmp.1", &["@logs"]),
    ("/var/log/btmp", &["@logs"]),
    ("/var/log/lastlog", &["@logs"]),
    ("/var/log/by-another-name", &["@logs", "/var/log/wtmp"]),
    ("/var/log/private", &["@logs"]),
    ("/var/log/installer/syslog", &["@logs"]),
    ("/srv/home/workspace/notes", &["@workspace", "/var/log/audit"]),
    ("/srv/home/workspace", &["@workspace"]),
    ("/srv/home/workspace/notes.txt", &["@workspace"]),
    ("/srv/home/workspace/link-to-logs", &["@logs", "@workspace"]),
    ("/srv/home/unnamed", &[]),
    ("outside /etc/shadow", &[]),
    ("outside /var/logs/syslog", &[]),
];

#[test]
fn the_shipped_decisions() {
    let golden = top().join("tests/it/decisions.out");
    let table = table();
    let update = std::env::var_os("PAR_UPDATE").is_some();
    if update {
        std::fs::write(&golden, &table).expect("written");
    }
    let kept = std::fs::read_to_string(&golden).unwrap_or_default();
    if kept != table {
        let changed: Vec<String> = kept
            .lines()
            .filter(|line| !table.lines().any(|new| new == *line))
            .map(|line| format!("- {line}"))
            .chain(
                table
                    .lines()
                    .filter(|line| !kept.lines().any(|old| old == *line))
                    .map(|line| format!("+ {line}")),
            )
            .collect();
        panic!(
            "other decisions than in {}:\n{}\nif they are meant: PAR_UPDATE=1 cargo test --test it decisions",
            golden.display(),
            changed.join("\n")
        );
    }
}

fn table() -> String {
    let names: BTreeMap<String, _> = [("logs", "/var/log"), ("workspace", "/srv/home/workspace")]
        .map(|(name, path)| (name.to_owned(), path.into()))
        .into();
    let places = Places { names: names.clone(), private: Vec::new() };
    let catalog = Catalog::load(&top().join("tools.d"), &places).expect("shipped tools");
    let mut files: Vec<_> = std::fs::read_dir(top().join("policies"))
        .expect("policies")
        .map(|item| item.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "cedar"))
        .collect();
    files.sort();
    let sources: Vec<SourceFile> = files
        .iter()
        .map(|path| SourceFile {
            name: path.file_name().expect("name").to_string_lossy().into_owned(),
            text: std::fs::read_to_string(path).expect("policy"),
        })
        .collect();
    let names: BTreeSet<String> = names.into_keys().collect();
    let text = std::fs::read_to_string(top().join("policies/entities.toml")).expect("labels");
    let labels =
        Labels::parse(&SourceFile { name: "entities.toml".to_owned(), text }, &names).expect("labels");
    let bundle = Bundle::load(&sources, &catalog, &names).and_then(|bundle| bundle.with_labels(labels));
    let bundle = bundle.expect("shipped policies");
    let mut out = String::from("# role, tool, object: the decision and the policies that determine it\n");
    for role in Role::ALL {
        for manifest in catalog.manifests() {
            writeln!(out, "\n{} {}", role.as_str(), manifest.name).expect("text");
            let offered = bundle.may_offer(&subject(role), &session(&catalog), manifest);
            writeln!(out, "  {:<34} {}", "(offered)", if offered { "yes" } else { "no" }).expect("text");
            for (object, resource) in objects(manifest.resource.kind()) {
                let ask = |session: &Session| {
                    let verdict = bundle.decide(&Question {
                        subject: &subject(role),
                        session,
                        manifest,
                        arguments: &arguments(&manifest.name),
                        resource: &resource,
                        approved: Approved::No,
                        now_us: 1_790_000_000_000_000,
                        source_ip: None,
                        channel: par::types::Channel::Http,
                        counts: Counts::default(),
                        origins: None,
                        is_chosen: false,
                        is_halted: false,
                    });
                    words(&verdict.answer)
                };
                let tainted = Session { taint: ["untrusted".to_owned()].into(), ..session(&catalog) };
                let (answer, tainted) = (ask(&session(&catalog)), ask(&tainted));
                writeln!(out, "  {object:<34} {answer}").expect("text");
                // A session that has read untrusted text, if that makes a difference.
                if tainted != answer {
                    writeln!(out, "  {:<34} {tainted}", format!("{object}, tainted")).expect("text");
                }
            }
        }
    }
    powers(&bundle, &mut out);
    out
}

/// The powers of the API, over the subject's own things and over others'.
fn powers(bundle: &Bundle, out: &mut String) {
    out.push_str("\n# role, power, whose: the decision and the policies that determine it\n");
    for role in Role::ALL {
        writeln!(out, "\n{} over the API", role.as_str()).expect("text");
        for power in Power::ALL {
            let who = subject(role);
            let own = who.id();
            let owners: &[(&str, &str)] = match power.over() {
                HeldOver::Server => &[("", "")],
                _ => &[(" of its own", &own), (" of another", "key:another")],
            };
            for (whose, owner) in owners {
                let over = if owner.is_empty() { Over::Server } else { Over::Owned { id: "one", owner } };
                let door = Door { via: Via::Http, source_ip: None };
                let (now_us, ran) = (1_790_000_000_000_000, Ran::default());
                let asked = Use { subject: &who, power, over, door, expires_us: None, now_us, ran };
                let answer = bundle.decide_use(&asked);
                writeln!(out, "  {:<34} {}", format!("{}{whose}", power.as_str()), words(&answer.answer))
                    .expect("text");
            }
        }
    }
}

fn words(answer: &Ruling) -> String {
    let policies = match answer {
        Ruling::Deny { errors, .. } if !errors.is_empty() => format!("error: {}", errors.join("; ")),
        other if other.policies().is_empty() => "default".to_owned(),
        other => other.policies().join(", "),
    };
    format!("{:<6} {policies}", answer.word())
}

fn objects(kind: &str) -> Vec<(String, Resource)> {
    if kind == "Host" {
        let fixed = Resource::Fixed { kind: kind.to_owned(), id: "localhost".to_owned() };
        return vec![("localhost".to_owned(), fixed)];
    }
    if kind == "Project" {
        let project = |id: &str| Resource::Id { kind: IdKind::Project, id: id.to_owned() };
        return ["demo", "shop"].map(|id| (id.to_owned(), project(id))).into();
    }
    OBJECTS
        .iter()
        .map(|(object, within)| {
            let resource = match object.strip_prefix("outside ") {
                Some(lexical) => Resource::Outside { lexical: lexical.to_owned() },
                None => Resource::Path {
                    canonical: (*object).to_owned(),
                    within: within.iter().map(|name| (*name).to_owned()).collect(),
                },
            };
            ((*object).to_owned(), resource)
        })
        .collect()
}

/// Tools about this host, without arguments.
const HOST_TOOLS: [&str; 8] = [
    "connections",
    "disk_io",
    "disk_usage",
    "health_check",
    "interfaces",
    "listening_ports",
    "memory_usage",
    "process_list",
];

fn arguments(tool: &str) -> Value {
    match tool {
        "process_info" => json!({ "pid": 1 }),
        "diff_files" => json!({ "path": "/x", "old": "a", "new": "b" }),
        _ if HOST_TOOLS.contains(&tool) => json!({}),
        "tail_file" => json!({ "path": "/x", "lines": 5 }),
        "search_files" => json!({ "path": "/x", "pattern": "x" }),
        "deploy" => json!({ "project": "demo", "version": "1.0.1" }),
        _ => json!({ "path": "/x" }),
    }
}

fn subject(role: Role) -> Subject {
    let id = KeyId::parse("Ab3dEf9h").expect("id");
    Subject { source: Credential::Key { id, name: "someone".to_owned() }, role, user: None }
}

fn session(catalog: &Catalog) -> Session {
    Session {
        id: "ses_golden".to_owned(),
        ceiling: catalog.manifests().map(|manifest| manifest.name.clone()).collect(),
        taint: BTreeSet::new(),
        seen: BTreeSet::new(),
        tainted_by: Vec::new(),
        calls_used: 0,
        budget: 32,
        risk: 0,
    }
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
