//! Lists of approval requests: by the index they are what a scan of the ledger finds, and open ones
//! are bounded.

use super::repeated::{asking, refuse, refused};
use super::{Bench, found};
use crate::auth::{self, Role};
use crate::gate::{Answer, AnswerError, Approval, ApprovalsAsked, Outcome, State};
use crate::ledger::Kind;
use crate::policy::Door;
use crate::store;
use crate::types::ApprovalId;
use crate::types::RefusalClass;

async fn ask(bench: &Bench, path: &str) -> Outcome {
    bench.commit(bench.read(found(path, &[]))).await
}

/// Requests in every state that a bench can make: pending, refused, granted and spent.
async fn in_all_states() -> Bench {
    let bench = tokio::task::block_in_place(|| Bench::open(&asking()));
    let owner = auth::local(bench.data.path(), Role::Admin).expect("owner");
    for number in 0..24 {
        let path = format!("/var/log/{number}");
        assert!(matches!(ask(&bench, &path).await, Outcome::Wait(_)));
        let newest = ApprovalsAsked { is_newest_first: true, ..ApprovalsAsked::default() };
        let (asked, _) = Approval::page(bench.gate.ledger(), &newest, 1, |_| true).expect("list");
        match number % 4 {
            0 => {}
            1 => refuse(&bench, &asked[0]).await,
            way => {
                let hash = Some(asked[0].call_hash.clone());
                let yes = Answer { grant: true, card: None, call_hash: hash, reason: None };
                bench.gate.answer(&owner, Door::LOCAL, &asked[0].id, yes).await.expect("answered");
                if way == 3 {
                    let again = bench.again(found(&path, &[]));
                    assert!(matches!(bench.commit(again).await, Outcome::Permit(_)));
                }
            }
        }
    }
    bench
}

/// What the entries say, one by one.
fn scanned(bench: &Bench) -> Vec<Approval> {
    let (ledger, mut found) = (bench.gate.ledger(), Vec::new());
    for seq in 0..ledger.head().size {
        let stored = ledger.reader().entry(seq).expect("read").expect("there");
        if stored.header.is(Kind::ApprovalRequest) {
            let id = bench.payload(seq)["id"].as_str().and_then(ApprovalId::parse).expect("id");
            found.push(Approval::find(ledger, &id).expect("read").expect("there"));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_by_the_index_is_what_a_scan_finds() {
    let bench = in_all_states().await;
    let all = tokio::task::block_in_place(|| scanned(&bench));
    assert_eq!(all.len(), 24);
    let own = all[0].requester.principal.clone();
    let states = [State::Pending, State::Granted, State::Refused, State::Expired, State::Spent, State::Void];
    let states = states.into_iter().map(Some).chain([None]);
    for state in states {
        for requester in [None, Some(own.clone()), Some("key:other".to_owned())] {
            for is_newest_first in [false, true] {
                let fits = |one: &&Approval| {
                    state.is_none_or(|state| one.state == state)
                        && requester.as_ref().is_none_or(|name| one.requester.principal == *name)
                };
                let mut expect: Vec<ApprovalId> = all.iter().filter(fits).map(|one| one.id.clone()).collect();
                if is_newest_first {
                    expect.reverse();
                }
                for limit in [1, 5, 100] {
                    let mut asked =
                        ApprovalsAsked { state, requester: requester.clone(), is_newest_first, after: None };
                    let mut listed = Vec::new();
                    loop {
                        let page = Approval::page(bench.gate.ledger(), &asked, limit, |_| true);
                        let (items, next) = page.expect("a page");
                        assert!(items.len() <= limit);
                        listed.extend(items.into_iter().map(|one| one.id));
                        let Some(next) = next else { break };
                        asked.after = Some(next);
                    }
                    assert_eq!(listed, expect, "{asked:?} {limit}");
                }
            }
        }
    }
}

/// An edited row shows no question to another requester, and no answered one as open.
#[tokio::test(flavor = "multi_thread")]
async fn an_edited_row_shows_nothing_that_the_entries_do_not() {
    for (change, state) in [
        ("UPDATE approval SET requester = 'key:other' WHERE state = 'refused'", None),
        ("UPDATE approval SET state = 'pending'", Some(State::Pending)),
        ("UPDATE approval SET state = 'refused' WHERE state = 'granted'", Some(State::Refused)),
        ("UPDATE approval SET state = 'void', answer_seq = NULL", Some(State::Void)),
    ] {
        let bench = in_all_states().await;
        let all = tokio::task::block_in_place(|| scanned(&bench));
        let own = all[0].requester.principal.clone();
        let files = crate::ledger::Files::below(bench.data.path());
        let edited = store::open_writer(&files.state(), store::Database::State).expect("open");
        assert!(edited.execute(change, []).expect("edited") > 0);
        let asked = ApprovalsAsked { state, ..ApprovalsAsked::default() };
        let sees = |name: &str| name != own || state.is_some();
        match Approval::page(bench.gate.ledger(), &asked, 100, sees) {
            Ok((items, _)) => {
                let is_so =
                    |one: &Approval| all.iter().any(|known| known.id == one.id && known.state == one.state);
                assert!(items.iter().all(is_so) && (state.is_some() || items.is_empty()), "{change}");
            }
            Err(error) => assert!(matches!(error, AnswerError::Mismatch(_)), "{change}: {error}"),
        }
    }
}

/// A call that would ask one question too many is denied for want of room, until one is answered.
#[tokio::test(flavor = "multi_thread")]
async fn open_questions_are_bounded() {
    let bench = tokio::task::block_in_place(|| Bench::open(&asking()));
    for (key, run, told) in [(u64::MAX, 2, "of this run"), (2, u64::MAX, "of this caller")] {
        bench.gate.bound_open_approvals(key, run);
        for path in ["/var/log/a", "/var/log/b"] {
            assert!(matches!(ask(&bench, path).await, Outcome::Wait(_) | Outcome::Refused(_)));
        }
        let Outcome::Refused(result) = ask(&bench, "/var/log/c").await else { panic!("asked") };
        assert_eq!(result.record().class, Some(RefusalClass::Capacity));
        let error = refused(Outcome::Refused(result));
        assert!(error.contains(told) && error.starts_with("2 questions"), "{error}");
    }
    let (open, _) = Approval::list(bench.gate.ledger(), Some(State::Pending), 0, 10, |_| true).expect("list");
    refuse(&bench, &open[0]).await;
    assert!(matches!(ask(&bench, "/var/log/c").await, Outcome::Wait(_)));
    tokio::task::block_in_place(|| bench.verified());
}
