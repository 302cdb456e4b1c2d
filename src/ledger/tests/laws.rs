//! Laws of chain and tree, for any entries.

use super::{HeldKeys, LedgerHome, assert_verified, follow};
use crate::ledger::entry::{Draft, Kind, Ref, Stamp, Written, seal};
use crate::ledger::tree::{Frontier, leaf};
use crate::ledger::verify::{ChainWalk, RootMark};
use crate::ledger::{Head, Verification};
use crate::types::{Digest, RunId};
use proptest::prelude::*;
use serde_json::{Value, json};

fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let kinds = prop_oneof![
        Just(Kind::RunRequest),
        Just(Kind::ModelReply),
        Just(Kind::CallDecision),
        Just(Kind::CallResult),
        Just(Kind::KeyCreate)
    ];
    let words = (".{0,40}", ".{0,80}", ".{0,20}", prop::collection::vec(".{0,12}", 0..4));
    let draft = (kinds, words, any::<bool>(), 0_u64..5).prop_map(|(kind, words, in_run, answers)| {
        let (principal, tool, payload, policies) = words;
        Draft {
            run: in_run.then(RunId::generate),
            answers: (answers > 0).then_some(Ref::Seq(answers)),
            principal: Some(principal),
            tool: Some(tool),
            policies,
            ..Draft::untyped(kind, json!({ "text": payload, "of": [1, null, { "x": true }] }))
        }
    });
    prop::collection::vec(draft, 1..20)
}

/// An entry as it is stored.
#[derive(Clone)]
struct MadeEntry {
    header: Vec<u8>,
    salt: [u8; 32],
    body: Vec<u8>,
}

/// Chains `drafts` after a genesis entry, as the writer does.
fn chained(drafts: Vec<Draft>) -> (Vec<MadeEntry>, Head) {
    let held = HeldKeys::made_up();
    let genesis = Draft::new(held.genesis());
    let (mut prev, mut frontier) = (None, Frontier::default());
    let sealed = std::iter::once(genesis).chain(drafts).map(|draft| {
        let seq = frontier.size();
        let stamp =
            Stamp { log: held.log_id(), seq, prev, wall_us: seq, mono_us: 0, boot: "b", first_seq: seq };
        let salt = Digest::sha256(&seq.to_be_bytes()).0;
        let written = Written::salted(draft, salt).expect("written");
        let header = seal(&written, &stamp).expect("sealed").bytes;
        prev = Some(leaf(&header));
        frontier.push(leaf(&header));
        MadeEntry { header, salt, body: written.body }
    });
    let sealed: Vec<MadeEntry> = sealed.collect();
    let head = Head { size: frontier.size(), root: frontier.root() };
    (sealed, head)
}

fn walk(entries: &[MadeEntry], head: Head) -> Verification {
    let mut walk = ChainWalk::new(Some(RootMark { head }));
    let note = HeldKeys::made_up().sign(head).to_string().into_bytes();
    walk.expect(&[(0, i64::try_from(head.size).expect("size"), note)], &[]);
    for (seq, entry) in entries.iter().enumerate() {
        follow(&mut walk, seq as u64, &entry.header, &entry.salt, &entry.body);
    }
    walk.finish().0
}

proptest! {
    #![proptest_config(crate::types::laws::cases(64))]

    /// A chain verifies, whatever the texts in it.
    #[test]
    fn a_chain_verifies(drafts in drafts()) {
        let (entries, head) = chained(drafts);
        let report = walk(&entries, head);
        prop_assert!(report.verdict.holds(), "{:?}", report.findings);
        prop_assert_eq!(report.root, head.root.hex());
    }

    /// No byte of a header can change; no entry can be removed, duplicated or moved.
    #[test]
    fn any_change_of_the_headers_is_detected(drafts in drafts(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let (entries, head) = chained(drafts);
        let entry = at.index(entries.len());
        let mut changed = entries.clone();
        let byte = at.index(entries[entry].header.len());
        prop_assume!(changed[entry].header[byte] != to);
        changed[entry].header[byte] = to;
        prop_assert!(!walk(&changed, head).verdict.holds());

        let mut changed = entries.clone();
        changed.remove(entry);
        prop_assert!(!walk(&changed, head).verdict.holds());
        let mut changed = entries.clone();
        changed.insert(entry, entries[entry].clone());
        prop_assert!(!walk(&changed, head).verdict.holds());
        let mut changed = entries.clone();
        let other = usize::from(to) % entries.len();
        changed.swap(entry, other);
        prop_assert_eq!(walk(&changed, head).verdict.holds(), entry == other);
    }
}

/// Appends of many tasks share commits; each stays together and in order, and its receipts match.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_appends_stay_whole() {
    const TASKS: usize = 8;
    const APPENDS: usize = 12;
    let home = LedgerHome::empty();
    let ledger = tokio::task::block_in_place(|| home.open());
    let tasks = (0..TASKS).map(|task| {
        let ledger = ledger.clone();
        tokio::spawn(async move {
            for append in 0..APPENDS {
                let count = 1 + (task * 5 + append * 3) % 5;
                let drafts = (0..count).map(|at| {
                    let payload = json!({ "task": task, "append": append, "at": at });
                    let first = (at > 0).then_some(Ref::Sibling(0));
                    Draft { answers: first, ..Draft::untyped(Kind::ModelReply, payload) }
                });
                let receipts = ledger.append(drafts.collect()).await.expect("appended");
                let first = receipts[0].seq();
                assert_eq!(receipts.len(), count);
                for (at, receipt) in receipts.iter().enumerate() {
                    assert_eq!(receipt.seq(), first + at as u64);
                    assert!(receipt.seq() < receipt.head().size && receipt.head().size <= ledger.head().size);
                    let stored = ledger.reader().entry(receipt.seq()).expect("read").expect("there");
                    let body: Value = serde_json::from_slice(&stored.body.expect("body")).expect("JSON");
                    assert_eq!(body, json!({ "task": task, "append": append, "at": at, "v": 1 }));
                    assert_eq!(stored.header.u64("ref"), (at > 0).then_some(first));
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("task");
    }
    let appended: usize =
        (0..TASKS).flat_map(|task| (0..APPENDS).map(move |append| 1 + (task * 5 + append * 3) % 5)).sum();
    assert_eq!(ledger.head().size, 1 + appended as u64);
    assert_eq!(assert_verified(&home).entries, 1 + appended as u64);
}
