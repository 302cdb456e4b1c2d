//! Policies in shadow mode, the digest, and bundles rebuilt from their archive.

use super::{
    ERRS, PERMIT_ALL, ask, catalog, groups, host, load, names, session, shipped, source, subject, try_load,
};
use crate::auth::Role;
use crate::policy::{Bundle, Labels, SourceFile, Suite};
use crate::tools::Catalog;
use serde_json::{Value, json};

/// A shadow permit permits nothing, a shadow forbid forbids nothing, and an error in either denies
/// nothing; each is reported only if it would have changed the decision.
#[test]
fn a_policy_in_shadow_mode_is_only_reported() {
    let check = |policies: &str, answer: (&str, &str), beside: Option<(&str, &str, usize)>| {
        let bundle = load(policies);
        let verdict = ask(&bundle, &subject(Role::Operator), &session(catalog()), "health_check", &host());
        assert_eq!(
            (verdict.answer.word(), verdict.answer.policies().join(" ").as_str()),
            answer,
            "{policies}"
        );
        let told = verdict.shadow.map(|s| (s.decision.as_str(), s.policies.join(" "), s.errors.len()));
        assert_eq!(told, beside.map(|(word, by, n)| (word, by.to_owned(), n)), "{policies}");
        let named: Vec<&str> = bundle.in_shadow().collect();
        assert_eq!(named.len(), policies.matches("@mode").count(), "{named:?}");
        assert!(named.iter().all(|id| bundle.text(id).is_some_and(|text| text.contains("@mode"))));
    };
    let shadow = |rest: &str| format!("@id(\"s\") @mode(\"shadow\") {rest}\n");
    let health = "principal, action == PAR::Action::\"health_check\", resource";
    let forbid = shadow(&format!("forbid({health});"));
    let permit = shadow(&format!("permit({health});"));
    let errs = shadow(&format!("forbid({health}) when {{ {ERRS} }};"));
    let asks = |id: &str, group: &str, more: &str| {
        format!(
            "@id(\"{id}\") @require_approval(\"{group}\") {more} forbid({health}) \
             unless {{ context.call.approved == \"approved\" }};"
        )
    };
    check(&format!("{PERMIT_ALL}{forbid}"), ("allow", "all"), Some(("deny", "s", 0)));
    check(&permit, ("deny", ""), Some(("allow", "s", 0)));
    check(&format!("{PERMIT_ALL}{errs}"), ("allow", "all"), Some(("deny", "", 1)));
    check(&errs, ("deny", ""), Some(("deny", "", 1)));
    // A rule that would not change the decision is not reported.
    check(&format!("{PERMIT_ALL}{permit}"), ("allow", "all"), None);
    check(&forbid, ("deny", ""), None);
    // A shadow `forbid` with an approval asks no person; one that asks other groups is reported.
    let gate = asks("s", "night", "@mode(\"shadow\")");
    check(&format!("{PERMIT_ALL}{gate}"), ("allow", "all"), Some(("needs_approval", "s", 0)));
    let both = format!("{PERMIT_ALL}{}{gate}", asks("g", "day", ""));
    check(&both, ("needs_approval", "g"), Some(("needs_approval", "g s", 0)));
    // A shadow permit does not make an approval count, and offers no tool.
    check(&format!("{permit}{}", asks("g", "day", "")), ("deny", ""), Some(("needs_approval", "g", 0)));
    let manifest = catalog().find("health_check").expect("tool");
    assert!(!load(&permit).may_offer(&subject(Role::Operator), &session(catalog()), manifest));
    assert!(load(PERMIT_ALL).may_offer(&subject(Role::Operator), &session(catalog()), manifest));
}

#[test]
fn an_unknown_mode_is_refused() {
    for mode in ["@mode(\"shado\")", "@mode(\"Shadow\")", "@mode(\"\")", "@mode", "@mode(\"enforce\")"] {
        let errors = try_load(&format!("@id(\"a\")\n{mode}\n{PERMIT_ALL}").replace("@id(\"all\") ", ""));
        let told = errors.expect_err(mode)[0].to_string();
        assert!(told.starts_with("p.cedar:2: unknown mode `@mode("), "{told}");
    }
}

/// The archive of a bundle rebuilds the same bundle, and nothing that differs from it passes for
/// it.
#[test]
fn a_bundle_is_rebuilt_from_its_archive() {
    let sources = [
        shipped(),
        vec![source(
            "policies/50.cedar",
            "@id(\"x\") @mode(\"shadow\") forbid(principal, action, resource);",
        )],
    ];
    let entities = source("policies/entities.toml", "[project.demo]\nlabels = [\"secret\"]\n");
    let labels = Labels::parse(&entities, &names()).expect("labels");
    let bundle = Bundle::load(&sources.concat(), catalog(), &names()).expect("bundle");
    let tests = source("policies/tests/a.toml", "");
    let suite = Suite::parse(&[tests]).expect("tests");
    let bundle = bundle.with_labels(labels).expect("labels").with_suite(suite).with_groups(groups());
    let (kept, digest) = (bundle.archive(), bundle.digest());
    let again = Bundle::rebuild(kept.as_bytes(), digest).expect("rebuilt");
    assert_eq!((again.digest(), again.archive()), (digest, kept.clone()));
    assert_eq!(again.set, bundle.set);
    let with_shadow = |bundle: &Bundle| bundle.with_shadow.as_ref().map(|(set, _)| set.clone());
    assert!(with_shadow(&again).is_some() && with_shadow(&again) == with_shadow(&bundle));
    assert_eq!(again.groups(), bundle.groups());
    assert_eq!(again.other_engine(), None);
    let refused = |text: &str| Bundle::rebuild(text.as_bytes(), digest).expect_err("taken");
    let value: Value = serde_json::from_str(&kept).expect("JSON");
    for (place, new) in [
        ("/t", json!("par/bundle/1")),
        ("/t", json!("par/bundle/3")),
        ("/built_in", json!(null)),
        ("/built_in/par.outside", json!("permit(principal, action, resource);")),
        (
            "/policies/0/text",
            json!("@id(\"a\") permit(principal, action in PAR::Action::\"read\", resource);"),
        ),
        ("/policies/0/name", json!("policies/11-read.cedar")),
        ("/policies", json!([])),
        ("/policies/1", value["policies"][0].clone()),
        ("/base", json!("namespace PAR {}")),
        ("/schema", json!("{}")),
        ("/engine", json!("0.0.0")),
        ("/lines", json!("")),
        ("/groups", json!({ "night": ["ann"] })),
        ("/groups", json!(null)),
        ("/entities", json!(null)),
        ("/entities", json!("0".repeat(64))),
        ("/entities", json!("none")),
        ("/tests", json!({})),
        ("/tests", json!({ "policies/tests/a.toml": "none" })),
    ] {
        let mut changed = value.clone();
        *changed.pointer_mut(place).expect(place) = new;
        refused(&changed.to_string());
    }
    // Another line, for a file that does not count, changes the digest.
    let mut more = value.clone();
    more["lines"] =
        json!(format!("{}tools.d/zz {}\n", value["lines"].as_str().expect("lines"), "0".repeat(64)));
    assert!(refused(&more.to_string()).to_string().contains("its content has the digest"));
    refused(kept.split_at(kept.len() / 2).0);
    refused("");
}

#[test]
fn the_digest_names_policies_tools_and_their_files() {
    let all = catalog();
    let digest = |sources: &[SourceFile]| Bundle::load(sources, all, &names()).expect("bundle").digest();
    let shipped = shipped();
    let reversed: Vec<SourceFile> = shipped.iter().rev().cloned().collect();
    assert_eq!(digest(&shipped), digest(&reversed), "the order of reading does not count");
    assert_ne!(digest(&shipped), digest(&shipped[..1]));
    let mut changed = shipped.clone();
    changed[0].text.push('\n');
    assert_ne!(digest(&shipped), digest(&changed));
    let mut renamed = shipped.clone();
    renamed[0].name = "policies/11-read.cedar".to_owned();
    assert_ne!(digest(&shipped), digest(&renamed));
    assert_ne!(digest(&[]), Bundle::load(&[], &Catalog::default(), &names()).expect("bundle").digest());
}
