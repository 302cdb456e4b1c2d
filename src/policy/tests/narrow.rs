//! A session with fewer tools in its ceiling is never allowed more.

use super::slices::{PolicyRequest, asked, bundle};
use super::{arguments, catalog};
use crate::policy::{Approved, Bundle, Counts, Question, Ruling, Session};
use proptest::prelude::*;
use serde_json::json;

fn answer(bundle: &Bundle, asked: &PolicyRequest, session: &Session) -> Ruling {
    let arguments = match asked.tool {
        "deploy" => json!({ "project": "demo", "version": "1.0.0" }),
        tool => arguments(tool, "/x"),
    };
    let approved = asked.approver.map_or(Approved::No, |by| Approved::Approved { by: Some(by) });
    let question = Question {
        subject: &asked.who,
        session,
        manifest: catalog().find(asked.tool).expect("tool"),
        arguments: &arguments,
        resource: &asked.resource,
        approved,
        now_us: 1_700_000_000_123_456,
        source_ip: asked.source_ip,
        channel: crate::types::Channel::Http,
        counts: Counts::default(),
        origins: None,
        is_chosen: false,
        is_halted: false,
    };
    bundle.decide(&question).answer
}

/// How much an answer allows.
fn rank(answer: &Ruling) -> u8 {
    match answer {
        Ruling::Deny { .. } => 0,
        Ruling::NeedsApproval { .. } => 1,
        Ruling::Allow { .. } => 2,
    }
}

proptest! {
    #![proptest_config(crate::types::laws::cases(32))]

    #[test]
    fn a_lower_ceiling_never_gives_more(
        picked in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
        questions in prop::collection::vec(asked(), 30),
        left in prop::sample::subsequence(vec!["read_file", "list_dir", "tail_file", "health_check", "deploy"], 0..=5),
    ) {
        let bundle = bundle(&picked);
        for asked in &questions {
            let whole = &asked.session;
            let ceiling = whole.ceiling.iter().filter(|tool| left.contains(&tool.as_str())).cloned().collect();
            let part = Session { ceiling, budget: whole.budget / 2, ..whole.clone() };
            let (all, some) = (answer(&bundle, asked, whole), answer(&bundle, asked, &part));
            prop_assert!(rank(&some) <= rank(&all), "{asked:?}: {all:?}, with {left:?} {some:?}");
            if !part.ceiling.contains(asked.tool) {
                prop_assert_eq!(rank(&some), 0, "{:?}: {:?}", asked, some);
            }
            for manifest in catalog().manifests().filter(|m| bundle.may_offer(&asked.who, &part, m)) {
                prop_assert!(bundle.may_offer(&asked.who, whole, manifest));
            }
        }
    }
}
