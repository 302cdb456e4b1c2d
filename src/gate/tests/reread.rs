//! Results of earlier calls, asked about as of now (L2).

use super::{Bench, EVERYTHING, LOGS, ended, found};
use crate::call::{FileId, FileKind, Object, PathObject};
use crate::gate::{Outcome, Rules};
use crate::ledger::Stored;
use crate::policy::{Bundle, SourceFile};
use crate::tools::{Catalog, Places};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

impl Bench {
    /// Runs an allowed call, and returns the entry of its decision.
    async fn ran(&self, tool: &str, arguments: &Value, object: Object) -> Stored {
        let Outcome::Permit(permit) = self.commit(self.decide(tool, arguments, object)).await else {
            panic!("no permit")
        };
        let (order, running) = permit.begin().expect("in time");
        let seq = order.decision();
        drop(order);
        let _results = self.gate.settle(vec![(running, ended(0))], None).await.expect("settled");
        self.gate.ledger().reader().entry(seq).expect("read").expect("there")
    }

    /// Puts other policies over the same tools in force.
    fn exchange(&self, policies: &str) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools.d");
        let names = (*self.gate.names).clone();
        let known: BTreeSet<String> = names.keys().cloned().collect();
        let catalog = Catalog::load(&folder, &Places { names, private: Vec::new() }).expect("tools");
        let source = SourceFile { name: "p.cedar".to_owned(), text: policies.to_owned() };
        let bundle = Bundle::load(&[source], &catalog, &known).expect("bundle");
        self.gate.in_force.set(Rules { catalog: Arc::new(catalog), bundle: Arc::new(bundle) });
    }

    fn may_reread(&self, decision: &Stored) -> bool {
        self.gate.may_reread(&self.asking(), decision)
    }
}

fn logs() -> Object {
    Object::Path(PathObject {
        canonical: "/var/log".to_owned(),
        id: FileId { dev: 1, ino: 1 },
        kind: FileKind::Folder,
        within: Vec::new(),
        beneath: Vec::new(),
        unseen: Vec::new(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_read_again_only_as_the_rules_of_now_permit() {
    let mut bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let file = json!({ "path": "/var/log/app/x.log" });
    let read = bench.ran("read_file", &file, found("/var/log/app/x.log", &[])).await;
    let search = json!({ "path": "/var/log", "pattern": "x" });
    let searched = bench.ran("search_files", &search, logs()).await;
    assert!(bench.may_reread(&read) && bench.may_reread(&searched));
    // A rule names the file, a folder above it, or a path below the folder that was searched: the
    // record of then does not have these names.
    for path in ["/var/log/app/x.log", "/var/log/app"] {
        let rule = format!(
            "{LOGS} @id(\"no\") forbid(principal, action in PAR::Action::\"read\", resource in PAR::Path::\"{path}\");"
        );
        bench.exchange(&rule);
        assert!(!bench.may_reread(&read), "{path}");
        assert!(!bench.may_reread(&searched), "{path}");
    }
    // Another file is not touched.
    let rule = format!(
        "{LOGS} @id(\"no\") forbid(principal, action in PAR::Action::\"read\", resource in PAR::Path::\"/var/log/other\");"
    );
    bench.exchange(&rule);
    assert!(bench.may_reread(&read) && !bench.may_reread(&searched));
    // No permit is left.
    bench.exchange("@id(\"health\") permit(principal, action == PAR::Action::\"health_check\", resource);");
    assert!(!bench.may_reread(&read) && !bench.may_reread(&searched));
    // The tool is not in the ceiling of this session.
    bench.exchange(LOGS);
    assert!(bench.may_reread(&read));
    bench.session.ceiling.remove("read_file");
    assert!(!bench.may_reread(&read) && bench.may_reread(&searched));
}

/// What was left out then may be left out now.
#[tokio::test(flavor = "multi_thread")]
async fn an_exclusion_of_then_hides_nothing_more() {
    let without_a = format!(
        "{LOGS} @id(\"no-a\") forbid(principal, action in PAR::Action::\"read\", resource in PAR::Path::\"/var/log/a\");"
    );
    let bench = tokio::task::block_in_place(|| Bench::open(&without_a));
    let Object::Path(mut folder) = logs() else { panic!("a folder") };
    folder.beneath.push(crate::call::Beneath {
        name: "/var/log/a".to_owned(),
        canonical: "/var/log/a".to_owned(),
        id: Some(FileId { dev: 1, ino: 7 }),
        within: vec!["/var/log/a".to_owned()],
    });
    let search = json!({ "path": "/var/log", "pattern": "x" });
    let searched = bench.ran("search_files", &search, Object::Path(folder)).await;
    assert!(bench.may_reread(&searched));
    let rule = format!(
        "{without_a} @id(\"no-b\") forbid(principal, action in PAR::Action::\"read\", resource in PAR::Path::\"/var/log/b\");"
    );
    bench.exchange(&rule);
    assert!(!bench.may_reread(&searched));
    bench.exchange(LOGS);
    assert!(bench.may_reread(&searched), "less is forbidden than then");
}

/// Rules about acts, such as how often a tool runs and what a tainted session may do, are not about
/// reading the result of one. A denied call has no result.
#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_an_act_is_read_again_and_a_denial_never() {
    let mut bench = tokio::task::block_in_place(|| Bench::open(EVERYTHING));
    let arguments = json!({ "name": "localhost" });
    let looked = bench.ran("dns_lookup", &arguments, Object::Fixed).await;
    let confirm = format!(
        "{EVERYTHING} @id(\"ask\") @require_confirm(\"\") forbid(principal, action in PAR::Action::\"net\", resource)
         when {{ principal.taint.contains(\"untrusted\") }} unless {{ context.call.approved == \"confirmed\" }};
         @id(\"once\") forbid(principal, action in PAR::Action::\"call_tool\", resource) when {{ context.call.calls_hour >= 1 }};"
    );
    bench.exchange(&confirm);
    assert!(bench.may_reread(&looked));
    bench.session.taint.insert("untrusted".to_owned());
    assert!(bench.may_reread(&looked), "a person's yes is not asked for again");
    let denied = bench.decide("read_file", &json!({ "path": "/etc/shadow" }), Object::Outside);
    let seq = bench.gate.ledger().head().size;
    let _outcome = bench.commit(denied).await;
    let denied = bench.gate.ledger().reader().entry(seq).expect("read").expect("there");
    assert!(!bench.may_reread(&denied));
}
