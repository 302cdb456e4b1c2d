//! The verification in slices, and what a ledger that is known to be damaged still takes.

use super::{LedgerHome, call_drafts, key_draft, one};
use crate::ledger::payload::{LedgerDamagePayload, StartPayload, StopPayload, VerifyPass};
use crate::ledger::read::{OpenSegments, root_at};
use crate::ledger::verify::{AfterSlice, SlicedAudit};
use crate::ledger::{
    AppendError, ChainState, Draft, Erasure, Targets, VerifyEvery, Watcher, recorded_damage,
};
use std::time::{Duration, Instant};

/// Verifies to the end. The error is what does not hold.
pub(super) fn to_end(audit: &mut SlicedAudit, home: &LedgerHome) -> Result<u64, String> {
    loop {
        match audit.next(&home.files()) {
            Ok(AfterSlice::More) => {}
            Ok(AfterSlice::End(report)) => {
                let found: Vec<_> = report.findings.iter().map(|found| (found.seq, &found.what)).collect();
                return if found.is_empty() { Ok(audit.size()) } else { Err(format!("{found:?}")) };
            }
            Err(error) => {
                assert!(error.is_damage(), "{error}");
                return Err(error.to_string());
            }
        }
    }
}

fn damage(entry: u64) -> LedgerDamagePayload {
    LedgerDamagePayload {
        entry: Some(entry),
        found: "it was changed".to_owned(),
        pass: VerifyPass::New,
        size: 9,
    }
}

/// The walk goes on with what is appended after it reached the end, over several segments too.
#[test]
fn slices_go_on_where_they_ended() {
    let home = LedgerHome::filled(3_000);
    let mut audit = SlicedAudit::default();
    let size = to_end(&mut audit, &home).expect("verified");
    assert_eq!(size, home.audit().entries);
    let ledger = home.open();
    for at in 0..40 {
        let _receipts = ledger.append_blocking(call_drafts(at)).expect("appended");
        if at % 7 == 0 {
            assert_eq!(to_end(&mut audit, &home), Ok(ledger.head().size));
        }
    }
    assert_eq!(to_end(&mut audit, &home), Ok(ledger.head().size));
    drop(ledger);
    home.settle();
    home.db().execute_batch("UPDATE payload SET body = x'7b7d' WHERE seq = 3100;").expect("changed");
    // A later round does not read it again; a new one does.
    assert!(to_end(&mut audit, &home).is_ok());
    assert!(to_end(&mut SlicedAudit::default(), &home).expect_err("found").contains("3100"));
}

/// A payload that was there when the walk passed it, and was redacted since, is not damage.
#[test]
fn what_is_erased_between_two_slices_is_no_damage() {
    let home = LedgerHome::empty();
    let ledger = home.open();
    let _receipts = ledger.append_blocking(one("a secret")).expect("appended");
    let _receipts = ledger.append_blocking(one("another")).expect("appended");
    let mut audit = SlicedAudit::default();
    assert_eq!(to_end(&mut audit, &home), Ok(3));
    let (reason, principal) = ("a test".to_owned(), "os:root".to_owned());
    let erasure = Erasure { targets: Targets::Entries(vec![1]), reason, principal, power: None };
    let _redacted = ledger.redact(&erasure).expect("erased");
    assert_eq!(to_end(&mut audit, &home), Ok(ledger.head().size));
    assert_eq!(to_end(&mut SlicedAudit::default(), &home), Ok(ledger.head().size));
}

/// A ledger that is known to be damaged takes only what says so, here and after a start (A2).
#[test]
fn a_damaged_ledger_takes_no_new_work() {
    let home = LedgerHome::filled(20);
    let ledger = home.open();
    ledger.declare(damage(6)).expect("recorded");
    let start = || StartPayload { command: "serve".to_owned(), program: "0".to_owned() };
    let refused = |ledger: &crate::ledger::Ledger| {
        for drafts in [one("x"), vec![key_draft("Zz3dEf9h", "new", "viewer")], call_drafts(1)] {
            let error = ledger.append_blocking(drafts).expect_err("refused");
            assert!(matches!(&error, AppendError::Damaged(found) if **found == damage(6)), "{error}");
        }
        // One entry that is refused refuses its append.
        let mixed = vec![Draft::new(start()), one("x").remove(0)];
        assert!(ledger.append_blocking(mixed).is_err());
        let _receipts = ledger.append_blocking(vec![Draft::new(start())]).expect("taken");
        let stop = StopPayload { command: "serve".to_owned() };
        let _receipts = ledger.append_blocking(vec![Draft::new(stop)]).expect("taken");
    };
    refused(&ledger);
    drop(ledger);
    home.settle();
    let ledger = home.open();
    assert_eq!(ledger.damage(), Some(damage(6)));
    refused(&ledger);
    assert_eq!(recorded_damage(ledger.reader()).expect("read"), Some(damage(6)));
    // The damage was only claimed here: the entries themselves verify.
    assert!(home.audit().verdict.holds());
}

/// A list has its line for an entry whose header cannot be read, from the index too.
#[test]
fn an_unreadable_header_has_its_place_in_a_list() {
    let home = LedgerHome::filled(20);
    home.db().execute_batch("UPDATE entry SET header = x'7b' WHERE seq = 6;").expect("changed");
    let reader = crate::ledger::Reader::open(&home.files().ledger()).expect("opened");
    let listed = |query: &str| {
        let filter = crate::ledger::Filter::parse(query).expect("a query");
        let order = crate::ledger::Order::Ascending;
        let (found, _) = reader.listed(&filter, 0, order, 100, 100).expect("a list");
        found.iter().map(|header| (header.seq, header.is_unreadable())).collect::<Vec<_>>()
    };
    assert_eq!(listed("seq:5-7"), [(5, false), (6, true), (7, false)]);
    assert!(listed("").contains(&(6, true)));
    assert!(!listed("kind:call.result").contains(&(6, true)));
    assert_eq!(reader.met_damage(), Some(6));
}

/// The thread finds a change that is made while it runs, and says so once.
#[test]
fn the_thread_finds_a_change_while_the_ledger_grows() {
    let home = LedgerHome::filled(600);
    let ledger = home.open();
    let watcher = Watcher::start(ledger.clone(), VerifyEvery { new_s: 1, whole_s: 1 }).expect("thread");
    let wait = |until: &dyn Fn(&ChainState) -> bool| {
        let began = Instant::now();
        while !until(&ledger.chain()) {
            assert!(began.elapsed() < Duration::from_secs(60), "{}", ledger.chain());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait(&|state| matches!(state, ChainState::Sound(sound) if sound.size >= 600));
    let _receipts = ledger.append_blocking(one("more")).expect("appended");
    wait(&|state| matches!(state, ChainState::Sound(sound) if sound.size == ledger.head().size));
    home.db().execute_batch("UPDATE payload SET body = x'7b7d' WHERE seq = 6;").expect("changed");
    wait(&|state| state.to_string() == "broken at 6");
    let began = Instant::now();
    while ledger.head().size < ledger.damage().expect("damage").size + 1 {
        assert!(began.elapsed() < Duration::from_secs(60), "the damage is recorded");
    }
    watcher.stop();
    assert!(matches!(ledger.append_blocking(one("x")), Err(AppendError::Damaged(_))));
    let last = ledger.reader().entry(ledger.head().size - 1).expect("read").expect("there");
    let found: LedgerDamagePayload = last.payload().expect("ledger.damage");
    assert_eq!((found.entry, found.pass), (Some(6), VerifyPass::Whole));
}

/// A command without a server verifies the newest entries only, from any of them on and in a sealed
/// segment too; older damage is left to a verification of every entry.
#[test]
fn the_newest_entries_are_verified_alone() {
    let home = LedgerHome::filled(3_000);
    let size = home.audit().entries;
    for count in [1, 2, 255, 256, 257, 1_000, size - 1, size, u64::MAX] {
        let mut audit = SlicedAudit::newest(&home.files(), count).expect("opened");
        assert_eq!(to_end(&mut audit, &home), Ok(size), "{count}");
    }
    home.db().execute_batch("UPDATE payload SET body = x'7b7d' WHERE seq = 2000;").expect("changed");
    let newest = |count| to_end(&mut SlicedAudit::newest(&home.files(), count).expect("opened"), &home);
    assert_eq!(newest(size - 2_001), Ok(size));
    assert!(newest(size - 2_000).expect_err("found").contains("2000"));
    let ledger = home.open();
    let error = ledger.verify_to_act().expect_err("found").to_string();
    assert!(error.contains("par audit renew --reason"), "{error}");
    assert_eq!(ledger.damage().and_then(|damage| damage.entry), Some(2000));
}

/// A command without a server verifies what was never verified and the newest entries, so that it
/// takes no longer on a longer ledger. A mark that is missing or not about this ledger makes it
/// verify more.
#[test]
fn what_was_verified_before_is_not_read_again_but_for_the_newest() {
    let home = LedgerHome::filled(3_000);
    let mark = home.files().verified();
    let change = |seq: u64, what: &str| {
        home.db()
            .execute_batch(&format!("UPDATE payload SET body = {what} WHERE seq = {seq};"))
            .expect("changed");
    };
    let act = || {
        let ledger = home.open();
        let acted = ledger.verify_to_act().map_err(|error| error.to_string());
        let damage = ledger.damage().and_then(|damage| damage.entry);
        drop(ledger);
        home.settle();
        acted.map_err(|_| damage)
    };
    let size = home.audit().entries;
    // All of it is new, more than without a mark.
    std::fs::write(&mark, line(&home, 100)).expect("mark");
    assert_eq!(act(), Ok(()));
    assert_eq!(std::fs::read_to_string(&mark).expect("mark"), line(&home, size), "verified to the end");
    // An entry that was verified, and is not among the newest.
    let body: Vec<u8> =
        home.db().query_row("SELECT body FROM payload WHERE seq = 500", [], |row| row.get(0)).expect("body");
    let body = format!("x'{}'", body.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    change(500, "x'7b7d'");
    assert_eq!(act(), Ok(()), "a server or `par audit verify` finds it");
    change(500, &body);
    for bad in [
        String::new(),
        "garbled".to_owned(),
        line(&home, size).replace(&format!("{size:020}"), &format!("{:020}", size + 1)),
        line(&home, size).replace(&format!("{size:020}"), &format!("{:020}", size - 1)),
    ] {
        std::fs::write(&mark, &bad).expect("mark");
        assert_eq!(act(), Ok(()), "{bad}: everything holds");
        assert_eq!(act(), Ok(()));
        assert_eq!(std::fs::read_to_string(&mark).expect("mark"), line(&home, size), "{bad}");
        let copy = home.copy();
        copy.db().execute_batch("UPDATE payload SET body = x'7b7d' WHERE seq = 500;").expect("changed");
        std::fs::write(copy.files().verified(), &bad).expect("mark");
        let ledger = copy.open();
        assert!(ledger.verify_to_act().is_err(), "{bad}");
        assert_eq!(ledger.damage().and_then(|damage| damage.entry), Some(500), "{bad}");
    }
    // What is new, and what is among the newest.
    std::fs::write(&mark, line(&home, 400)).expect("mark");
    change(500, "x'7b7d'");
    assert_eq!(act(), Err(Some(500)));
    let home = LedgerHome::filled(3_000);
    let ledger = home.open();
    ledger.verify_to_act().expect("sound");
    home.db().execute_batch("UPDATE payload SET body = x'7b7d' WHERE seq = 2500;").expect("changed");
    assert!(ledger.verify_to_act().is_err());
    assert_eq!(ledger.damage().and_then(|damage| damage.entry), Some(2_500));
}

/// The mark of a ledger that was verified up to `size`.
fn line(home: &LedgerHome, size: u64) -> String {
    let mut segments = OpenSegments::open(&home.files().ledger()).expect("segments");
    format!("{size:020} {}\n", root_at(&mut segments, size).expect("root"))
}
