//! Which claims about a path the gate accepts.

use super::{Bench, EVERYTHING, LOGS, absent, ended, found};
use crate::call::Object;
use crate::gate::Outcome;
use proptest::prelude::*;
use serde_json::json;
use std::path::Path;
use std::sync::atomic::Ordering;

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_believed_only_inside_the_roots() {
    let bench = tokio::task::block_in_place(|| Bench::open(EVERYTHING));
    let mut allowed = 0;
    for (object, expect) in [
        (found("/var/log/syslog", &[]), "allow"),
        (found("/var/log", &[]), "allow"),
        (absent("/var/log", "new/file"), "allow"),
        (absent("/var/log/", "new"), "allow"),
        (found("/etc/shadow", &[]), "deny"),
        (found("/var/logs/x", &[]), "deny"),
        (found("/var/lo", &[]), "deny"),
        (found("/", &[]), "deny"),
        (found("", &[]), "deny"),
        (found("var/log/x", &[]), "deny"),
        (found("/var/log/../../etc/shadow", &[]), "deny"),
        (found("/var/log/./syslog", &[]), "deny"),
        (found("/var/log//syslog", &[]), "deny"),
        (found("/var/log/syslog/", &[]), "deny"),
        (absent("/var/log", "../../etc/shadow"), "deny"),
        (absent("/var/log", "a/../b"), "deny"),
        (absent("/var/log", "a//b"), "deny"),
        (absent("/var/log", "/etc/shadow"), "deny"),
        (absent("/var/log", ""), "deny"),
        (absent("/var/log/..", "log/x"), "deny"),
        (absent("/etc", "shadow"), "deny"),
        (Object::Outside, "deny"),
        (Object::Fixed, "deny"),
    ] {
        let words = format!("{object:?}");
        match bench.commit(bench.read(object)).await {
            Outcome::Permit(permit) => {
                assert_eq!(expect, "allow", "{words}");
                allowed += 1;
                let (order, running) = (*permit).begin().expect("in time");
                drop(order);
                let settled = bench.gate.settle(vec![(running, ended(0))], None).await.expect("settled").0;
                assert_eq!(settled[0].record().status.as_str(), "ok");
            }
            Outcome::Refused(result) => {
                assert_eq!(expect, "deny", "{words}");
                assert_eq!(
                    (result.record().decision.as_str(), result.record().status.as_str()),
                    ("deny", "refused")
                );
                let told = &result.record().result["error"];
                if !words.starts_with("Fixed") {
                    assert_eq!(told, "not permitted or not found", "{words}");
                }
            }
            Outcome::Wait(_) => panic!("{words}"),
        }
    }
    assert_eq!(allowed, 4);
    assert_eq!(bench.released.load(Ordering::SeqCst), 23, "every child was released once");
    // And the reverse: a tool without a path gets one.
    for object in [found("/var/log/syslog", &[]), absent("/var/log", "x"), Object::Outside] {
        let outcome = bench.commit(bench.decide("health_check", &json!({}), object)).await;
        assert!(matches!(outcome, Outcome::Refused(_)));
    }
    let outcome = bench.commit(bench.decide("health_check", &json!({}), Object::Fixed)).await;
    assert!(matches!(outcome, Outcome::Permit(_)));
    drop(outcome);
    bench.verified();
}

/// Names that contain the object count only if prepare was asked about them.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_prepare_was_not_asked_about_permits_nothing() {
    let policies = "@id(\"srv\") permit(principal, action, resource in PAR::Path::\"/srv\");
        @id(\"space\") permit(principal, action, resource in PAR::Path::\"@workspace\");";
    let bench = tokio::task::block_in_place(|| Bench::open(policies));
    let allows = async |within: &[&str]| {
        let outcome = bench.commit(bench.read(found("/var/log/syslog", within))).await;
        matches!(outcome, Outcome::Permit(_))
    };
    assert!(allows(&["/srv"]).await, "a name that was asked about, such as a bind mount");
    assert!(allows(&["/srv", "/srv", "/srv"]).await, "reported more than once");
    assert!(allows(&["/nonexistent/workspace"]).await, "the folder of a name in [paths]");
    for claim in [&["@workspace"][..], &["/srv/"], &["/"], &["@srv"], &["/nonexistent"], &[]] {
        assert!(!allows(claim).await, "{claim:?}");
    }
}

proptest! {
    #![proptest_config(crate::types::laws::cases(200))]

    /// Whatever the sandbox claims, nothing outside the permitted folder is allowed.
    #[test]
    fn no_claim_leads_outside(names in prop::collection::vec(prop::sample::select(vec![
        "var", "log", "logs", "lo", "..", ".", "", "etc", "shadow", "\u{e1}", "a\u{301}", "l\u{43e}g", "@logs", "log ", "nonexistent", "workspace",
    ]), 0..6), split in 0_usize..6, is_absolute in prop::bool::weighted(0.9)) {
        thread_local!(static BENCH: Bench = Bench::open(LOGS));
        let path = format!("{}{}", if is_absolute { "/" } else { "" }, names.join("/"));
        let (folder, rest) = names.split_at(split.min(names.len()));
        let is_plain = is_absolute && names.iter().all(|name| !matches!(*name, "" | "." | ".."));
        let expect = is_plain && Path::new(&path).starts_with("/var/log");
        BENCH.with(|bench| {
            let word = |object: Object| {
                let decided = bench.read(object);
                decided.word.as_str()
            };
            prop_assert_eq!(word(found(&path, &[])) == "allow", expect, "{}", &path);
            // Absent below a folder: the same names, if the folder itself is inside.
            let folder = format!("/{}", folder.join("/"));
            if word(absent(&folder, &rest.join("/"))) == "allow" {
                prop_assert!(names.iter().all(|name| !matches!(*name, "." | "..")), "{} {:?}", &folder, rest);
                prop_assert!(Path::new(&folder).starts_with("/var/log"), "{}", &folder);
            }
            Ok(())
        })?;
    }
}
