//! A run rebuilt from its entries makes the requests that it made, byte for byte.

use super::rebuild::{RebuiltRequest, rebuilt};
use super::recall::{calls, entries};
use super::sent::{SentRequests, system_prompt};
use crate::agent::run::RecalledRun;
use crate::agent::shared::Agent;
use crate::agent::{RunReply, RunRequest};
use crate::auth::fixture::Fixture;
use crate::ledger::payload::{ConfigLoadPayload, ModelErrorPayload, ModelReplyPayload, SentForm};
use crate::ledger::{Draft, Header, Kind, Projection};
use crate::llm::{ProviderKind, Settings, build_all};
use crate::policy::Door;
use crate::types::{Digest, laws};
use proptest::prelude::*;
use served::{Round, WireServer};

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
    more: Option<u32>,
) -> Agent {
    let settings = |name: &str, provider: ProviderKind| Settings {
        provider,
        base_url: format!("{}/{name}/", server.base_url),
        model: format!("m-{name}"),
        name: name.to_owned(),
        reply_tokens_max: more,
        context_tokens: more.map(|tokens| tokens * 100),
        ..Settings::default()
    };
    let provider = build_all(vec![settings("first", kind), settings("spare", spare)]).expect("providers");
    agent.asking(provider)
}

async fn run(home: &Fixture, agent: &Agent, message: &str) -> RunReply {
    let request = RunRequest { message: message.to_owned(), ..RunRequest::default() };
    agent.run(&home.owner, Door::LOCAL, request).await.expect("a reply")
}

/// The run after these of its entries, and the requests that they describe.
fn cut(agent: &Agent, reply: &RunReply, headers: &[Header]) -> (RecalledRun, Vec<RebuiltRequest>) {
    let mut requests = Vec::new();
    let calls = calls(agent, &reply.run, headers).expect("calls");
    let (recalled, _) =
        rebuilt(agent, &reply.run, headers, calls, |request| requests.push(request)).expect("rebuilt");
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
    assert!(!asked.is_empty() && asked.len() == sent.len(), "{} of {} requests", asked.len(), sent.len());
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

/// The law of the rebuilt request.
#[test]
fn a_run_that_is_cut_after_any_entry_makes_the_same_requests() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (home, agent) = runtime.block_on(home());
    let server = WireServer::start();
    let rounds = || prop::collection::vec(served::any_round(), 1..4);
    let strategy = (0..WIRES.len(), 1..WIRES.len(), rounds(), "\\PC{1,12}", prop::option::of(500_u32..900));
    let law = |(at, on, rounds, message, more): (usize, usize, Vec<Round>, String, Option<u32>)| {
        let (kind, spare) = (WIRES[at], WIRES[(at + on) % WIRES.len()]);
        let agent = asking(&agent, &server, kind, spare, more);
        server.play(kind, spare, rounds);
        let message = format!("look at {message}");
        let reply = runtime.block_on(run(&home, &agent, &message));
        check(&agent, &server, &reply);
        Ok(())
    };
    proptest::test_runner::TestRunner::new(laws::cases(24)).run(&strategy, law).expect("the law holds");
}

/// A refusal that proposes calls is in the conversation by its words.
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
            vec![Round::with_state(), Round::refusing(), Round::with_state()],
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
