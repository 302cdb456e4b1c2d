//! The cost of a decision: Cedar alone on the same request, and all of PAR from the proposed
//! arguments to the record's digest, over 10 to 10,000 policies, in one run.
//!
//! `cargo bench --bench policy` prints p50 and p99 in microseconds, and ratios. All of PAR is: JSON
//! Schema and canonical arguments, lowering, entities, evaluation, and the record's canonical JSON
//! with its SHA-256. At most a handful of the policies match the request by their scopes, as on a
//! server that many teams share. Also measured: which of 50 tools are offered, and loading 1,000
//! policies. `tests/foreign/rego.rs` asks another engine the same.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a bench that fails stops")]

mod question;

use cedar_policy::{Authorizer, Context, Entities, EntityUid, PolicySet, Request};
use par::policy::{Approved, Bundle, Counts, Question, Resource, Ruling, SourceFile};
use par::tools::Catalog;
use par::types::Channel;
use question::{catalog, load, policies, row, session, subject, timed, whole};
use serde_json::{Value, json};
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
const ROUNDS: usize = 3_000;
const WARM_UP: usize = 50;
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
    for (bundle, _) in &bundles[..3] {
        denied(bundle, &catalog);
    }
    tool_list();
    let source = &bundles[2].1;
    let mut loads: Vec<Duration> = (0..10).map(|_| timed(|| load(source, &catalog)).0).collect();
    row("load of 1,000 policies", &mut loads);
}

/// Two figures for each size.
type Sizes = [(f64, f64); 4];

/// p50 and p99 of Cedar alone and of all of PAR, by size. Measured in turn, so that drift affects
/// all equally.
fn decisions(bundles: &[(Bundle, SourceFile); 4], catalog: &Catalog) -> [Sizes; 2] {
    let request = whole(&bundles[0].0, catalog).1;
    let floors: Vec<Floor> = bundles.iter().map(|(_, source)| Floor::new(source, &request)).collect();
    let mut cedar: [Vec<Duration>; 4] = Default::default();
    let mut par: [Vec<Duration>; 4] = Default::default();
    let mut parts: [[Vec<Duration>; 3]; 4] = Default::default();
    for round in 0..ROUNDS + WARM_UP {
        for (at, (bundle, _)) in bundles.iter().enumerate() {
            // Unsliced, the largest would evict everything else from the caches: it is measured
            // separately below.
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

/// Cedar with everything prepared, and all policies in its set.
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

/// A call that no policy permits: the decision, and the nearest permit, which a person reads.
fn denied(bundle: &Bundle, catalog: &Catalog) {
    let (subject, session) = (subject(), session(catalog));
    let question = Question {
        subject: &subject,
        session: &session,
        manifest: catalog.find("read_file").expect("tool"),
        arguments: &json!({ "path": "/srv/other/notes" }),
        resource: &Resource::Path { canonical: "/srv/other/notes".to_owned(), within: Vec::new() },
        approved: Approved::No,
        now_us: 1_900_000_000_000_000,
        source_ip: None,
        channel: Channel::Http,
        counts: Counts::default(),
        origins: None,
        is_chosen: false,
        is_halted: false,
    };
    assert!(matches!(bundle.decide(&question).answer, Ruling::Deny { .. }));
    assert!(bundle.nearest(&question).is_some());
    let [mut decided, mut nearest]: [Vec<Duration>; 2] = Default::default();
    for _ in 0..ROUNDS {
        decided.push(timed(|| black_box(bundle.decide(&question))).0);
        nearest.push(timed(|| black_box(bundle.nearest(&question))).0);
    }
    let count = bundle.policies().count();
    let (decide, _) = row(&format!("deny without a permit, {count} policies"), &mut decided);
    let (near, _) = row("  nearest permit", &mut nearest);
    println!("nearest permit / decision:                     {:.2}  (aim: at most 1)", near / decide);
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
