//! Proof files of a real ledger, checked with only its verifier key.

use super::epochs::three_epochs;
use super::{LedgerHome, call_drafts};
use crate::ledger::export::proof_file::Evidence;
use crate::ledger::tree::proof::is_extended;
use crate::ledger::{Checkpoint, Epochs, Filter, Note, Order, Reader, VerifierKey};

fn reader(home: &LedgerHome) -> Reader {
    Reader::open(&home.files().ledger()).expect("reader")
}

fn key(home: &LedgerHome) -> VerifierKey {
    let genesis = reader(home).entry(0).expect("read").expect("genesis");
    Epochs::from_genesis(&genesis.header.log, &genesis.body.expect("payload")).expect("keys").log().clone()
}

/// The run id and the entry numbers of the newest run.
fn newest_run(reader: &Reader) -> (String, Vec<u64>) {
    let of = |query: &str, order, limit| {
        let filter = Filter::parse(query).expect("query");
        let from = if order == Order::Ascending { 0 } else { u64::MAX >> 1 };
        reader.headers(&filter, from, order, limit, usize::MAX).expect("read").0
    };
    let run = of("kind:run.reply", Order::Descending, 1)[0].str("run").expect("run").to_owned();
    let seqs = of(&format!("run:{run}"), Order::Ascending, 100).iter().map(|header| header.seq).collect();
    (run, seqs)
}

#[test]
fn every_entry_is_proven_and_reads_back() {
    let home = three_epochs();
    let (reader, key) = (reader(&home), key(&home));
    for seq in 0..reader.size().expect("size") {
        let evidence = reader.prove(None, &[seq]).expect("proof");
        let file = evidence.write().expect("file");
        assert!(file.starts_with("c2sp.org/tlog-proof@v1\nextra "), "{file}");
        assert_eq!(Evidence::read(&file).expect("read"), evidence);
        let proven = evidence.check(&key).unwrap_or_else(|e| panic!("{seq}: {e}"));
        let (header, payload) = &proven.entries[0];
        assert_eq!((header.seq, proven.epoch), (seq, 3));
        assert_eq!(payload.is_some(), header.kind != "key.create", "verifiers are not exported");
    }
    assert!(reader.prove(None, &[1_000]).is_err(), "an unsigned entry cannot be proven");
    assert!(
        reader.prove(None, &[0]).expect("proof").check(&self::key(&LedgerHome::filled(3))).is_err(),
        "another's key"
    );
}

/// The newest checkpoint has each size in turn, and each extends all earlier ones.
#[test]
fn every_size_extends_every_earlier_one() {
    let home = LedgerHome::filled(700);
    let reader = reader(&home);
    let size = reader.size().expect("size");
    for (old, new) in
        [(1, 2), (1, size), (255, 256), (256, 257), (256, size), (511, 512), (513, 700), (size - 1, size)]
    {
        let (before, after) = (reader.head_at(old).expect("tree"), reader.head_at(new).expect("tree"));
        assert!(is_extended(before, after, &reader.consistency(old, new).expect("proof")), "{old} to {new}");
    }
    assert_eq!(
        reader.head_at(size).expect("tree").root.hex(),
        home.audit().root,
        "by tiles as by every entry"
    );
}

/// Nothing in a run's proof can be left out, changed or moved.
#[test]
fn a_runs_proof_is_whole() {
    let home = three_epochs();
    let (reader, key) = (reader(&home), key(&home));
    let (run, seqs) = newest_run(&reader);
    assert_eq!(seqs.len(), 5);
    let good = reader.prove(Some(run.clone()), &seqs).expect("proof");
    assert_eq!(Evidence::read(&good.write().expect("file")).expect("read"), good);
    assert_eq!(good.check(&key).expect("holds").entries.len(), 5);
    let wrong = |what: &str, change: &dyn Fn(&mut Evidence)| {
        let mut evidence = good.clone();
        change(&mut evidence);
        assert!(evidence.check(&key).is_err(), "{what}");
    };
    wrong("no entry", &|e| e.items.clear());
    wrong("no request", &|e| drop(e.items.remove(0)));
    wrong("no reply", &|e| drop(e.items.pop()));
    wrong("two places changed", &|e| e.items.swap(1, 2));
    wrong("one twice", &|e| e.items.insert(1, e.items[1].clone()));
    wrong("another run's name", &|e| e.run = Some("run_x".to_owned()));
    wrong("another entry's path", &|e| e.items[1].path = e.items[2].path.clone());
    wrong("a longer path", &|e| e.items[1].path.push(crate::types::Digest::sha256(b"")));
    wrong("another payload", &|e| e.items[1].payload.as_mut().expect("payload").1.push(b' '));
    wrong("a seal left out", &|e| drop(e.seals.remove(0)));
    wrong("the last seal left out", &|e| drop(e.seals.pop()));
    wrong("another first key", &|e| e.first.clone_from(&key.to_string()));
    wrong("a checkpoint without valid signatures", &|e| {
        let note = Note::parse(&e.checkpoint).expect("note");
        let mut checkpoint = Checkpoint::parse(note.text()).expect("checkpoint");
        checkpoint.head.size += 1;
        e.checkpoint = e.checkpoint.replace(note.text(), &checkpoint.text());
    });
}

/// No bit of a proof file can be changed so that it proves something else.
#[test]
fn every_flipped_bit_of_a_proof_file_is_detected() {
    let home = LedgerHome::filled(2);
    let _receipts = home.open().append_blocking(call_drafts(1)).expect("appended");
    home.settle();
    let (reader, key) = (reader(&home), key(&home));
    let (run, seqs) = newest_run(&reader);
    for (evidence, most) in [
        (reader.prove(None, &seqs[..1]).expect("proof"), 40_000),
        (reader.prove(Some(run), &seqs).expect("proof"), 80_000),
    ] {
        let file = evidence.write().expect("file");
        let expected = format!("{:?}", evidence.check(&key).expect("holds").entries);
        let (mut seen, mut same) = (0, 0);
        for bit in (0..file.len() * 8).step_by(file.len() * 8 / most + 1) {
            let mut bytes = file.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let checked = String::from_utf8(bytes).ok();
            match checked.and_then(|file| Evidence::read(&file).ok()?.check(&key).ok()) {
                None => seen += 1,
                Some(proven) => {
                    assert_eq!(format!("{:?}", proven.entries), expected, "bit {bit} of {file}");
                    same += 1;
                }
            }
        }
        assert!(seen > 10_000 && same < 20, "{seen} seen, {same} the same");
    }
}
