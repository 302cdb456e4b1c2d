//! An approval request, as the ledger records it, and its row in state.db.
//!
//! The ledger's entries are authoritative: the request, its answer, and the decision that spent the
//! answer. The row is only an index.

use crate::ledger::payload::{ApprovalRequestPayload, ShownCall};
use crate::ledger::{Filter, Header, Kind, Order, ReadError, Reader, Row, Stored};
use crate::policy::Obligation;
use crate::types::{ApprovalId, CallId, Decision, Digest, RunId, RunStatus, SessionId, Stoppable};
use rusqlite::types::Value as Cell;
use rusqlite::{Connection, OptionalExtension as _};
use serde::Serialize;
use serde_json::{Value, json};

/// Headers read under one lock of the reader, so that other readers get their turn.
const SCAN_ENTRIES_MAX: usize = 4_096;

/// An `approval.request`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Requested {
    pub(super) id: ApprovalId,
    pub(super) seq: u64,
    pub(super) wall_us: u64,
    pub(super) run: RunId,
    pub(super) session: SessionId,
    pub(super) call: CallId,
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) resource: Value,
    pub(super) call_hash: Digest,
    pub(super) policy: Digest,
    pub(super) manifest: Digest,
    pub(super) why: Value,
    pub(super) groups: Vec<String>,
    pub(super) confirm: bool,
    pub(super) requester: String,
    pub(super) requester_user: Option<String>,
    pub(super) expires_us: u64,
    /// What the model wrote next to the call, made visible.
    pub(super) said: Option<String>,
    /// Untrusted results that the session had seen: `tool`, `resource`, `result`.
    pub(super) tainted_by: Vec<Value>,
    /// What was shown in addition; `None` for a request of an earlier version.
    pub(super) shown: Option<ShownCall>,
    pub(super) card: Option<Digest>,
}

/// The state of an approval request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// No answer yet.
    Pending,
    /// Approved, and the call has not begun.
    Granted,
    /// Refused by a person.
    Refused,
    /// Not answered in time.
    Expired,
    /// Used: the approval allowed the call once.
    Spent,
    /// The call, its rules or its run have changed since the request.
    Void,
}

impl State {
    /// The value in state.db and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Granted => "granted",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::Spent => "spent",
            Self::Void => "void",
        }
    }

    /// The state with this name.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Pending, Self::Granted, Self::Refused, Self::Expired, Self::Spent, Self::Void]
            .into_iter()
            .find(|state| state.as_str() == word)
    }
}

/// The state of a request according to the ledger, with the entry of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ApprovalStanding {
    pub(super) state: State,
    pub(super) answer: Option<u64>,
}

impl Requested {
    /// The call, as it is held against stops.
    pub(super) fn stoppable(&self) -> Stoppable<'_> {
        let Self { requester: caller, session, run, tool, .. } = self;
        Stoppable { caller, session, run, tool: Some(tool) }
    }

    /// Reads a request from an entry; `None` if the entry has another kind or form.
    pub(super) fn from_stored(stored: &Stored) -> Option<Self> {
        Self::read(&stored.header, stored.body.as_deref()?)
    }

    fn read(header: &Header, body: &[u8]) -> Option<Self> {
        let payload: ApprovalRequestPayload = header.payload_of(body)?;
        Some(Self {
            id: ApprovalId::parse(payload.id.as_str())?,
            seq: header.seq,
            wall_us: header.u64("wall_us")?,
            run: RunId::parse(header.str("run")?)?,
            session: SessionId::parse(header.str("session")?)?,
            call: CallId::parse(header.str("call")?)?,
            tool: payload.tool,
            arguments: payload.arguments,
            resource: json!(payload.resource),
            call_hash: payload.call_hash,
            policy: Digest::from_hex(header.str("policy")?)?,
            manifest: Digest::from_hex(header.str("manifest")?)?,
            why: json!(payload.why),
            groups: payload.groups,
            confirm: payload.confirm,
            requester: payload.requester.principal,
            requester_user: payload.requester.user,
            expires_us: payload.expires_us,
            said: payload.said,
            tainted_by: payload.tainted_by.iter().flatten().map(|one| json!(one)).collect(),
            shown: payload.shown,
            card: payload.card,
        })
    }

    /// Whether an answer to this request covers `gate` too.
    pub(super) fn asks(&self, gate: &Obligation) -> bool {
        match gate {
            Obligation::Approval { group } => self.groups.contains(group),
            // Approval by another user is stronger than confirmation by the requester.
            Obligation::Confirm => self.confirm || !self.groups.is_empty(),
        }
    }

    /// Its state according to the later entries of its run.
    pub(super) fn standing(&self, reader: &Reader) -> Result<ApprovalStanding, ReadError> {
        let mut standing = ApprovalStanding { state: State::Pending, answer: None };
        for header in of_run(reader, &self.run, self.seq)? {
            standing.see(self.seq, &header);
        }
        Ok(standing)
    }

    pub(super) fn cells(&self) -> Vec<Cell> {
        let text = |text: &str| Cell::Text(text.to_owned());
        vec![
            text(self.id.as_str()),
            number(self.seq),
            text(self.run.as_str()),
            text(&self.call_hash.hex()),
            text(&self.policy.hex()),
            number(self.expires_us),
            text(&self.requester),
        ]
    }
}

impl ApprovalStanding {
    fn see(&mut self, asked: u64, header: &Header) {
        let answers = header.u64("ref");
        let is_open = matches!(self.state, State::Pending | State::Granted);
        let is_of_this = answers.is_some() && (answers == Some(asked) || answers == self.answer);
        match (header.known_kind(), self.state) {
            (Some(Kind::ApprovalGrant), State::Pending) if answers == Some(asked) => {
                *self = Self { state: State::Granted, answer: Some(header.seq) };
            }
            (Some(Kind::ApprovalRefuse), State::Pending) if answers == Some(asked) => {
                *self = Self { state: refusal(header), answer: Some(header.seq) };
            }
            (Some(Kind::CallDecision), State::Granted) if answers == self.answer && is_allow(header) => {
                self.state = State::Spent;
            }
            (Some(Kind::CallDecision), _) if is_open && is_of_this => self.state = State::Void,
            (Some(Kind::RunReply), _) if is_open && ends(header) => self.state = State::Void,
            _ => {}
        }
    }
}

/// Headers of a run, starting at `from`.
pub(super) fn of_run(reader: &Reader, run: &RunId, from: u64) -> Result<Vec<Header>, ReadError> {
    let filter = Filter::field("run", run.as_str());
    let mut found = Vec::new();
    let mut next = Some(from);
    while let Some(at) = next {
        let (headers, on) =
            reader.headers(&filter, at, Order::Ascending, SCAN_ENTRIES_MAX, SCAN_ENTRIES_MAX)?;
        found.extend(headers);
        next = on;
    }
    Ok(found)
}

/// The state that an `approval.refuse` leads to: refused by a person, or expired.
pub(super) fn refusal(header: &Header) -> State {
    if header.str("status") == Some(State::Expired.as_str()) { State::Expired } else { State::Refused }
}

fn is_allow(header: &Header) -> bool {
    header.decision() == Some(Decision::Allow)
}

fn ends(header: &Header) -> bool {
    header.str("status") != Some(RunStatus::Waiting.as_str())
}

/// The request's row in state.db: the entry that it points to, and a check against that entry.
#[derive(Debug)]
pub(super) struct ApprovalRow {
    pub(super) seq: u64,
    pub(super) id: String,
    pub(super) requester: String,
    pub(super) cells: Vec<Cell>,
    pub(super) state: String,
    pub(super) answer: Option<u64>,
}

impl ApprovalRow {
    /// Whether the row matches the entries.
    pub(super) fn fits(&self, requested: &Requested, state: State) -> bool {
        self.cells == requested.cells() && self.state == state.as_str()
    }
}

/// The row of `id` in state.db.
pub(super) fn state_row(state: &Connection, id: &ApprovalId) -> Result<Option<ApprovalRow>, rusqlite::Error> {
    let sql = format!("SELECT {ROW} FROM approval WHERE id = ?1");
    state.prepare_cached(&sql)?.query_row([id.as_str()], approval_row).optional()
}

/// The columns of a row.
pub(super) const ROW: &str =
    "id, request_seq, run, call_hash, policy, expires_us, requester, state, answer_seq";

pub(super) fn approval_row(row: &rusqlite::Row<'_>) -> Result<ApprovalRow, rusqlite::Error> {
    let seq = |number: i64| u64::try_from(number).unwrap_or(u64::MAX);
    Ok(ApprovalRow {
        seq: seq(row.get(1)?),
        id: row.get(0)?,
        requester: row.get(6)?,
        cells: (0..7).map(|column| row.get(column)).collect::<Result<_, _>>()?,
        state: row.get(7)?,
        answer: row.get::<_, Option<i64>>(8)?.map(seq),
    })
}

/// The changes that an entry makes to the table `approval`.
///
/// INVARIANT: no entry leads to a statement that can fail. An entry that matches nothing changes no
/// row.
pub(super) fn rows(header: &Header, body: &[u8]) -> Vec<Row> {
    if let Some(requested) = Requested::read(header, body) {
        let sql = "INSERT INTO approval(id, request_seq, run, call_hash, policy, expires_us, requester, state) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'pending') ON CONFLICT DO NOTHING";
        return vec![Row { sql, values: requested.cells() }];
    }
    let word = |word: &str| Cell::Text(word.to_owned());
    match (header.known_kind(), header.u64("ref")) {
        (Some(Kind::ApprovalGrant | Kind::ApprovalRefuse), Some(asked)) => {
            let state = if header.is(Kind::ApprovalGrant) { State::Granted } else { refusal(header) };
            let sql = "UPDATE approval SET state = ?1, answer_seq = ?2 \
                       WHERE request_seq = ?3 AND state = 'pending'";
            vec![Row { sql, values: vec![word(state.as_str()), number(header.seq), number(asked)] }]
        }
        (Some(Kind::CallDecision), Some(answered)) if is_allow(header) => vec![
            Row {
                sql: "UPDATE approval SET state = 'spent' WHERE answer_seq = ?1 AND state = 'granted'",
                values: vec![number(answered)],
            },
            void(answered),
        ],
        (Some(Kind::CallDecision), Some(answered)) => vec![void(answered)],
        (Some(Kind::RunReply), _) if ends(header) => vec![Row {
            sql: "UPDATE approval SET state = 'void' WHERE run = ?1 AND state IN ('pending', 'granted')",
            values: vec![word(header.str("run").unwrap_or_default())],
        }],
        _ => Vec::new(),
    }
}

fn void(answered: u64) -> Row {
    let sql = "UPDATE approval SET state = 'void' \
               WHERE ?1 IN (request_seq, answer_seq) AND state IN ('pending', 'granted')";
    Row { sql, values: vec![number(answered)] }
}

fn number(number: u64) -> Cell {
    Cell::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// The hash that an approval is bound to: SHA-256 of the canonical JSON of the whole call and the
/// digests of what decides it. `None` if it has no canonical form; such a call cannot be approved.
pub(super) fn call_hash(members: Value) -> Option<Digest> {
    crate::types::json::canonical(&members).ok().map(|text| Digest::sha256(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::{ApprovalStanding, Requested, State, rows};
    use crate::ledger::Header;
    use crate::policy::Obligation;
    use crate::store;
    use proptest::prelude::*;
    use rusqlite::params_from_iter;
    use serde_json::{Value, json};

    const RUN: &str = "run_01JD0000000000000000000000";

    fn header(seq: u64, fields: &Value) -> Header {
        let mut whole = json!({
            "t": "par/entry/1", "log": "0", "seq": seq, "payload": "0".repeat(64), "payload_len": 2,
            "boot": "b", "run": RUN, "wall_us": 5, "mono_us": 5,
        });
        let members = whole.as_object_mut().expect("object");
        members.extend(fields.as_object().expect("object").clone());
        Header::parse(whole.to_string().as_bytes()).expect("header")
    }

    fn request(seq: u64, groups: &[&str], confirm: bool) -> (Header, Vec<u8>) {
        let digest = "a".repeat(64);
        let fields = json!({
            "kind": "approval.request", "session": "ses_01JD0000000000000000000000",
            "call": "call_01JD0000000000000000000000", "policy": digest, "manifest": digest,
        });
        let payload = json!({
            "id": format!("apr_01JD00000000000000000000{seq:02}"), "tool": "deploy", "arguments": {}, "resource": { "type": "Path", "id": "/srv", "object": { "is": "fixed" } },
            "call_hash": digest, "why": [], "groups": groups, "confirm": confirm,
            "requester": { "principal": "key:Ab3dEf9h", "user": null }, "expires_us": 9,
        });
        (header(seq, &fields), payload.to_string().into_bytes())
    }

    fn requested(groups: &[&str], confirm: bool) -> Requested {
        let (header, body) = request(1, groups, confirm);
        Requested::read(&header, &body).expect("question")
    }

    #[test]
    fn later_entries_settle_a_request_once() {
        let check = |entries: &[Value], expect: State| {
            let mut standing = ApprovalStanding { state: State::Pending, answer: None };
            for (at, fields) in (2..).zip(entries) {
                standing.see(1, &header(at, fields));
            }
            assert_eq!(standing.state, expect, "{entries:?}");
        };
        let yes = json!({ "kind": "approval.grant", "ref": 1 });
        let no = json!({ "kind": "approval.refuse", "ref": 1 });
        let late = json!({ "kind": "approval.refuse", "ref": 1, "status": "expired" });
        let spends = json!({ "kind": "call.decision", "ref": 2, "decision": "allow" });
        let undecided = json!({ "kind": "call.decision", "ref": 2, "decision": "needs_approval" });
        let changed = json!({ "kind": "call.decision", "ref": 1, "decision": "needs_approval" });
        let other = json!({ "kind": "call.decision", "ref": 7, "decision": "allow" });
        let waits = json!({ "kind": "run.reply", "status": "waiting" });
        let ends = json!({ "kind": "run.reply", "status": "cancelled" });
        check(&[], State::Pending);
        check(std::slice::from_ref(&waits), State::Pending);
        check(std::slice::from_ref(&yes), State::Granted);
        check(&[yes.clone(), no.clone(), late.clone()], State::Granted);
        check(&[no, yes.clone(), spends.clone()], State::Refused);
        check(&[late, yes.clone()], State::Expired);
        check(&[yes.clone(), spends.clone()], State::Spent);
        check(&[yes.clone(), spends.clone(), undecided.clone(), ends.clone()], State::Spent);
        check(&[yes.clone(), undecided, spends.clone()], State::Void);
        check(&[changed, yes.clone(), spends], State::Void);
        check(&[yes.clone(), other, waits], State::Granted);
        check(&[yes, ends], State::Void);
    }

    #[test]
    fn an_approval_covers_only_what_was_asked() {
        let of = |group: &str| Obligation::Approval { group: group.to_owned() };
        let check = |groups: &[&str], confirm: bool, gate: &Obligation, expect: bool| {
            assert_eq!(requested(groups, confirm).asks(gate), expect, "{groups:?} {confirm} {gate:?}");
        };
        check(&["release"], false, &of("release"), true);
        check(&["release"], true, &of("night"), false);
        check(&["release"], false, &Obligation::Confirm, true);
        check(&[], true, &Obligation::Confirm, true);
        check(&[], true, &of("release"), false);
    }

    /// A random entry after the request; most answer something that exists.
    fn entry() -> impl Strategy<Value = Value> {
        let answers = 1_u64..8;
        prop_oneof![
            answers.clone().prop_map(|seq| json!({ "kind": "approval.grant", "ref": seq })),
            (answers.clone(), any::<bool>()).prop_map(|(seq, late)| {
                let status = if late { "expired" } else { "refused" };
                json!({ "kind": "approval.refuse", "ref": seq, "status": status })
            }),
            (answers, 0..3_usize).prop_map(|(seq, word)| {
                let word = ["allow", "deny", "needs_approval"].get(word).copied().unwrap_or("deny");
                json!({ "kind": "call.decision", "ref": seq, "decision": word })
            }),
            Just(json!({ "kind": "call.decision", "decision": "allow" })),
            any::<bool>().prop_map(|ends| {
                json!({ "kind": "run.reply", "status": if ends { "done" } else { "waiting" } })
            }),
        ]
    }

    proptest! {
        #![proptest_config(crate::types::laws::cases(256))]

        /// The row is the index, the entries are the truth: they never differ.
        #[test]
        fn the_row_says_what_the_entries_say(entries in proptest::collection::vec(entry(), 0..8)) {
            let state = store::open_memory(store::Database::State).expect("state");
            let apply = |header: &Header, body: &[u8]| {
                for row in rows(header, body) {
                    state.execute(row.sql, params_from_iter(row.values)).expect(row.sql);
                }
            };
            let (first, body) = request(1, &["release"], false);
            apply(&first, &body);
            // A second entry with the same id changes nothing.
            apply(&first, &body);
            let mut standing = ApprovalStanding { state: State::Pending, answer: None };
            for (at, fields) in (2..).zip(&entries) {
                let header = header(at, fields);
                apply(&header, b"{}");
                standing.see(1, &header);
            }
            let requested = Requested::read(&first, &body).expect("question");
            let row = super::state_row(&state, &requested.id).expect("read").expect("there");
            prop_assert!(row.fits(&requested, standing.state), "{:?} {:?}", row, standing);
        }
    }
}
