//! The cost of a decision: Cedar alone on the same request, and the whole way of PAR from the proposed
//! arguments to the record's digest, over 10 to 10,000 policies, in one run.
//!
//! `cargo bench --bench policy` prints p50 and p99 in microseconds, and ratios. The whole way is: JSON Schema
//! and canonical arguments, lowering, entities, evaluation, and the record's canonical JSON with its SHA-256.
//! Of the policies at most a handful fit the request by their scopes, as where many teams share a server. Beside
//! it: the same rules in Rego by regorus, which of 50 tools are offered, and loading 1,000 policies.

#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a bench that fails stops")]

use cedar_policy::{Authorizer, Context, Entities, EntityUid, PolicySet, Request};
use par::auth::{Role, Source as Credential, Subject};
use par::policy::{Approved, Bundle, Counts, Question, Resource, Ruling, Session, SourceFile};
use par::tools::{Catalog, Places, ProposedCall};
use par::types::json::canonical;
use par::types::{Digest, KeyId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
const ROUNDS: usize = 3_000;
const WARM_UP: usize = 50;
const PATH: &str = "/var/log/nginx/access.log";
/// Parts of a decision, in order.
const PARTS: [&str; 3] = ["  arguments", "  decide", "  canonical record, SHA-256"];

fn main() {
    let catalog = catalog(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tools.d"));
    let bundles = SIZES.map(|size| {
        let source = policies(size);
        (load(&source, &catalog), source)
    });
    println!("{:<44} {:>9} {:>9}", "microseconds", "p50", "p99");
    let [cedar, whole] = decisions(&bundles, &catalog);
    println!("whole decision / Cedar alone, 10 policies:     {:.1}", whole[0].0 / cedar[0].0);
    println!("whole decision p99, 10 policies:               {:.0} µs  (aim: at most 250)", whole[0].1);
    println!(
        "whole decision, 10,000 / 10 policies:          {:.2}  (aim: at most 2)",
        whole[3].0 / whole[0].0
    );
    println!("Cedar alone, 10,000 / 10 policies:             {:.0}", cedar[3].0 / cedar[0].0);
    rego(whole[2].0);
    tool_list();
    let source = &bundles[2].1;
    let mut loads: Vec<Duration> = (0..10).map(|_| timed(|| load(source, &catalog)).0).collect();
    row("load of 1,000 policies", &mut loads);
}

/// Two figures of each size.
type Sizes = [(f64, f64); 4];

/// p50 and p99 of Cedar alone and of the whole way, by size. All in turn, so that drift meets all alike.
fn decisions(bundles: &[(Bundle, SourceFile); 4], catalog: &Catalog) -> [Sizes; 2] {
    let request = whole(&bundles[0].0, catalog).1;
    let floors: Vec<Floor> = bundles.iter().map(|(_, source)| Floor::new(source, &request)).collect();
    let mut cedar: [Vec<Duration>; 4] = Default::default();
    let mut par: [Vec<Duration>; 4] = Default::default();
    let mut parts: [[Vec<Duration>; 3]; 4] = Default::default();
    for round in 0..ROUNDS + WARM_UP {
        for (at, (bundle, _)) in bundles.iter().enumerate() {
            // Unsliced, the largest would push all else out of the caches: it has its own turn below.
            let floor = (at < 3).then(|| timed(|| floors[at].ask()).0);
            let (took, _) = whole(bundle, catalog);
            if round >= WARM_UP {
                cedar[at].extend(floor);
                par[at].push(took.iter().sum());
                for (part, took) in parts[at].iter_mut().zip(took) {
                    part.push(took);
                }
            }
        }
    }
    cedar[3].extend((0..60).map(|_| timed(|| floors[3].ask()).0));
    let mut at = 0;
    let cedar = cedar.map(|mut times| {
        at += 1;
        row(&format!("Cedar alone, {} policies", SIZES[at - 1]), &mut times)
    });
    let mut at = 0;
    let par = par.map(|mut times| {
        at += 1;
        let whole = row(&format!("whole decision, {} policies", SIZES[at - 1]), &mut times);
        for (name, part) in PARTS.iter().zip(&mut parts[at - 1]) {
            row(name, part);
        }
        whole
    });
    [cedar, par]
}

/// One decision on the whole way: how long each of [`PARTS`] took, and the request.
fn whole(bundle: &Bundle, catalog: &Catalog) -> ([Duration; 3], Value) {
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
        counts: Counts::default(),
    });
    let decided = start.elapsed();
    black_box(Digest::of(canonical(&verdict.request).expect("canonical").as_bytes()));
    let recorded = start.elapsed();
    let Ruling::Allow { policies } = &verdict.answer else { panic!("{:?}", verdict.answer) };
    assert_eq!(policies, &["read-logs"]);
    ([validated, decided - validated, recorded - decided], verdict.request)
}

/// Cedar with everything made beforehand, and all policies in its set.
struct Floor {
    request: Request,
    entities: Entities,
    policies: PolicySet,
}

impl Floor {
    fn new(source: &SourceFile, request: &Value) -> Self {
        let uid = |name: &str| EntityUid::from_json(request[name].clone()).expect("uid");
        let context = Context::from_json_value(request["context"].clone(), None).expect("context");
        let action = |id: &str, parents: &[&str]| {
            let uid = |id: &&str| json!({ "type": "PAR::Action", "id": id });
            json!({ "uid": uid(&id), "attrs": {}, "parents": parents.iter().map(uid).collect::<Vec<_>>() })
        };
        let mut entities = request["entities"].as_array().expect("entities").clone();
        entities.push(action("read_file", &["read"]));
        entities.push(action("read", &["call_tool"]));
        entities.push(action("call_tool", &[]));
        Self {
            request: Request::new(uid("principal"), uid("action"), uid("resource"), context, None)
                .expect("request"),
            entities: Entities::from_json_value(entities.into(), None).expect("entities"),
            policies: source.text.parse().expect("policies"),
        }
    }

    fn ask(&self) {
        black_box(Authorizer::new().is_authorized(&self.request, &self.policies, &self.entities));
    }
}

/// The same rules in Rego, evaluated by regorus with the request made beforehand: another engine, for scale.
fn rego(whole: f64) {
    let input = json!({
        "roles": ["operator"], "groups": [], "user": "ana", "action": "read_file", "class": "read", "kind": "Path",
        "resource": PATH, "within": ["@logs", "/var/log/nginx", "/var/log", "/var", "/"], "labels": [], "risk": 0,
        "approved": "no",
    });
    for size in &SIZES[..3] {
        let mut engine = regorus::Engine::new();
        engine.add_policy("bench.rego".to_owned(), rego_policies(*size)).expect("policies");
        let input = regorus::Value::from_json_str(&input.to_string()).expect("input");
        let mut ask = || {
            engine.set_input(input.clone());
            engine.eval_rule("data.par.allow".to_owned()).expect("an answer")
        };
        assert_eq!(ask(), regorus::Value::from(true));
        let mut times: Vec<Duration> = (0..300).map(|_| timed(|| black_box(ask())).0).collect();
        let (p50, _) = row(&format!("regorus, {size} policies"), &mut times);
        if *size == 1_000 {
            println!("regorus / whole decision, 1,000 policies:      {:.0}", p50 / whole);
        }
    }
}

/// [`policies`], rule by rule.
fn rego_policies(count: usize) -> String {
    let mut text = "package par\nimport rego.v1\ndefault allow := false\nallow if { permit; not refuse }\n\
                    default permit := false\ndefault refuse := false\n\
                    permit if { \"operator\" in input.roles; input.class == \"read\"; \"@logs\" in input.within }\n"
        .to_owned();
    for at in 1..count {
        let rule = match at % 4 {
            0 => format!(
                "permit if {{ input.user == \"user{at}\"; input.action == \"read_file\"; \"/srv/user{at}\" in \
                 input.within }}"
            ),
            1 => format!(
                "permit if {{ \"operator\" in input.roles; input.class == \"read\"; \"/srv/team{at}\" in \
                 input.within }}"
            ),
            2 => format!(
                "refuse if {{ input.action == \"deploy\"; input.resource == \"p{at}\"; input.approved != \
                 \"approved\" }}"
            ),
            _ => format!(
                "refuse if {{ \"team{at}\" in input.groups; input.class == \"read\"; input.kind == \"Path\"; \
                 \"secret\" in input.labels; input.risk > 3 }}"
            ),
        };
        writeln!(text, "{rule}").expect("text");
    }
    text
}

/// Which of 50 tools are offered, under 1,000 policies.
fn tool_list() {
    let folder = tempfile::tempdir().expect("folder");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools.d/read_file.toml");
    let text = std::fs::read_to_string(shipped).expect("manifest");
    for at in 0..49 {
        let text = text.replacen("\"read_file\"", &format!("\"read_{at}\""), 1);
        std::fs::write(folder.path().join(format!("read_{at}.toml")), text).expect("written");
    }
    std::fs::write(folder.path().join("read_file.toml"), &text).expect("written");
    let catalog = catalog(folder.path());
    assert_eq!(catalog.manifests().count(), 50);
    let mut source = policies(1_000);
    source.text = source.text.replace("\"deploy\"", "\"read_file\"").replace("PAR::Project", "PAR::Path");
    source.text = source.text.replace("PAR::Path::\"p", "PAR::Path::\"/p");
    let bundle = load(&source, &catalog);
    let (subject, session) = (subject(), session(&catalog));
    let offered = || catalog.manifests().filter(|tool| bundle.may_offer(&subject, &session, tool)).count();
    assert_eq!(offered(), 50);
    let mut lists: Vec<Duration> = (0..200).map(|_| timed(|| black_box(offered())).0).collect();
    let (p50, _) = row("list of 50 tools, 1,000 policies", &mut lists);
    println!("list of 50 tools:                              {:.2} ms  (aim: under 5)", p50 / 1e3);
}

/// One that permits the request, and others of the kinds that a shared server has, each for one of many.
fn policies(count: usize) -> SourceFile {
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

fn load(source: &SourceFile, catalog: &Catalog) -> Bundle {
    let names = BTreeSet::from(["logs".to_owned()]);
    Bundle::load(std::slice::from_ref(source), catalog, &names).expect("policies")
}

fn catalog(folder: &Path) -> Catalog {
    let names = [("logs", "/var/log"), ("workspace", "/srv/workspace")];
    let names: BTreeMap<String, _> = names.map(|(name, path)| (name.to_owned(), path.into())).into();
    Catalog::load(folder, &Places { names, private: Vec::new() }).expect("tools")
}

fn subject() -> Subject {
    let id = KeyId::parse("Ab3dEf9h").expect("id");
    let source = Credential::Key { id, name: "bench".to_owned() };
    Subject { source, role: Role::Operator, user: Some("ana".to_owned()) }
}

fn session(catalog: &Catalog) -> Session {
    Session {
        id: "ses_bench".to_owned(),
        ceiling: catalog.manifests().map(|tool| tool.name.clone()).collect(),
        taint: BTreeSet::new(),
        tainted_by: Vec::new(),
        calls_used: 3,
        budget: 32,
        risk: 0,
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let done = work();
    (start.elapsed(), done)
}

/// Prints a row; p50 and p99 in microseconds.
fn row(name: &str, times: &mut [Duration]) -> (f64, f64) {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    println!("{name:<44} {:>9.1} {:>9.1}", at(50), at(99));
    (at(50), at(99))
}
