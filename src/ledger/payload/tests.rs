//! Compares the structs with entries as each version wrote them, and with the page
//! of the format.

use super::*;
use crate::call::Given;
use crate::ledger::entry::{Body, Kind, Payload};
use crate::types::json::canonical;
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_json::{Map, Value, json};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Calls `$run::<P>($arguments)` with the struct of a kind. Does not compile if a kind has no
/// struct.
macro_rules! with_payload {
    ($kind:expr, $run:ident ( $($argument:expr),* )) => {
        match $kind {
            Kind::Genesis => $run::<GenesisPayload>($($argument),*),
            Kind::Start => $run::<StartPayload>($($argument),*),
            Kind::ConfigLoad => $run::<ConfigLoadPayload>($($argument),*),
            Kind::PolicyLoad => $run::<PolicyLoadPayload>($($argument),*),
            Kind::PolicyRefuse => $run::<PolicyRefusePayload>($($argument),*),
            Kind::ToolsLoad => $run::<ToolsLoadPayload>($($argument),*),
            Kind::KeyCreate => $run::<KeyCreatePayload>($($argument),*),
            Kind::KeyRevoke => $run::<KeyRevokePayload>($($argument),*),
            Kind::AuthRefused => $run::<AuthRefusedPayload>($($argument),*),
            Kind::RunRequest => $run::<RunRequestPayload>($($argument),*),
            Kind::ModelAsk => $run::<ModelAskPayload>($($argument),*),
            Kind::ModelReply => $run::<ModelReplyPayload>($($argument),*),
            Kind::ModelError => $run::<ModelErrorPayload>($($argument),*),
            Kind::ContextTrim => $run::<ContextTrimPayload>($($argument),*),
            Kind::CallDecision => $run::<CallDecisionPayload>($($argument),*),
            Kind::CallForecast => $run::<CallForecastPayload>($($argument),*),
            Kind::CallConnect => $run::<CallConnectPayload>($($argument),*),
            Kind::CallResult => $run::<CallResultPayload>($($argument),*),
            Kind::ApprovalRequest => $run::<ApprovalRequestPayload>($($argument),*),
            Kind::ApprovalGrant => $run::<ApprovalGrantPayload>($($argument),*),
            Kind::ApprovalRefuse => $run::<ApprovalRefusePayload>($($argument),*),
            Kind::RunCancel => $run::<RunCancelPayload>($($argument),*),
            Kind::RunReply => $run::<RunReplyPayload>($($argument),*),
            Kind::SessionEnd => $run::<SessionEndPayload>($($argument),*),
            Kind::HaltSet => $run::<HaltSetPayload>($($argument),*),
            Kind::HaltLift => $run::<HaltLiftPayload>($($argument),*),
            Kind::KeyEpoch => $run::<KeyEpochPayload>($($argument),*),
            Kind::Anchor => $run::<AnchorPayload>($($argument),*),
            Kind::Export => $run::<ExportPayload>($($argument),*),
            Kind::Redaction => $run::<RedactionPayload>($($argument),*),
            Kind::SegmentSeal => $run::<SegmentSealPayload>($($argument),*),
            Kind::PayloadDrop => $run::<PayloadDropPayload>($($argument),*),
            Kind::LedgerDamage => $run::<LedgerDamagePayload>($($argument),*),
            Kind::Recovery => $run::<RecoveryPayload>($($argument),*),
            Kind::Stop => $run::<StopPayload>($($argument),*),
        }
    };
}

fn kind_of<P: Payload>() -> Kind {
    P::KIND
}

/// The members of a struct, as its `Deserialize` asks for them.
fn members<'de, T: Deserialize<'de>>() -> BTreeSet<String> {
    struct Introspected<'a>(&'a Cell<&'static [&'static str]>);
    impl<'de> Deserializer<'de> for Introspected<'_> {
        type Error = de::value::Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(de::Error::custom("no struct"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Self::Error> {
            self.0.set(fields);
            Err(de::Error::custom("seen"))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }
    let fields = Cell::new(&[][..]);
    assert!(T::deserialize(Introspected(&fields)).is_err());
    assert!(!fields.get().is_empty(), "a struct has members");
    fields.get().iter().map(|name| (*name).to_owned()).collect()
}

fn members_of<P: Payload>() -> BTreeSet<String> {
    members::<P>()
}

/// Serializes a payload again after parsing it with its struct.
fn again<P: Payload>(payload: &Value) -> Result<Map<String, Value>, String> {
    let read: P = serde_json::from_value(payload.clone()).map_err(|e| format!("{e}: {payload}"))?;
    Ok(Body::from(read).members().clone())
}

/// Payloads of a kind, written by a binary of the commit before the structs. An erased one has no
/// body.
fn corpus(kind: Kind) -> Vec<(Map<String, Value>, Option<Value>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ledger/payload/tests/corpus");
    let path = folder.join(format!("{}.jsonl", kind.as_str()));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let entry = |line: &str| {
        let mut entry: Map<String, Value> = serde_json::from_str(line).expect("JSON");
        let Some(Value::Object(header)) = entry.remove("header") else { panic!("no header: {line}") };
        (header, entry.remove("payload").filter(|payload| !payload.is_null()))
    };
    text.lines().map(entry).collect()
}

#[test]
fn each_kind_has_its_struct() {
    for kind in Kind::ALL {
        assert_eq!(with_payload!(*kind, kind_of()), *kind);
    }
}

/// Each entry of the corpus is parsed by its struct, which writes the same bytes again.
#[test]
fn earlier_entries_are_read_and_written_unchanged() {
    for kind in Kind::ALL {
        let entries = corpus(*kind);
        let whole = entries.iter().filter_map(|(header, payload)| Some((header, payload.as_ref()?)));
        assert!(whole.clone().count() > 0, "`{}` is not in the corpus", kind.as_str());
        for (header, payload) in whole {
            assert_eq!(header["kind"], kind.as_str());
            let mut again =
                with_payload!(*kind, again(payload)).unwrap_or_else(|e| panic!("{}: {e}", kind.as_str()));
            again.insert("v".to_owned(), json!(1));
            let mut payload = payload.clone();
            if *kind == Kind::ModelReply {
                // The values of this one member have changed.
                payload["stop"] = again["stop"].clone();
            }
            let (again, payload) = (canonical(&Value::Object(again)), canonical(&payload));
            assert_eq!(again.expect("canonical"), payload.expect("canonical"), "{}", kind.as_str());
        }
    }
}

/// Members that came after the first version are in the corpus, as an entry has them.
#[test]
fn members_that_came_later_are_in_the_corpus() {
    for (kind, at) in [
        (Kind::CallDecision, "/header/taint"),
        (Kind::CallDecision, "/payload/nearest/why"),
        (Kind::CallDecision, "/payload/object/uid"),
        (Kind::CallResult, "/payload/mismatch"),
        (Kind::CallResult, "/payload/result/files_skipped_by/unreadable"),
        (Kind::ConfigLoad, "/payload/system"),
        (Kind::ToolsLoad, "/payload/tools/0/input"),
        (Kind::RunRequest, "/payload/system_sha256"),
        (Kind::RunRequest, "/payload/via"),
        (Kind::ModelReply, "/payload/sent/tools_policy"),
        (Kind::ModelError, "/payload/sent/tools_policy"),
        (Kind::RunRequest, "/payload/channel"),
        (Kind::RunRequest, "/header/runbook"),
        (Kind::RunRequest, "/payload/runbook/service"),
        (Kind::RunReply, "/payload/runbook"),
        (Kind::PolicyLoad, "/payload/runbooks/0/sha256"),
        (Kind::PolicyLoad, "/payload/difference/runbooks/changed/0"),
        (Kind::ApprovalRequest, "/payload/card"),
        (Kind::ApprovalRequest, "/payload/shown/taint/0"),
        (Kind::ApprovalGrant, "/payload/card"),
        (Kind::ApprovalRefuse, "/payload/card"),
        (Kind::RunReply, "/payload/said_by"),
        (Kind::RunRequest, "/payload/response_schema/schema"),
        (Kind::ModelReply, "/payload/unfit/repair"),
        (Kind::RunReply, "/payload/answer_json"),
        (Kind::RunReply, "/payload/response/unfit/keyword"),
        (Kind::RunReply, "/payload/stopped"),
        (Kind::RunReply, "/payload/steps/0/nearest/policy"),
        (Kind::RunReply, "/payload/steps/0/class"),
        (Kind::RunReply, "/payload/steps/1/refused/by"),
    ] {
        let entries =
            corpus(kind).into_iter().map(|(header, payload)| json!({ "header": header, "payload": payload }));
        assert!(entries.into_iter().any(|entry| entry.pointer(at).is_some()), "{kind:?} {at}");
    }
    for (kind, status) in [
        (Kind::CallDecision, "policy"),
        (Kind::CallDecision, "host"),
        (Kind::CallDecision, "schema"),
        (Kind::CallDecision, "person"),
        (Kind::CallDecision, "asked"),
        (Kind::ApprovalRefuse, "person"),
        (Kind::RunReply, "refused"),
    ] {
        let mut entries = corpus(kind).into_iter();
        assert!(
            entries.any(|(header, _)| header.get("status").and_then(Value::as_str) == Some(status)),
            "{kind:?} {status}"
        );
    }
}

/// Members that a later version adds are ignored.
#[test]
fn unknown_members_are_accepted() {
    for kind in Kind::ALL {
        for (_, payload) in corpus(*kind) {
            let Some(Value::Object(mut payload)) = payload else { continue };
            payload.insert("of_a_later_version".to_owned(), json!({ "x": [1] }));
            let again = with_payload!(*kind, again(&Value::Object(payload))).expect("taken");
            assert!(!again.contains_key("of_a_later_version"));
        }
    }
}

#[test]
fn each_spelling_of_a_stop_reason_is_read() {
    for (word, reason) in [
        ("EndTurn", StopReason::EndTurn),
        ("ToolCalls", StopReason::ToolCalls),
        ("Length", StopReason::Length),
        ("Refusal(\"not \\\"this\\\"\")", StopReason::Refusal),
        ("Other(\"stop_sequence\")", StopReason::Other),
        ("end_turn", StopReason::EndTurn),
        ("tool_calls", StopReason::ToolCalls),
        ("length", StopReason::Length),
        ("refusal", StopReason::Refusal),
        ("content_filter", StopReason::ContentFilter),
        ("empty", StopReason::Empty),
        ("truncated", StopReason::Truncated),
        ("cut", StopReason::Cut),
        ("other", StopReason::Other),
        ("a word of a later version", StopReason::Other),
    ] {
        assert_eq!(serde_json::from_value::<StopReason>(json!(word)).expect(word), reason, "{word}");
    }
    assert_eq!(json!(StopReason::ToolCalls), "tool_calls");
}

/// A cut payload does not parse as its kind, and is marked as cut.
#[test]
fn a_cut_payload_is_recognized() {
    let cut =
        json!({ "v": 1, "cut": true, "bytes": 5_000_000, "sha256": "0".repeat(64), "head": "{" }).to_string();
    assert_eq!(CutPayload::read(cut.as_bytes()).map(|cut| cut.bytes), Some(5_000_000));
    assert_eq!(CutPayload::read(br#"{"v":1,"command":"serve","program":"0"}"#), None);
}

/// The page's table of members for each kind: the name, and whether it may be absent.
fn documented() -> BTreeMap<String, BTreeMap<String, bool>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ledger-format.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, page) = page.split_once("\n## Kinds and their payloads\n").expect("the chapter");
    let (page, _) = page.split_once("\n## ").expect("the next chapter");
    let mut kinds = BTreeMap::new();
    for part in page.split("\n### `").skip(1) {
        let (kind, rest) = part.split_once("`\n").expect("a kind");
        let rows = rest.lines().filter_map(|line| line.strip_prefix("| `"));
        let member = |row: &str| {
            let (name, rest) = row.split_once('`').expect("a member");
            (name.to_owned(), rest.starts_with('?'))
        };
        assert!(
            kinds.insert(kind.to_owned(), rows.map(member).collect()).is_none(),
            "`{kind}` appears twice"
        );
    }
    kinds
}

/// Whether a member is optional: parsing works without it and does not add it.
fn is_optional<P: Payload>(payload: &Value, member: &str) -> bool {
    let mut without = payload.clone();
    without.as_object_mut().expect("an object").remove(member);
    again::<P>(&without).is_ok_and(|again| !again.contains_key(member))
}

/// The paths and names of the nested members in the structs of a kind.
fn nested(kind: Kind) -> Vec<(&'static str, BTreeSet<String>)> {
    let power = || ("power", members::<PowerUsed>());
    match kind {
        Kind::Genesis => {
            vec![("before", members::<PreviousLog>()), ("before.files[]", members::<SetAsideFile>())]
        }
        Kind::ConfigLoad => vec![("keys[]", members::<ConfigValue>())],
        Kind::PolicyLoad => vec![
            ("policies[]", members::<LoadedPolicy>()),
            ("difference", members::<RulesDifference>()),
            ("difference.policies", members::<NameChanges>()),
            ("difference.tools", members::<NameChanges>()),
            ("difference.runbooks", members::<NameChanges>()),
            ("runbooks[]", members::<LoadedRunbook>()),
            power(),
        ],
        Kind::ToolsLoad => vec![
            ("tools[]", members::<LoadedTool>()),
            ("tools[].script", members::<LoadedScript>()),
            ("skipped_roots[]", members::<SkippedFolder>()),
            ("refused[]", members::<ToolRefusal>()),
            ("programs[]", members::<LoadedProgram>()),
            ("mounted[]", members::<MountNamed>()),
            power(),
        ],
        Kind::KeyCreate => vec![("before", members::<KeyBefore>()), power()],
        Kind::KeyRevoke
        | Kind::ApprovalGrant
        | Kind::ApprovalRefuse
        | Kind::RunCancel
        | Kind::SessionEnd
        | Kind::HaltSet
        | Kind::HaltLift
        | Kind::Export
        | Kind::Redaction => vec![power()],
        Kind::ModelAsk => vec![("shadow", members::<ShadowDecision>())],
        Kind::CallForecast => vec![("script", members::<LoadedScript>())],
        Kind::ModelError => vec![("sent", members::<SentForm>())],
        Kind::CallDecision => vec![
            ("beneath[]", members::<BeneathDecision>()),
            ("exclusions[]", members::<Excluded>()),
            ("script", members::<LoadedScript>()),
            ("shadow", members::<ShadowDecision>()),
            ("nearest", members::<NearestRule>()),
        ],
        Kind::CallResult => vec![
            ("connections", members::<ConnectionsMade>()),
            ("connections.told[]", members::<ConnectionTried>()),
            ("given", members::<Given>()),
        ],
        Kind::ApprovalRequest => vec![
            ("resource", members::<ApprovalSubject>()),
            ("resource.exclusions[]", members::<Excluded>()),
            ("why[]", members::<AskingPolicy>()),
            ("requester", members::<RequestedBy>()),
            ("tainted_by[]", members::<TaintingResult>()),
            ("shown", members::<ShownCall>()),
            ("shown.script", members::<ShownScript>()),
            ("shown.sandbox", members::<ShownSandbox>()),
            ("shown.taint[]", members::<TaintRange>()),
        ],
        _ => nested_of_runs(kind),
    }
}

fn nested_of_runs(kind: Kind) -> Vec<(&'static str, BTreeSet<String>)> {
    match kind {
        Kind::RunRequest => vec![
            ("runbook", members::<RequestedRunbook>()),
            ("response_schema", members::<RequestedSchema>()),
        ],
        Kind::ModelReply => vec![
            ("calls[]", members::<CallProposed>()),
            ("parts[]", members::<RepliedPart>()),
            ("parts[].opaque", members::<RepliedState>()),
            ("sent", members::<SentForm>()),
            ("unfit", members::<UnfitAnswer>()),
        ],
        Kind::RunReply => vec![
            ("steps[]", members::<Step>()),
            ("steps[].ledger", members::<StepLedger>()),
            ("steps[].refused", members::<StepRefusal>()),
            ("steps[].nearest", members::<NearestRule>()),
            ("usage", members::<Usage>()),
            ("response", members::<HeldResponse>()),
        ],
        _ => Vec::new(),
    }
}

/// The page names each member of each struct, no others, and which may be absent.
#[test]
fn the_page_has_the_members_of_the_structs() {
    let mut page = documented();
    for kind in Kind::ALL {
        let word = kind.as_str();
        let table = page.remove(word).unwrap_or_else(|| panic!("the page has no table of `{word}`"));
        let top = with_payload!(*kind, members_of());
        let inner = nested(*kind);
        let below = inner.iter().flat_map(|(at, names)| names.iter().map(move |name| format!("{at}.{name}")));
        let all: BTreeSet<String> = top.iter().cloned().chain(below).collect();
        let on_page: BTreeSet<String> = table.keys().cloned().collect();
        assert_eq!(on_page, all, "the page (left) and the structs of `{word}`");
        for payload in corpus(*kind).into_iter().filter_map(|(_, payload)| payload) {
            for member in payload.as_object().expect("an object").keys().filter(|name| *name != "v") {
                assert!(top.contains(member), "`{member}` of `{word}` has no struct");
                let may_lack = with_payload!(*kind, is_optional(&payload, member));
                assert_eq!(
                    table[member], may_lack,
                    "whether `{member}` of `{word}` may be absent, by the page (left)"
                );
            }
        }
    }
    assert!(page.is_empty(), "tables of unknown kinds: {:?}", page.keys());
}

/// The page lists for each kind whether a redaction and age may take its payload.
#[test]
fn the_page_says_which_payloads_can_go() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ledger-format.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, rows) = page.split_once("| kind | redaction | age |\n|---|---|---|\n").expect("the table");
    let rows: Vec<&str> = rows.lines().take_while(|line| line.starts_with('|')).collect();
    let may = |may: bool| if may { "yes" } else { "no" };
    let row = |kind: &Kind| {
        format!("| `{}` | {} | {} |", kind.as_str(), may(kind.is_redactable()), may(kind.is_expirable()))
    };
    assert_eq!(rows, Kind::ALL.iter().map(row).collect::<Vec<_>>());
}
