//! A run rebuilt from its entries makes the requests that it made, byte for byte.

use super::history;
use super::rebuild::{RebuiltRequest, rebuilt};
use super::sent::{SentRequests, system_prompt};
use super::trail::{calls, entries};
use crate::agent::run::RecalledRun;
use crate::agent::shared::Agent;
use crate::agent::{HeldStatus, RunReply, RunRequest, RunStatus};
use crate::auth::fixture::Fixture;
use crate::ledger::payload::{
    ConfigLoadPayload, ContextTrimPayload, ModelErrorPayload, ModelReplyPayload, SentForm, TrimReason,
};
use crate::ledger::{Draft, Header, Kind, Projection};
use crate::llm::{ProviderKind, Settings, build_all};
use crate::policy::Door;
use crate::types::{Digest, laws};
use proptest::prelude::*;
use serde_json::json;
use served::{ModelRound, WireServer};

mod served;

static PROJECTIONS: [Projection; 3] =
    [crate::auth::PROJECTION, crate::gate::PROJECTION, crate::agent::PROJECTION];
const WIRES: [ProviderKind; 5] = [
    ProviderKind::OpenAi,
    ProviderKind::OpenAiResponses,
    ProviderKind::Anthropic,
    ProviderKind::Gemini,
    ProviderKind::Ollama,
];

/// A home whose ledger has what a start records.
async fn home() -> (Fixture, Agent) {
    let home = Fixture::open_with(&PROJECTIONS).await;
    let policies = ["policies/00-api.cedar", "policies/05-models.cedar", "policies/10-read.cedar"];
    let agent = Agent::over(home.ledger.clone(), &policies);
    let mut drafts = vec![Draft::new(ConfigLoadPayload {
        keys: Vec::new(),
        system: Some(crate::agent::SYSTEM.to_owned()),
    })];
    drafts.extend(crate::rules::load_drafts(&agent.gate().rules(), &crate::launcher::Report::default()));
    let _receipts = home.ledger.append(drafts).await.expect("appended");
    (home, agent)
}

/// A model of `kind` at the server, and one of `spare` to ask in its place.
fn asking(
    agent: &Agent,
    server: &WireServer,
    kind: ProviderKind,
    spare: ProviderKind,
    window: Option<u32>,
) -> Agent {
    let settings = |name: &str, provider: ProviderKind| Settings {
        provider,
        base_url: format!("{}/{name}/", server.base_url),
        model: format!("m-{name}"),
        name: name.to_owned(),
        reply_tokens_max: window.map(|_| 10),
        context_tokens: window,
        ..Settings::default()
    };
    let provider = build_all(vec![settings("first", kind), settings("spare", spare)]).expect("providers");
    agent.asking(provider)
}

async fn run(home: &Fixture, agent: &Agent, message: &str) -> RunReply {
    let request = RunRequest { message: message.to_owned(), ..RunRequest::default() };
    agent.run(&home.owner, Door::LOCAL, request).await.expect("a reply")
}

/// As [`run`], in the session of `before`.
async fn run_in(home: &Fixture, agent: &Agent, message: &str, before: Option<&RunReply>) -> RunReply {
    let session = before.map(|before| before.session.as_str().to_owned());
    let request = RunRequest { message: message.to_owned(), session, ..RunRequest::default() };
    agent.run(&home.owner, Door::LOCAL, request).await.expect("a reply")
}

/// As [`run`], with a schema that the answer is held to.
async fn run_held(home: &Fixture, agent: &Agent, message: &str) -> RunReply {
    let schema = json!({ "type": "object", "properties": { "lines": { "type": "integer" } } });
    let request =
        RunRequest { message: message.to_owned(), response_schema: Some(schema), ..RunRequest::default() };
    agent.run(&home.owner, Door::LOCAL, request).await.expect("a reply")
}

/// The run after these of its entries, and the requests that they describe.
fn cut(agent: &Agent, reply: &RunReply, headers: &[Header]) -> (RecalledRun, Vec<RebuiltRequest>) {
    let mut requests = Vec::new();
    let calls = calls(agent, &reply.run, headers).expect("calls");
    let held = history::of_run(agent, &reply.run, headers).expect("a history");
    let (recalled, _) =
        rebuilt(agent, &reply.run, headers, calls, held, |request| requests.push(request)).expect("rebuilt");
    (recalled, requests)
}

/// What an entry says of the request that it is the outcome of.
fn said(agent: &Agent, header: &Header) -> Option<(SentForm, Digest, Option<Vec<String>>)> {
    let stored = agent.ledger().reader().entry(header.seq).expect("read")?;
    match header.known_kind() {
        Some(Kind::ModelReply) => {
            let reply: ModelReplyPayload = stored.payload()?;
            Some((reply.sent?, reply.request_sha256, reply.tools))
        }
        Some(Kind::ModelError) => {
            let error: ModelErrorPayload = stored.payload()?;
            Some((error.sent?, error.request_sha256?, error.tools))
        }
        _ => None,
    }
}

/// Cuts the run after each of its entries: what was sent before is rebuilt, and what is sent next
/// is what was sent. Returns the number of requests.
fn check(agent: &Agent, server: &WireServer, reply: &RunReply) -> usize {
    let first = reply.ledger.as_ref().expect("a range").first;
    let headers = entries(agent.ledger(), &reply.run, first).expect("entries");
    let sent = server.take_bodies();
    let asked: Vec<(usize, &Header)> =
        headers.iter().enumerate().filter(|(_, header)| said(agent, header).is_some()).collect();
    assert_eq!(asked.len(), sent.len(), "{reply:?}");
    for (body, (_, header)) in sent.iter().zip(&asked) {
        let (_, digest, _) = said(agent, header).expect("a request");
        assert_eq!(digest, Digest::sha256(body), "the digest of what was sent");
    }
    for end in 1..=headers.len() {
        let (recalled, requests) = cut(agent, reply, &headers[..end]);
        for (request, body) in requests.iter().zip(&sent) {
            assert_eq!(text(&request.body), text(body), "after {end} entries");
            assert!(request.is_same());
        }
        let next = asked.iter().position(|(at, _)| *at >= end);
        if recalled.open.is_some() {
            continue;
        }
        let Some((next, body)) = next.and_then(|next| Some((next, sent.get(next)?))) else { continue };
        if headers[end..asked[next].0].iter().any(|header| header.is(Kind::ContextTrim)) {
            // Results were left out before the next request.
            continue;
        }
        // From the ledger alone.
        let (form, _, tools) = said(agent, asked[next].1).expect("a request");
        let tools = tools.unwrap_or(recalled.tools);
        let mut requests = SentRequests::of(agent.ledger());
        let again = requests.body(asked[next].1.seq, &form, &recalled.conversation, &tools).expect("read");
        assert_eq!(text(&again.expect("described")), text(body), "the next request after {end} entries");
    }
    asked.len()
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

/// The tokens of a request without results, as they are estimated.
fn least_tokens(home: &Fixture, agent: &Agent) -> u32 {
    let (_, offered) =
        agent.gate().offered(&home.owner, &agent.session("one", 32, &crate::types::Ceiling::OPEN));
    let offers: Vec<_> = offered.iter().map(|manifest| crate::agent::run::offer(manifest)).collect();
    u32::try_from((crate::agent::SYSTEM.len() + crate::agent::run::length(&offers)) / 3).expect("few")
}

/// The law of the rebuilt request, near the end of the window too.
#[test]
fn a_run_that_is_cut_after_any_entry_makes_the_same_requests() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (home, agent) = runtime.block_on(home());
    let server = WireServer::start();
    let rounds = || prop::collection::vec(served::any_round(), 1..6);
    let least = least_tokens(&home, &agent);
    let window = prop::option::of(least..least + 1_500);
    let strategy = (0..WIRES.len(), 1..WIRES.len(), rounds(), "\\PC{1,12}", window);
    let law = |(at, on, rounds, message, window): (usize, usize, Vec<ModelRound>, String, Option<u32>)| {
        let (kind, spare) = (WIRES[at], WIRES[(at + on) % WIRES.len()]);
        let agent = asking(&agent, &server, kind, spare, window);
        server.play(kind, spare, rounds);
        let message = format!("look at {message}");
        let reply = runtime.block_on(run(&home, &agent, &message));
        check(&agent, &server, &reply);
        Ok(())
    };
    proptest::test_runner::TestRunner::new(laws::cases(32)).run(&strategy, law).expect("the law holds");
    let trims = home.entries("kind:context.trim");
    let why = |stored: &crate::ledger::Stored| {
        stored.payload::<ContextTrimPayload>().expect("a trim").why == TrimReason::Window
    };
    assert!(trims.iter().any(why), "none of {} trims came near the window", trims.len());
}

/// The same of each run of a session: its requests hold what the earlier runs read and said, and
/// the ledger gives them again, whatever ended those runs.
#[test]
fn each_run_of_a_session_makes_the_requests_that_its_entries_give() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (home, agent) = runtime.block_on(home());
    let server = WireServer::start();
    let least = least_tokens(&home, &agent);
    let window = prop::option::of(least + 500..least + 2_500);
    let runs = prop::collection::vec(prop::collection::vec(served::any_round(), 1..4), 2..5);
    let strategy = (0..WIRES.len(), 1..WIRES.len(), runs, window);
    let ended = std::cell::RefCell::new(std::collections::BTreeSet::new());
    let law = |(at, on, runs, window): (usize, usize, Vec<Vec<ModelRound>>, Option<u32>)| {
        let (kind, spare) = (WIRES[at], WIRES[(at + on) % WIRES.len()]);
        let agent = asking(&agent, &server, kind, spare, window);
        let mut before: Option<RunReply> = None;
        for (number, rounds) in runs.into_iter().enumerate() {
            server.play(kind, spare, rounds);
            let message = format!("look at number {number}.");
            let reply = runtime.block_on(run_in(&home, &agent, &message, before.as_ref()));
            let last = server.bodies().pop().map(|body| text(&body)).unwrap_or_default();
            for earlier in (0..=number).filter(|_| !last.is_empty()) {
                let told = last.matches(&format!("look at number {earlier}.")).count();
                assert_eq!(told, 1, "{earlier} of {number}: {last}");
            }
            check(&agent, &server, &reply);
            ended.borrow_mut().insert(reply.status.as_str());
            if let Some(before) = &before {
                assert_eq!(reply.session, before.session);
            }
            before = Some(reply);
        }
        Ok(())
    };
    proptest::test_runner::TestRunner::new(laws::cases(16)).run(&strategy, law).expect("the law holds");
    assert!(ended.borrow().len() > 1, "all runs ended as {:?}", ended.borrow());
}

/// Also if the answer is held to a schema, and the model is asked for it again: before calls of the
/// repair round, between them and after them.
#[test]
fn a_run_that_asks_for_the_answer_again_makes_the_same_requests() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (home, agent) = runtime.block_on(home());
    let server = WireServer::start();
    let rounds = || prop::collection::vec(served::any_round_or_answer(), 1..6);
    let strategy = (0..WIRES.len(), 1..WIRES.len(), rounds(), "\\PC{1,12}");
    let repaired = std::cell::Cell::new(0);
    let law = |(at, on, rounds, message): (usize, usize, Vec<ModelRound>, String)| {
        let (kind, spare) = (WIRES[at], WIRES[(at + on) % WIRES.len()]);
        let agent = asking(&agent, &server, kind, spare, None);
        server.play(kind, spare, rounds);
        let reply = runtime.block_on(run_held(&home, &agent, &format!("look at {message}")));
        check(&agent, &server, &reply);
        let response = reply.response.clone().expect("held to a schema");
        assert!(response.repairs <= 1, "{reply:?}");
        assert_eq!(response.status == HeldStatus::Held, reply.answer_json.is_some());
        if reply.status == RunStatus::Done {
            assert_eq!(response.status, HeldStatus::Held, "{reply:?}");
        }
        repaired.set(repaired.get() + response.repairs);
        Ok(())
    };
    proptest::test_runner::TestRunner::new(laws::cases(32)).run(&strategy, law).expect("the law holds");
    assert!(repaired.get() > 0, "no model was asked again");
}

/// A run that resumes in the repair round knows that the model was asked again.
#[test]
fn each_wire_resumes_in_the_repair_round() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (home, agent) = runtime.block_on(home());
    let server = WireServer::start();
    for kind in WIRES {
        let agent = asking(&agent, &server, kind, ProviderKind::OpenAi, None);
        let rounds = vec![
            ModelRound::with_state(),
            ModelRound::answering("It has three lines."),
            ModelRound::with_state(),
            ModelRound::answering("{\"lines\": 3}"),
        ];
        server.play(kind, ProviderKind::OpenAi, rounds);
        let reply = runtime.block_on(run_held(&home, &agent, "look"));
        assert_eq!(reply.answer_json, Some(json!({ "lines": 3 })), "{kind:?}: {reply:?}");
        let last = String::from_utf8(server.bodies().pop().expect("a request")).expect("text");
        assert!(last.contains("Your answer is not one JSON value. Send the whole"), "{last}");
        assert_eq!(check(&agent, &server, &reply), 4, "{kind:?}: {reply:?}");
        let first = reply.ledger.as_ref().expect("a range").first;
        let headers = entries(agent.ledger(), &reply.run, first).expect("entries");
        let replies = headers.iter().enumerate().filter(|(_, header)| header.is(Kind::ModelReply));
        let ends: Vec<usize> = replies.map(|(at, _)| at + 1).collect();
        let repairs: Vec<u64> =
            ends.iter().map(|end| cut(&agent, &reply, &headers[..*end]).0.repairs).collect();
        assert_eq!(repairs, [0, 1, 1, 1], "{kind:?}");
    }
}

/// Also after a refusal that proposes calls, which is in the conversation by its words.
#[test]
fn each_wire_sends_its_state_back_after_it_was_rebuilt() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (home, agent) = runtime.block_on(home());
    let server = WireServer::start();
    for kind in WIRES {
        let agent = asking(&agent, &server, kind, ProviderKind::OpenAi, None);
        server.play(
            kind,
            ProviderKind::OpenAi,
            vec![ModelRound::with_state(), ModelRound::refusing(), ModelRound::with_state()],
        );
        let reply = runtime.block_on(run(&home, &agent, "look"));
        assert_eq!(check(&agent, &server, &reply), 4, "{kind:?}: {reply:?}");
    }
}

/// A run of an earlier version of PAR keeps its own system prompt, which the ledger has.
#[tokio::test]
async fn the_system_prompt_is_read_from_the_ledger() {
    let (home, _agent) = home().await;
    let old = "You are an earlier version.";
    let load = ConfigLoadPayload { keys: Vec::new(), system: Some(old.to_owned()) };
    let _receipt = home.ledger.append_one(Draft::new(load)).await.expect("appended");
    let size = home.ledger.head().size;
    let digest = |text: &str| Some(Digest::sha256(text.as_bytes()));
    assert_eq!(system_prompt(&home.ledger, size, digest(old)).expect("read"), old);
    assert_eq!(system_prompt(&home.ledger, size, None).expect("read"), crate::agent::SYSTEM);
    assert!(system_prompt(&home.ledger, size, digest("unknown")).is_err());
}

/// A server that refuses a request as too long gets it again without the old results. Nothing
/// else is left out, and a second refusal ends the run.
#[test]
fn a_refusal_because_of_the_length_leaves_out_old_results_once() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (home, agent) = runtime.block_on(home());
    let server = WireServer::start();
    for kind in WIRES {
        let agent = asking(&agent, &server, kind, ProviderKind::OpenAi, Some(100_000));
        let play = |rounds| {
            server.play(kind, ProviderKind::OpenAi, rounds);
            runtime.block_on(run(&home, &agent, "look at that"))
        };
        let reply = play(vec![ModelRound::with_state(), ModelRound::with_state(), ModelRound::too_long(1)]);
        assert_eq!(reply.status, RunStatus::Done, "{kind:?} {reply:?}");
        let kinds: Vec<String> =
            home.entries(&format!("run:{}", reply.run)).iter().map(|one| one.header.kind.clone()).collect();
        let trim = kinds.iter().position(|kind| kind == "context.trim").expect("a trim");
        assert_eq!(kinds[trim - 1..=trim + 2], ["model.error", "context.trim", "model.ask", "model.reply"]);
        let bodies = server.bodies();
        let (refused, again) = (text(&bodies[2]), text(&bodies[3]));
        let count = |body: &str, words: &str| body.matches(words).count();
        assert_eq!((count(&refused, "output of entry"), count(&again, "output of entry")), (0, 2), "{again}");
        for kept in ["You are PAR", "look at that", "health_check"] {
            assert_eq!(count(&again, kept), count(&refused, kept), "{kind:?} {kept}");
        }
        let trim = home.entries("kind:context.trim").pop().expect("a trim");
        let trim: ContextTrimPayload = trim.payload().expect("a payload");
        assert!(
            trim.left_out.iter().all(|entry| again.contains(&format!("output of entry {entry} left out")))
        );
        assert_eq!(
            (trim.left_out.len(), trim.why, trim.window_tokens),
            (2, TrimReason::Refused, Some(100_000))
        );
        check(&agent, &server, &reply);
        for (rounds, trims) in [
            (vec![ModelRound::too_long(1)], 0),
            (vec![ModelRound::with_state(), ModelRound::with_state(), ModelRound::too_long(2)], 1),
        ] {
            let reply = play(rounds);
            assert_eq!(
                (reply.status, reply.limit.as_deref()),
                (RunStatus::Limit, Some("window_tokens")),
                "{kind:?}"
            );
            assert_eq!(home.entries(&format!("kind:context.trim run:{}", reply.run)).len(), trims);
            check(&agent, &server, &reply);
        }
    }
}

/// A server that refuses a request from which all old results were left out ends the run.
#[test]
fn a_request_that_was_shortened_and_is_refused_ends_the_run() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (home, agent) = runtime.block_on(home());
    let server = WireServer::start();
    let least = least_tokens(&home, &agent);
    let mut ended = 0;
    for (rounds, more) in (3..6).flat_map(|rounds| (0..1_500).step_by(150).map(move |more| (rounds, more))) {
        let agent = asking(&agent, &server, ProviderKind::OpenAi, ProviderKind::Ollama, Some(least + more));
        let rounds = (0..rounds).map(|_| ModelRound::with_state()).chain([ModelRound::too_long(1)]);
        server.play(ProviderKind::OpenAi, ProviderKind::Ollama, rounds.collect());
        let reply = runtime.block_on(run(&home, &agent, "look at that"));
        let entries = home.entries(&format!("run:{}", reply.run));
        let of = |kind: Kind| move |entry: &crate::ledger::Stored| entry.header.is(kind);
        let refused = entries.split(of(Kind::ModelReply)).find(|turn| turn.iter().any(of(Kind::ModelError)));
        let Some(turn) = refused else { continue };
        let why = |entry: &crate::ledger::Stored| entry.payload().map(|trim: ContextTrimPayload| trim.why);
        let trims: Vec<_> = turn.iter().filter(|one| of(Kind::ContextTrim)(one)).map(why).collect();
        match trims[..] {
            [Some(TrimReason::Window)] => {
                assert_eq!(reply.limit.as_deref(), Some("window_tokens"), "{reply:?}");
                ended += 1;
            }
            [] | [Some(TrimReason::Refused)] | [Some(TrimReason::Window), Some(TrimReason::Refused)] => {}
            _ => panic!("{trims:?}"),
        }
        check(&agent, &server, &reply);
    }
    assert!(ended > 0, "no request was shortened and refused");
}

/// A cancel that was written after the end of its run stops nothing; one before it does, until the
/// run ends.
#[test]
fn a_cancel_after_the_end_of_its_run_stops_nothing() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (home, _agent) = runtime.block_on(home());
    let run = crate::types::RunId::generate();
    let append = |kind: Kind, status: Option<&'static str>| {
        let draft = crate::ledger::Draft {
            run: Some(run.clone()),
            principal: Some("os:root".to_owned()),
            status,
            ..crate::ledger::Draft::untyped(kind, serde_json::json!({}))
        };
        let _receipts = home.ledger.append_blocking(vec![draft]).expect("appended");
        let count = |state: &rusqlite::Connection| {
            state.query_row("SELECT count(*) FROM stop", [], |row| row.get::<_, i64>(0))
        };
        home.ledger.state(count).expect("state")
    };
    assert_eq!(append(Kind::RunRequest, None), 0);
    assert_eq!(append(Kind::RunCancel, None), 1);
    assert_eq!(append(Kind::RunReply, Some("waiting")), 1, "a run that waits has not ended");
    assert_eq!(append(Kind::RunReply, Some("cancelled")), 0);
    assert_eq!(append(Kind::RunCancel, None), 0);
}
