//! Verification, opening and proofs.

use crate::entries::{self, PROJECTIONS, files};
use crate::floors;
use crate::{Aim, Table, median};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use par::ledger::export::proof_file::Evidence;
use par::ledger::{self, Header, Note, Reader, VerifierKey};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Verifications, each next to its floors.
const ROUNDS: usize = 3;
/// Entries that the hashing floor keeps in memory.
const SAMPLE: i64 = 20_000;

pub fn verify(below: &Path, entries: u64, table: &mut Table) {
    let home = entries::filled(below, entries);
    let files = files(home.path());
    let sample = floors::sample(&files.ledger(), SAMPLE);
    let share = entries as f64 / sample.len() as f64;
    let times = usize::try_from(entries).expect("size").div_ceil(sample.len());
    let whole = |took: Duration| took.as_secs_f64() * share / times as f64;
    let (mut verified, mut hashed, mut leaves, mut scanned) = (vec![], vec![], vec![], vec![]);
    let (mut worked, mut hashing, mut checked) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let before = cpu();
        hashed.push(whole(floors::hashing(&sample, times, true)));
        hashing.push(whole(cpu() - before));
        leaves.push(whole(floors::hashing(&sample, times, false)));
        scanned.push(floors::scan(home.path()).as_secs_f64());
        let before = cpu();
        floors::integrity(home.path());
        checked.push((cpu() - before).as_secs_f64());
        let (began, before) = (Instant::now(), cpu());
        let report = ledger::audit(&files, &PROJECTIONS, &[]);
        verified.push(began.elapsed().as_secs_f64());
        worked.push((cpu() - before).as_secs_f64());
        assert!(report.verdict.holds(), "{:?}", report.findings);
        // The entries that seal full segments come on top.
        assert!(report.entries >= entries && report.payloads == report.entries);
    }
    let is = median(verified);
    let name = format!("verify {entries}");
    for (floor, figure, aim) in [
        ("hashing on one core", median(hashed), Aim::AtMost(1.0)),
        ("hashing without payloads", median(leaves), Aim::None),
        ("SELECT", median(scanned), Aim::None),
    ] {
        let name = format!("{name} / {floor}");
        table.row(name, format!("{is:.2} s"), format!("{figure:.2} s"), is / figure, aim);
    }
    // On a busy machine processor time says more than the clock.
    let (is, floor, checked) = (median(worked), median(hashing), median(checked));
    let two = format!("{name}, CPU time of two cores");
    table.row(two, format!("{:.2} s", is / 2.0), format!("{floor:.2} s"), is / 2.0 / floor, Aim::AtMost(1.0));
    let share = "integrity_check, of its CPU time".to_owned();
    table.row(share, format!("{checked:.2} s"), format!("{is:.2} s"), checked / is, Aim::None);
}

/// What the fast path for headers in plain form saves: it is removed unless it saves 3 % of a
/// verification.
///
/// A blank after the first brace gives the same header in another form, which the general JSON
/// parser reads. A verification saves more than is counted here: it does not copy a header that is
/// read in its plain form.
pub fn headers(below: &Path, entries: u64, table: &mut Table) {
    let home = entries::filled(below, entries);
    let files = files(home.path());
    let sample = floors::sample(&files.ledger(), SAMPLE);
    let plain: Vec<Vec<u8>> = sample.into_iter().map(|(header, ..)| header).collect();
    let blank = |header: &Vec<u8>| [&b"{ "[..], header.strip_prefix(b"{").expect("an object")].concat();
    let any: Vec<Vec<u8>> = plain.iter().map(blank).collect();
    let read = |headers: &[Vec<u8>]| {
        let before = cpu();
        for header in headers {
            std::hint::black_box(Header::parse(header).expect("a header"));
        }
        (cpu() - before).as_secs_f64() * entries as f64 / headers.len() as f64
    };
    let (mut fast, mut slow, mut worked) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        fast.push(read(&plain));
        slow.push(read(&any));
        let before = cpu();
        let report = ledger::audit(&files, &PROJECTIONS, &[]);
        worked.push((cpu() - before).as_secs_f64());
        assert!(report.verdict.holds(), "{:?}", report.findings);
    }
    let (fast, slow, worked) = (median(fast), median(slow), median(worked));
    let name = format!("{entries} headers, plain form / any JSON");
    table.row(name, format!("{fast:.2} s"), format!("{slow:.2} s"), fast / slow, Aim::None);
    let (share, saved) = ("saved by the plain form, of verify's CPU".to_owned(), slow - fast);
    let ratio = saved / (worked + saved);
    table.row(share, format!("{saved:.2} s"), format!("{worked:.2} s"), ratio, Aim::AtLeast(0.03));
}

/// The processor time that this process has used.
fn cpu() -> Duration {
    let used = getrusage(UsageWho::RUSAGE_SELF).expect("usage");
    let micros = [used.user_time(), used.system_time()].map(|time| time.num_microseconds());
    Duration::from_micros(u64::try_from(micros.iter().sum::<i64>()).expect("time"))
}

/// Opens a ledger for writing: the aim is 10 ms.
pub fn open(home: &TempDir, table: &mut Table) {
    let times = (0..5).map(|_| {
        let began = Instant::now();
        let ledger = entries::open(home.path());
        let took = began.elapsed().as_secs_f64() * 1e3;
        drop(ledger);
        took
    });
    let is = median(times.collect());
    table.row("open / 10 ms", format!("{is:.1} ms"), "10 ms".to_owned(), is / 10.0, Aim::AtMost(1.0));
}

/// A proof from the middle of the ledger, checked, compared with checking its two signatures alone.
pub fn proof(home: &TempDir, table: &mut Table) {
    let reader = Reader::open(&files(home.path()).ledger()).expect("reader");
    let key = reader.log_key().expect("key");
    let evidence = reader.prove(None, &[reader.size().expect("size") / 2]).expect("proof");
    let file = evidence.write().expect("file");
    let note = Note::parse(&evidence.checkpoint).expect("note");
    let epoch = VerifierKey::parse(&evidence.first).expect("key");
    let (mut checked, mut signed) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let began = Instant::now();
        let proven = Evidence::read(&file).expect("file").check(&key).expect("proof");
        checked.push(began.elapsed().as_secs_f64() * 1e6);
        let began = Instant::now();
        assert!(note.is_signed_by(&key) && note.is_signed_by(&epoch));
        signed.push(began.elapsed().as_secs_f64() * 1e6);
        drop(proven);
    }
    let (is, floor) = (median(checked), median(signed));
    table.row(
        "a proof / its signatures",
        format!("{is:.0} µs"),
        format!("{floor:.0} µs"),
        is / floor,
        Aim::AtMost(2.0),
    );
}
