//! Tests of the room as a whole, and their helpers.

use crate::auth::{Role, Source as Credential, Subject};
use crate::policy::{
    Approved, Bundle, Counts, Evaluation, Groups, PolicyError, Question, Resource, Ruling, Session,
    SourceFile,
};
use crate::tools::{Catalog, Places};
use crate::types::KeyId;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::LazyLock;

mod slices;
mod decisions;
mod earlier;
mod faults;
mod laws;
mod links;
mod lowering;
mod narrow;
mod powers;
mod refused;
mod shadow;
mod suite;
mod nearest;
mod never;
mod tainted;

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

pub(super) fn source(name: &str, text: &str) -> SourceFile {
    SourceFile { name: name.to_owned(), text: text.to_owned() }
}

fn shipped() -> Vec<SourceFile> {
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
        seen: BTreeSet::new(),
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

/// The answer to `who` in `session`.
fn ask(bundle: &Bundle, who: &Subject, session: &Session, tool: &str, resource: &Resource) -> Evaluation {
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
        channel: crate::types::Channel::Http,
        counts: Counts::default(),
        origins: None,
        is_chosen: false,
        is_halted: false,
    })
}

fn answer(bundle: &Bundle, tool: &str, resource: &Resource) -> Ruling {
    ask(bundle, &subject(Role::Operator), &session(catalog()), tool, resource).answer
}

const PERMIT_ALL: &str = "@id(\"all\") permit(principal, action in PAR::Action::\"call_tool\", resource);\n";

/// An error beyond the year 292277026596; the only kind of error that no check at load finds.
const ERRS: &str = "context.call.now.offset(duration(\"9223372036854775807ms\")) > context.call.now";

fn groups() -> Groups {
    Groups::new([("night".to_owned(), vec!["ann".to_owned(), "os:root".to_owned()])])
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
