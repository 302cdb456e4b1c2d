//! A call that a person was asked about.

use crate::gate::requested::{ApprovalStanding, Requested, State};
use crate::ledger::payload::ApprovalGrantPayload;
use crate::ledger::{Kind, Stored};
use crate::policy::{self, Approved};
use crate::types::clock::Wall;
use crate::types::{CallId, Digest};

/// A call that a person was asked about and that must be prepared and decided again: because the
/// person approved it, or because the rules have changed since. Made only from the entries of the
/// request and of its approval, by [`crate::gate::Gate::recall`].
#[derive(Debug)]
#[must_use = "a call that was asked about needs `reopen`"]
pub struct Asked {
    requested: Box<Requested>,
    grant: Option<Grant>,
}

/// An approval that no decision has spent.
#[derive(Debug)]
struct Grant {
    seq: u64,
    user: Option<String>,
}

impl Asked {
    /// The call of the `approval.request` in `request`, with the `approval.grant` in `answer` that
    /// refers to it. `None` if the entries are not those.
    pub(in crate::gate) fn found(request: &Stored, answer: Option<&Stored>) -> Option<Self> {
        let requested = Requested::from_stored(request)?;
        let grant = match answer {
            None => None,
            Some(answer) => Some(Grant::found(&requested, answer)?),
        };
        Some(Self { requested: Box::new(requested), grant })
    }

    /// The request.
    pub(in crate::gate) fn requested(&self) -> &Requested {
        &self.requested
    }

    /// The call.
    pub(in crate::gate) fn call(&self) -> &CallId {
        &self.requested.call
    }

    /// The entry that a new decision answers: the approval, or else the request.
    pub(in crate::gate) fn answered(&self) -> u64 {
        self.grant.as_ref().map_or(self.requested.seq, |grant| grant.seq)
    }

    /// Whether a person approved.
    pub(in crate::gate) fn is_granted(&self) -> bool {
        self.grant.is_some()
    }

    /// The state of the request as long as no decision followed it.
    pub(in crate::gate) fn unspent(&self) -> ApprovalStanding {
        match &self.grant {
            Some(grant) => ApprovalStanding { state: State::Granted, answer: Some(grant.seq) },
            None => ApprovalStanding { state: State::Pending, answer: None },
        }
    }

    /// The approval as policies see it, if it covers exactly this call and all of `gates`, and has
    /// not expired.
    pub(in crate::gate) fn consent(
        &self,
        call_hash: Digest,
        gates: &[policy::Obligation],
    ) -> Option<Approved<'_>> {
        let grant = self.grant.as_ref()?;
        let holds = call_hash == self.requested.call_hash
            && Wall::now().0 < self.requested.expires_us
            && gates.iter().all(|gate| self.requested.asks(gate));
        let by = grant.user.as_deref();
        holds.then_some(if self.requested.groups.is_empty() {
            Approved::Confirmed { by }
        } else {
            Approved::Approved { by }
        })
    }
}

impl Grant {
    fn found(requested: &Requested, answer: &Stored) -> Option<Self> {
        let header = &answer.header;
        let is_of_it = header.is(Kind::ApprovalGrant) && header.u64("ref") == Some(requested.seq);
        let payload: ApprovalGrantPayload = answer.payload()?;
        is_of_it.then_some(Self { seq: header.seq, user: payload.user })
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Grant};
    use crate::gate::requested::Requested;
    use crate::policy::{Approved, Obligation};
    use crate::types::{ApprovalId, CallId, Digest, RunId, SessionId};
    use serde_json::json;

    fn asked(groups: &[&str], expires_us: u64, grant: Option<Grant>) -> Asked {
        let requested = Requested {
            id: ApprovalId::generate(),
            seq: 4,
            wall_us: 0,
            run: RunId::generate(),
            session: SessionId::generate(),
            call: CallId::generate(),
            tool: "deploy".to_owned(),
            arguments: json!({}),
            resource: json!({}),
            call_hash: Digest::sha256(b"this call"),
            policy: Digest::sha256(b"policy"),
            manifest: Digest::sha256(b"manifest"),
            why: json!([]),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            confirm: groups.is_empty(),
            requester: "key:Ab3dEf9h".to_owned(),
            requester_user: None,
            expires_us,
            said: None,
            tainted_by: Vec::new(),
            shown: None,
            card: None,
        };
        Asked { requested: Box::new(requested), grant }
    }

    /// In time, for exactly this call, and for everything that is asked now: otherwise it does not
    /// count as approved.
    #[test]
    fn an_approval_counts_for_its_call_its_time_and_its_gates() {
        let yes = || Some(Grant { seq: 6, user: Some("ben".to_owned()) });
        let of = |group: &str| vec![Obligation::Approval { group: group.to_owned() }];
        let (call, other) = (Digest::sha256(b"this call"), Digest::sha256(b"another call"));
        let by = Some("ben");
        let released = asked(&["release"], u64::MAX, yes());
        assert_eq!(released.answered(), 6);
        assert_eq!(released.consent(call, &of("release")), Some(Approved::Approved { by }));
        assert_eq!(released.consent(other, &of("release")), None);
        assert_eq!(released.consent(call, &of("night")), None);
        assert_eq!(released.consent(call, &[of("release"), of("night")].concat()), None);
        assert_eq!(asked(&["release"], 1, yes()).consent(call, &of("release")), None, "its time is over");
        let confirmed = asked(&[], u64::MAX, yes());
        assert_eq!(confirmed.consent(call, &[Obligation::Confirm]), Some(Approved::Confirmed { by }));
        assert_eq!(confirmed.consent(call, &of("release")), None);
        let unanswered = asked(&["release"], u64::MAX, None);
        assert_eq!((unanswered.answered(), unanswered.consent(call, &of("release"))), (4, None));
    }
}
