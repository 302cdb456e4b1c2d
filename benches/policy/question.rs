//! The question of the decision benches: subject, request and policies. `tests/foreign/rego.rs`
//! uses it too.

#![expect(clippy::panic, reason = "a bench that fails stops")]

use par::auth::{Role, Source as Credential, Subject};
use par::policy::{Approved, Bundle, Counts, Question, Resource, Ruling, Session, SourceFile};
use par::tools::{Catalog, Places, ProposedCall};
use par::types::json::canonical;
use par::types::{Digest, KeyId};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

/// The object of the question.
pub const PATH: &str = "/var/log/nginx/access.log";

/// One complete decision: the time for arguments, decision and digest of the record, and the
/// request.
pub fn whole(bundle: &Bundle, catalog: &Catalog) -> ([Duration; 3], Value) {
    let (subject, session) = (subject(), session(catalog));
    let resource = Resource::Path { canonical: PATH.to_owned(), within: vec!["@logs".to_owned()] };
    let proposed = ProposedCall {
        id: "call_1".to_owned(),
        tool: "read_file".to_owned(),
        arguments: format!("{{\"path\":\"{PATH}\"}}"),
    };
    let start = Instant::now();
    let valid = catalog.validate(proposed, |_| true).expect("valid");
    let validated = start.elapsed();
    let verdict = bundle.decide(&Question {
        subject: &subject,
        session: &session,
        manifest: valid.manifest(),
        arguments: valid.arguments(),
        resource: &resource,
        approved: Approved::No,
        now_us: 1_900_000_000_000_000,
        source_ip: None,
        channel: par::types::Channel::Http,
        counts: Counts::default(),
        origins: None,
        is_chosen: false,
        is_halted: false,
    });
    let decided = start.elapsed();
    black_box(Digest::sha256(canonical(&verdict.request).expect("canonical").as_bytes()));
    let recorded = start.elapsed();
    let Ruling::Allow { policies } = &verdict.answer else { panic!("{:?}", verdict.answer) };
    assert_eq!(policies, &["read-logs"]);
    ([validated, decided - validated, recorded - decided], verdict.request)
}

/// One policy that permits the request, and others of the kinds on a shared server, each for one of
/// many.
pub fn policies(count: usize) -> SourceFile {
    let mut text = "@id(\"read-logs\") permit(principal in PAR::Role::\"operator\", action in \
                    PAR::Action::\"read\", resource in PAR::Path::\"@logs\");\n"
        .to_owned();
    for at in 1..count {
        let policy = match at % 4 {
            0 => format!(
                "permit(principal in PAR::User::\"user{at}\", action == PAR::Action::\"read_file\", \
                 resource in PAR::Path::\"/srv/user{at}\");"
            ),
            1 => format!(
                "permit(principal in PAR::Role::\"operator\", action in PAR::Action::\"read\", resource in \
                 PAR::Path::\"/srv/team{at}\");"
            ),
            2 => format!(
                "forbid(principal, action == PAR::Action::\"deploy\", resource == PAR::Project::\"p{at}\") \
                 unless {{ context.call.approved == \"approved\" }};"
            ),
            _ => format!(
                "forbid(principal in PAR::Group::\"team{at}\", action in PAR::Action::\"read\", resource is \
                 PAR::Path) when {{ resource.labels.contains(\"secret\") && principal.risk > 3 }};"
            ),
        };
        writeln!(text, "@id(\"p{at}\") {policy}").expect("text");
    }
    SourceFile { name: "policies/bench.cedar".to_owned(), text }
}

pub fn load(source: &SourceFile, catalog: &Catalog) -> Bundle {
    let names = BTreeSet::from(["logs".to_owned()]);
    Bundle::load(std::slice::from_ref(source), catalog, &names).expect("policies")
}

pub fn catalog(folder: &Path) -> Catalog {
    let names = [("logs", "/var/log"), ("workspace", "/srv/workspace")];
    let names: BTreeMap<String, _> = names.map(|(name, path)| (name.to_owned(), path.into())).into();
    Catalog::load(folder, &Places { names, private: Vec::new() }).expect("tools")
}

pub fn subject() -> Subject {
    let id = KeyId::parse("Ab3dEf9h").expect("id");
    let source = Credential::Key { id, name: "bench".to_owned() };
    Subject { source, role: Role::Operator, user: Some("ana".to_owned()) }
}

pub fn session(catalog: &Catalog) -> Session {
    Session {
        id: "ses_bench".to_owned(),
        ceiling: catalog.manifests().map(|tool| tool.name.clone()).collect(),
        taint: BTreeSet::new(),
        seen: BTreeSet::new(),
        tainted_by: Vec::new(),
        calls_used: 3,
        budget: 32,
        risk: 0,
    }
}

pub fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let done = work();
    (start.elapsed(), done)
}

/// Prints a row; p50 and p99 in microseconds.
pub fn row(name: &str, times: &mut [Duration]) -> (f64, f64) {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    println!("{name:<44} {:>9.1} {:>9.1}", at(50), at(99));
    (at(50), at(99))
}
