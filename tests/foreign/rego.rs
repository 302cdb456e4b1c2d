//! A decision of PAR compared with the same rules in Rego, evaluated by regorus on a prepared
//! request, for scale.
//!
//! `cargo bench --manifest-path tests/foreign/Cargo.toml` prints p50 and p99 in microseconds. The
//! question and the policies are those of PAR's own bench, `benches/policy/`.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a bench that fails stops")]

#[path = "../../benches/policy/question.rs"]
mod question;

use question::{PATH, catalog, load, policies, row, timed, whole};
use serde_json::json;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

const SIZES: [usize; 3] = [10, 100, 1_000];

fn main() {
    println!("{:<44} {:>9} {:>9}", "microseconds", "p50", "p99");
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools.d");
    let catalog = catalog(&tools);
    let bundle = load(&policies(1_000), &catalog);
    let mut times: Vec<Duration> = (0..1_000).map(|_| whole(&bundle, &catalog).0.iter().sum()).collect();
    let (whole, _) = row("whole decision, 1,000 policies", &mut times);
    rego(whole);
}

fn rego(whole: f64) {
    let input = json!({
        "roles": ["operator"], "groups": [], "user": "ana", "action": "read_file", "class": "read", "kind": "Path",
        "resource": PATH, "within": ["@logs", "/var/log/nginx", "/var/log", "/var", "/"], "labels": [], "risk": 0,
        "approved": "no",
    });
    for size in SIZES {
        let mut engine = regorus::Engine::new();
        engine.add_policy("bench.rego".to_owned(), rego_policies(size)).expect("policies");
        let input = regorus::Value::from_json_str(&input.to_string()).expect("input");
        let mut ask = || {
            engine.set_input(input.clone());
            engine.eval_rule("data.par.allow".to_owned()).expect("an answer")
        };
        assert_eq!(ask(), regorus::Value::from(true));
        let mut times: Vec<Duration> = (0..300).map(|_| timed(|| black_box(ask())).0).collect();
        let (p50, _) = row(&format!("regorus, {size} policies"), &mut times);
        if size == 1_000 {
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
