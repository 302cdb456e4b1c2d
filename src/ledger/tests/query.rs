//! Laws of the query grammar, over random queries and entries.

use crate::ledger::entry::{Stamp, Written, seal};
use crate::ledger::{Draft, Filter, Header, Kind};
use crate::types::{Digest, RunId};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

pub(super) const NOW_US: i64 = 1_790_000_000_000_000;

pub(super) const KINDS: [Kind; 5] =
    [Kind::RunRequest, Kind::ModelReply, Kind::CallDecision, Kind::CallResult, Kind::KeyCreate];
pub(super) const TOOLS: [&str; 4] = ["read_file", "read file", "list_dir", "a*b"];
pub(super) const WORDS: [&str; 6] = ["nginx", "connection", "refused", "Nginx,", "connections", "9f"];

/// A draft with few kinds and words, so that queries match some.
pub(super) fn drafts() -> impl Strategy<Value = Draft> {
    let text = vec(select(&WORDS), 0..4);
    (select(&KINDS), option::of(select(&TOOLS)), option::of(0_u8..3), any::<bool>(), text).prop_map(
        |(kind, tool, key, is_run, text)| {
            let decision = (kind == Kind::CallDecision).then_some("deny");
            // The id of the run is the same in each.
            let run = is_run.then(|| RunId::parse("run_01JD5W8Z9X6T4Q2V7B3N1M0KCE").expect("an id"));
            Draft {
                tool: tool.map(str::to_owned),
                principal: key.map(|key| format!("key:ops{key}")),
                decision,
                run,
                // A key's name can be in use only once.
                ..Draft::untyped(
                    kind,
                    json!({
                        "message": text.join(" "), "deep": [{ "n": 502 }], "id": RunId::generate().as_str(),
                        "name": RunId::generate().as_str(),
                    }),
                )
            }
        },
    )
}

/// A term of the grammar, as a person may type it.
pub(super) fn typed() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        select(vec![
            "kind:model.*",
            "kind:call.decision",
            "kind:call.*",
            "tool:read_file",
            "tool:\"read file\""
        ]),
        select(vec!["tool:*", "tool:\"a*\"*", "key:ops1", "principal:key:ops*", "decision:deny", "policy:*"]),
        select(vec!["run:run_01JD5W8Z9X6T4Q2V7B3N1M0KCE", "status:ok", "run:run_*"]),
    ];
    let text = select(vec!["nginx", "conn*", "\"connection refused\"", "502", "\"a:b\"", "9F"]);
    let seq = (0_u64..40, 0_u64..40).prop_map(|(a, b)| format!("seq:{}-{}", a.min(b), a.max(b)));
    let time = (any::<bool>(), -50_i64..50).prop_map(|(is_since, s)| {
        let at = jiff::Timestamp::from_microsecond(NOW_US + s * 1_000_000).expect("a time");
        format!("{}:{at}", if is_since { "since" } else { "until" })
    });
    let word = prop_oneof![4 => field.prop_map(str::to_owned), 3 => text.prop_map(str::to_owned), 1 => seq, 1 => time];
    (prop::bool::weighted(0.3), word)
        .prop_map(|(turned, word)| if turned { format!("-{word}") } else { word })
}

fn sealed(draft: &Draft, at: u64) -> (Header, Vec<u8>) {
    let wall_us = u64::try_from(NOW_US).expect("after 1970") + at * 1_000_000 - 20_000_000;
    let stamp = Stamp {
        log: "00",
        seq: at,
        prev: Some(Digest([0; 32])),
        wall_us,
        mono_us: 0,
        boot: "b",
        first_seq: 0,
    };
    let written = Written::salted(draft.clone(), [0; 32]).expect("written");
    (seal(&written, &stamp).expect("sealed").header, written.body)
}

fn meets(query: &str, (header, body): &(Header, Vec<u8>)) -> bool {
    let filter = Filter::parse_at(query, NOW_US).expect("a query");
    filter.matches(header) && filter.matches_text(header, Some(body))
}

fn turned(word: &str) -> String {
    word.strip_prefix('-').map_or_else(|| format!("-{word}"), str::to_owned)
}

proptest! {
    #![proptest_config(crate::types::laws::cases(256))]

    /// A printed query is parsed as the same query, and printed the same.
    #[test]
    fn printed_and_read_again_it_is_the_same(words in vec(typed(), 0..6)) {
        let filter = Filter::parse_at(&words.join(" "), NOW_US).expect("a query");
        let again = Filter::parse_at(&filter.to_string(), 0).expect("printed");
        prop_assert_eq!(&again, &filter);
        prop_assert_eq!(again.to_string(), filter.to_string());
    }

    /// Whatever is typed is parsed or refused; a parsed query is printed so that it can be parsed
    /// again.
    #[test]
    fn no_typed_query_breaks_the_parser(query in r#"([a-z]{0,6}:?)?[-"*:\\ a-z0-9T.ä]{0,12}( [-"*:\\a-z0-9]{0,8}){0,3}"#) {
        if let Ok(filter) = Filter::parse_at(&query, NOW_US) {
            prop_assert_eq!(Filter::parse_at(&filter.to_string(), NOW_US).expect("printed"), filter);
        }
    }

    /// A term and its negation split the entries that match the rest of a query. A query of one
    /// field with every term negated matches exactly the entries that the original does not.
    #[test]
    fn negated_is_the_complement(
        draft in drafts(), at in 0_u64..40, word in typed(), rest in vec(typed(), 0..3),
        field in select(vec!["run", "tool", "key"]), values in vec(select(vec!["call.*", "read_file", "ops1", "a*"]), 1..4),
    ) {
        let entry = sealed(&draft, at);
        prop_assert_ne!(meets(&word, &entry), meets(&turned(&word), &entry), "{}", word);
        // Without a term for the same field: one match among those would be enough.
        let alone = |other: &String| other.split(':').next() != word.split(':').next() || other.starts_with('-');
        let rest: Vec<&String> = rest.iter().filter(|other| alone(other)).collect();
        let rest = rest.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        if meets(&rest, &entry) && !word.starts_with('-') {
            let both = [word.clone(), turned(&word)].map(|word| meets(&format!("{rest} {word}"), &entry));
            prop_assert_ne!(both[0], both[1], "{} with {}", rest, word);
        }
        let words: Vec<String> = values.iter().map(|value| format!("{field}:{value}")).collect();
        let negated: Vec<String> = words.iter().map(|word| turned(word)).collect();
        prop_assert_ne!(meets(&words.join(" "), &entry), meets(&negated.join(" "), &entry));
    }
}

#[test]
fn a_payload_that_may_not_be_shown_has_no_words() {
    let draft = Draft::untyped(Kind::KeyCreate, json!({ "argon2": "nginx" }));
    assert!(!meets("nginx", &sealed(&draft, 0)));
    assert!(meets("-nginx", &sealed(&draft, 0)));
    let (header, _) = sealed(&Draft::untyped(Kind::RunRequest, json!({ "message": "nginx" })), 0);
    let erased = Filter::parse("nginx").expect("a query");
    assert!(!erased.matches_text(&header, None));
}
