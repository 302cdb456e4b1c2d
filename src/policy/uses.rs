//! A use of a power of the API, and the Cedar request that it becomes.
//!
//! The principal is a `Caller`: a key or a user of this host under its name on the ledger, in everything that its
//! sessions are in. One type for both, so that a policy can say `resource.owner == principal` of either. A key owns
//! what was asked for with it, whether or not it names a user: another key of the same user is another caller.

use crate::policy::load::bundle::Bundle;
use crate::policy::request::cedar::{Built, Node, Owed, Uid, Value};
use crate::policy::decide::decision::{Answer, Considered, Verdict};
use crate::policy::request::groups::Groups;
use crate::policy::decide::visibility::looks_at_call;
use crate::policy::power::{GROUP, Power, fits_power, permits_powers};
use crate::policy::request::build;
use crate::auth::Subject;
use cedar_policy::{Authorizer, Decision, Effect, Policy, PolicyId, PolicySet};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// One use of a power, as the policy is asked about it.
#[derive(Clone, Copy, Debug)]
pub struct Use<'a> {
    /// Who uses it.
    pub subject: &'a Subject,
    /// The power.
    pub power: Power,
    /// Of what.
    pub over: Over<'a>,
    /// By which door.
    pub door: Door,
    /// When the key ends, in microseconds since 1970; `None` where it does not.
    pub expires_us: Option<u64>,
    /// Wall clock, in microseconds since 1970.
    pub now_us: u64,
    /// What its runs came to; looked at for [`Power::Run`] alone.
    pub ran: Ran,
}

/// What the runs of a caller came to within the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Runs that were begun; this one not among them.
    pub runs_hour: i64,
    /// What they put on the ledger, in bytes.
    pub bytes_hour: i64,
}

/// What a power is used on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over<'a> {
    /// The server as a whole.
    Server,
    /// A run or a question of one: `Power::over` says which.
    Of {
        /// Its identifier.
        id: &'a str,
        /// Who asked for it, by the name on the ledger.
        owner: &'a str,
    },
}

/// How somebody came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Door {
    /// By which door.
    pub via: Via,
    /// From which address, where there is one.
    pub source_ip: Option<IpAddr>,
}

/// The doors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The API, with a key.
    Http,
    /// The dashboard, with a session that a key has opened.
    Page,
    /// The admin socket.
    Socket,
    /// A command of the owner of `data/`, without a server.
    Local,
}

impl Via {
    /// Every door.
    pub const ALL: [Self; 4] = [Self::Http, Self::Page, Self::Socket, Self::Local];

    /// The word in policies.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Page => "page",
            Self::Socket => "socket",
            Self::Local => "local",
        }
    }

    /// The door of this name.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|via| via.as_str() == word)
    }
}

impl Door {
    /// The admin socket: no network is behind it.
    pub const SOCKET: Self = Self { via: Via::Socket, source_ip: None };
    /// A command without a server.
    pub const LOCAL: Self = Self { via: Via::Local, source_ip: None };
}

impl Bundle {
    /// Decides a use of a power. Like a call it is a deny where anything is in doubt, and nobody can be asked for a
    /// yes to it.
    #[must_use]
    pub fn decide_use(&self, asked: &Use<'_>) -> Verdict {
        self.decide_use_among(asked, &self.groups)
    }

    /// As [`Bundle::decide_use`], with other groups than the bundle's.
    pub(super) fn decide_use_among(&self, asked: &Use<'_>, groups: &Groups) -> Verdict {
        if (asked.power.over() == "Server") != (asked.over == Over::Server) {
            let error = format!("`{}` is held over a `{}`", asked.power.as_str(), asked.power.over());
            let answer = crate::policy::decide::decision::refuse_error(vec![error]);
            return Verdict { answer, request: json!({}), shadow: None };
        }
        let built = build(asked, groups);
        let (answer, shadow) = self.answers_whole(&built, groups);
        Verdict { answer: self.advised(answer, asked.power), request: built.json(), shadow }
    }

    /// What who holds a power has that one who does not may ask for.
    fn advised(&self, answer: Answer, power: Power) -> Answer {
        match answer {
            Answer::Deny { policies, reason, errors, .. } if policies.is_empty() && errors.is_empty() => {
                let permits = self.set.policies().filter(|policy| policy.effect() == Effect::Permit);
                let advice = permits.filter(|policy| fits_power(policy, power));
                let advice = advice.filter_map(|policy| policy.annotation("advice")).map(str::to_owned);
                Answer::Deny { policies, reason, advice: advice.collect(), errors }
            }
            other => other,
        }
    }

    /// Whether a use of `power` by the same caller could be allowed some time, from somewhere, of something: a
    /// permit whose conditions look at context or resource counts as met, a forbid with such conditions as not.
    /// In doubt yes.
    #[must_use]
    pub fn may_ever(&self, subject: &Subject, power: Power) -> bool {
        let owner = subject.id();
        let over = if power.over() == "Server" { Over::Server } else { Over::Of { id: "", owner: &owner } };
        let asked =
            Use { subject, power, over, door: Door::LOCAL, expires_us: None, now_us: 0, ran: Ran::default() };
        let Ok((request, entities)) = build(&asked, &self.groups).cedar(&self.schema, &self.actions) else {
            return true;
        };
        let response = Authorizer::new().is_authorized(&request, &self.ever, &entities);
        response.decision() == Decision::Allow || response.diagnostics().errors().next().is_some()
    }

    /// Each policy that can meet a use of the same power, alone.
    #[must_use]
    pub fn explain_use(&self, asked: &Use<'_>) -> Vec<Considered> {
        self.explain_use_among(asked, &self.groups)
    }

    pub(super) fn explain_use_among(&self, asked: &Use<'_>, groups: &Groups) -> Vec<Considered> {
        let cedar = build(asked, groups).cedar(&self.schema, &self.actions);
        let in_reach = self.set.policies().filter(|policy| fits_power(policy, asked.power));
        in_reach.map(|policy| self.consider(policy, cedar.as_ref())).collect()
    }

    /// That each power is known to be one: else a rule on all of them would silently be one on none.
    pub(super) fn canary_powers(&self) -> Result<(), String> {
        let odd = Power::ALL.into_iter().find(|power| !self.actions.is_in(power.as_str(), GROUP));
        odd.map_or(Ok(()), |power| Err(format!("`{}` is not known to be a power", power.as_str())))
    }
}

pub(super) fn build(asked: &Use<'_>, groups: &Groups) -> Built {
    let principal = Uid("Caller", asked.subject.id());
    let (mut nodes, parents) = build::credential_nodes(asked.subject, groups);
    nodes.push(build::plain(principal.clone(), parents));
    let (id, owner) = match asked.over {
        Over::Server => ("self", None),
        Over::Of { id, owner } => (id, Some(Uid("Caller", owner.to_owned()))),
    };
    // What somebody else is in is not looked up: a lint refuses rules that would ask for it.
    nodes
        .extend(owner.iter().filter(|uid| **uid != principal).map(|uid| build::plain(uid.clone(), vec![])));
    let resource = Uid(asked.power.over(), id.to_owned());
    let attributes = owner.clone().map(|uid| ("owner".to_owned(), Value::Entity(uid)));
    nodes.push(Node { uid: resource.clone(), attributes: attributes.into_iter().collect(), parents: vec![] });
    let datetime = |us: u64| Value::Datetime(build::milliseconds(us));
    let mut context = BTreeMap::from([
        ("now".to_owned(), datetime(asked.now_us)),
        ("via".to_owned(), Value::String(asked.door.via.as_str().to_owned())),
    ]);
    context.extend(asked.door.source_ip.map(|ip| ("source_ip".to_owned(), Value::Ip(ip.to_string()))));
    context.extend(asked.expires_us.map(|us| ("expires".to_owned(), datetime(us))));
    // Always there, so that a forbid needs no `has`.
    context.extend((asked.power == Power::Run).then(|| ("run".to_owned(), ran_record(asked.ran))));
    let owed = Owed { principal: build::credential(asked.subject), owner, ..Owed::default() };
    Built { principal, action: asked.power.as_str().to_owned(), resource, context, nodes, owed }
}

fn ran_record(ran: Ran) -> Value {
    Value::Record(BTreeMap::from([
        ("bytes_hour".to_owned(), Value::Long(ran.bytes_hour)),
        ("runs_hour".to_owned(), Value::Long(ran.runs_hour)),
    ]))
}

/// The policies of `set` on powers, as if whatever they ask of context and resource were so.
pub(super) fn ever(set: &PolicySet) -> Result<PolicySet, String> {
    let on_powers = |policy: &&Policy| Power::ALL.into_iter().any(|power| fits_power(policy, power));
    let mut ever = PolicySet::new();
    for policy in set.policies().filter(on_powers) {
        let mut tree = policy.to_json().map_err(|e| e.to_string())?;
        let looks = tree.get("conditions").is_some_and(looks_at_call);
        if looks && policy.effect() == Effect::Forbid {
            continue;
        }
        if let Some(members) = tree.as_object_mut().filter(|_| looks) {
            members.insert("conditions".to_owned(), json!([]));
        }
        let policy = Policy::from_json(Some(policy.id().clone()), tree).map_err(|e| e.to_string())?;
        ever.add(policy).map_err(|e| e.to_string())?;
    }
    Ok(ever)
}

/// The built-in policy that is there where no file permits a power.
pub(super) const BARE: &str = "par.bare.read";

/// What an administrator may do where no file permits any power: read, and by the admin socket manage keys and put
/// rules on disk in force. So a home whose policies are broken or gone can be looked at and mended, and nothing runs.
pub(super) fn add_bare(set: &mut PolicySet) -> Result<(), String> {
    if set.policies().any(permits_powers) {
        return Ok(());
    }
    let admin = "principal in PAR::Role::\"admin\"";
    let actions = |powers: &[Power]| {
        let names = powers.iter().map(|power| format!("PAR::Action::\"{}\"", power.as_str()));
        names.collect::<Vec<_>>().join(", ")
    };
    let reading = actions(&[
        Power::RunRead,
        Power::AuditRead,
        Power::ApprovalRead,
        Power::ToolsRead,
        Power::HealthRead,
    ]);
    let mending = actions(&[Power::KeyManage, Power::Reload]);
    for (id, text) in [
        (BARE, format!("permit({admin}, action in [{reading}], resource);")),
        (
            "par.bare.socket",
            format!("permit({admin}, action in [{mending}], resource) when {{ context.via == \"socket\" }};"),
        ),
    ] {
        let policy = Policy::parse(Some(PolicyId::new(id)), text).map_err(|e| e.to_string())?;
        set.add(policy).map_err(|e| e.to_string())?;
    }
    Ok(())
}
