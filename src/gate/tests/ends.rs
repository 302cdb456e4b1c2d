//! What the ledger records for each way that a permitted call can end.

use super::{Bench, LOGS, ended, found};
use crate::call::{Connection, Connections, End, Execution, Given};
use crate::gate::{Lapse, Outcome, Recall};
use crate::ledger::{Draft, Kind};
use crate::secrets::{Finder, Named};
use serde_json::json;
use std::sync::atomic::Ordering;

#[tokio::test(flavor = "multi_thread")]
async fn every_end_is_on_the_ledger_in_its_order() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let calls = ["/var/log/a", "/etc/shadow", "/var/log/b", "/var/log/c"];
    let decided = calls.iter().map(|path| bench.read(found(path, &[]))).collect();
    let before = vec![Draft::untyped(Kind::ModelReply, json!({}))];
    let outcomes = bench.gate.commit(before, decided, None).await.expect("committed").0;
    let mut running = Vec::new();
    for (at, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Outcome::Permit(permit) => {
                let (order, slip) = permit.begin().expect("in time");
                assert_eq!(order.decision(), at as u64 + 2);
                running.push(slip);
            }
            Outcome::Refused(result) => assert_eq!((at, result.seq()), (1, 3)),
            Outcome::Wait(_) => panic!("no person is asked"),
        }
    }
    assert_eq!(bench.open_calls(), 3);
    // Settled in another order than decided: each result refers to its own decision.
    running.reverse();
    let ends = [End::Timeout, End::Exit { code: 3 }, End::Signal { signal: 9 }];
    let ran =
        running.into_iter().zip(ends).map(|(slip, end)| (slip, Execution { end, ..ended(0) })).collect();
    let results = bench.gate.settle(ran, None).await.expect("settled").0;
    let told: Vec<_> =
        results.iter().map(|r| (r.seq(), r.record().decision_seq, r.record().status.as_str())).collect();
    assert_eq!(told, [(6, 5, "timeout"), (7, 4, "error"), (8, 2, "signal")]);
    assert_eq!(
        bench.told(),
        [
            "model.reply",
            "call.decision allow",
            "call.decision deny policy",
            "call.decision allow",
            "call.decision allow",
            "call.result timeout of 5",
            "call.result error of 4",
            "call.result signal of 2"
        ]
    );
    assert_eq!(bench.open_calls(), 0);
    let object = &bench.payload(2)["object"];
    assert_eq!(object["ino"], u64::MAX.to_string(), "device and inode are kept as text");
    bench.verified();
}

/// Times and sizes that a launcher could make up do not keep the result off the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn a_made_up_execution_is_recorded_all_the_same() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    for (stdout, code) in [
        (b"{\"n\":0.5}".to_vec(), 0),
        (b"{\"n\":9007199254740993}".to_vec(), i32::MAX),
        (b"{\"a\":1,\"a\":2}".to_vec(), i32::MIN),
        (vec![0xff, 0xfe, 0], 0),
        ("[".repeat(5_000).into_bytes(), 0),
        (vec![b'x'; 5 << 20], 1),
    ] {
        let (order, running) = bench.permit().await.begin().expect("in time");
        drop(order);
        let execution = Execution {
            end: End::Exit { code },
            stdout,
            stderr: vec![0x1b; 100],
            layers: vec!["\u{202e}".to_owned(); 10],
            level: Some(crate::types::Level::Strict),
            protections: [("files".to_owned(), vec!["\u{202e}".to_owned()])].into(),
            connections: Connections {
                told: vec![Connection { to: "\u{1b}[2J".to_owned(), ..Connection::default() }; 64],
                more: 7,
                bytes: 7,
            },
            given: Given { secrets: vec!["\u{202e}".to_owned()], ..Given::default() },
            repeats: crate::types::DataLabels::default(),
            wall_us: u64::MAX,
        };
        let settled = bench.gate.settle(vec![(running, execution)], None).await.expect("settled").0;
        assert_eq!(settled.len(), 1);
    }
    assert_eq!(bench.open_calls(), 0);
    bench.verified();
}

/// A reload while a call runs exchanges the known secrets; the call may print those that it was
/// given before.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_a_secret_when_a_call_began_is_replaced_too() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let knows = |value: &str| {
        let named = Named::new("word", value.as_bytes().to_vec().into()).expect("a secret");
        bench
            .gate
            .secrets()
            .exchange(Finder::new(vec![7; 32].into(), vec![named], Vec::new()).expect("a finder"));
    };
    knows("old-password");
    let (order, running) = bench.permit().await.begin().expect("in time");
    knows("new-password");
    drop(order);
    let stdout = b"old-password, new-password".to_vec();
    let execution = Execution { stdout, ..Execution::without_output(End::Exit { code: 0 }) };
    let settled = bench.gate.settle(vec![(running, execution)], None).await.expect("settled").0;
    let told = settled[0].record().result.to_string();
    assert!(!told.contains("password") && told.matches("[secret:word:").count() == 2, "{told}");
    bench.verified();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_is_recorded_as_interrupted() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    drop(bench.permit().await);
    tokio::task::block_in_place(|| bench.wait_for(3));
    let (order, running) = bench.permit().await.begin().expect("in time");
    drop(order);
    drop(running);
    tokio::task::block_in_place(|| bench.wait_for(6));
    let told = ["call.decision allow", "call.result interrupted of 1", "stop", "call.decision allow"];
    assert_eq!(bench.told()[..4], told);
    assert_eq!(bench.told()[4], "call.result interrupted of 4");
    assert_eq!(bench.payload(2)["result"]["error"], "interrupted, outcome unknown");
    assert_eq!((bench.open_calls(), bench.released.load(Ordering::SeqCst)), (0, 2));
    bench.verified();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_does_not_outlive_its_time() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let permit = bench.permit().await;
    let permit = permit.expired();
    let Err((running, lapse)) = permit.begin() else { panic!("an order came out") };
    assert_eq!((&lapse, lapse.to_string().as_str()), (&Lapse::Expired, "the permit had expired"));
    assert_eq!(bench.released.load(Ordering::SeqCst), 1, "the waiting child is let go of");
    let late = Execution::without_output(End::Refused { reason: lapse.to_string() });
    let results = bench.gate.settle(vec![(running, late)], None).await.expect("settled").0;
    assert_eq!(
        (results[0].record().status.as_str(), results[0].record().decision.as_str()),
        ("refused", "allow")
    );
    assert_eq!(bench.told(), ["call.decision allow", "call.result refused of 1"]);
}

/// What the model reads of a call is the same, byte for byte, when it is read back: a run that
/// resumes makes the requests that it made.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_read_back_has_the_same_bytes() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let out = |stdout: &str, end: End| Execution {
        stdout: stdout.into(),
        stderr: b"\x1b[2Joops".to_vec(),
        ..Execution::without_output(end)
    };
    let exit = |code| End::Exit { code };
    let mut texts = Vec::new();
    for execution in [
        out(
            "{\"verdict\":\"ok\",\"checks\":[{\"name\":\"\u{e9}\",\"detail\":1}],\"\u{e9}\":0,\"\u{1f600}\":1}",
            exit(0),
        ),
        out("{\"z\":1,\"error\":\"e\",\"truncated\":true}", exit(0)),
        out("no object", exit(0)),
        out("{\"z\":1,\"a\":2}", exit(3)),
        out("{\"z\":1", End::OutputCap),
        out("", End::Refused { reason: "not \u{202e} now".to_owned() }),
        out("part", End::Timeout),
        out("", End::Interrupted),
    ] {
        let (order, running) = bench.permit().await.begin().expect("in time");
        drop(order);
        let mut told = bench.gate.settle(vec![(running, execution)], None).await.expect("settled").0;
        texts.push(told.pop().expect("one").text());
    }
    for path in ["/etc/shadow", "/srv/x"] {
        let Outcome::Refused(refused) = bench.commit(bench.read(found(path, &[]))).await else {
            panic!("it is not permitted")
        };
        texts.push(refused.text());
    }
    let seqs: Vec<u64> = (1..bench.gate.ledger().head().size).collect();
    let recalled = bench.gate.recall(&bench.run, &seqs).expect("recalled").into_iter();
    let again: Vec<String> = recalled
        .map(|call| match call.recall {
            Recall::Settled(result) => result.text(),
            other => panic!("it is settled: {other:?}"),
        })
        .collect();
    assert_eq!(again, texts);
}
