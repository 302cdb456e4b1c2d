//! Where approvals are kept: a home, or a server.

use super::refusal::{ok, refused};
use crate::auth::{Principal, Role};
use crate::cli::compose;
use crate::cli::exit::{self, Fail};
use crate::cli::remote::Server;
use crate::config::Config;
use crate::gate::{AnswerError, Approval, OtherMember, OtherNeeded, State};
use crate::http::admin::{self, AdminError, FailureCode, Operation};
use crate::ledger::{AppendError, Ledger};
use crate::types::{ApprovalId, limits, text};
use serde_json::{Value, json};

/// Where approvals are kept.
pub(super) enum ApprovalSource {
    /// A home: its server through the admin socket, or its ledger.
    Home(Box<Config>),
    Server(Box<Server>),
}

/// A page of approvals.
pub(super) struct ApprovalPage {
    pub(super) items: Vec<Value>,
    /// The position of the next page.
    pub(super) next: Option<u64>,
    /// That the ledger is damaged, and the way out.
    pub(super) damage: Option<String>,
}

impl ApprovalSource {
    /// Returns a page of approvals after `after`.
    pub(super) fn page(&self, all: bool, after: u64) -> Result<ApprovalPage, Fail> {
        let mut page = match self {
            Self::Server(server) => {
                let state = if all { "" } else { "&state=pending" };
                server.ask(&format!("/approvals?after={after}{state}"), None)?
            }
            Self::Home(config) => {
                let state = (!all).then_some(State::Pending.as_str());
                match admin::call(
                    &config.home.data,
                    &json!({ "op": Operation::ApprovalList.as_str(), "after": after, "state": state }),
                ) {
                    Err(AdminError::NotRunning) => {
                        let state = (!all).then_some(State::Pending);
                        let ledger = ledger(config)?;
                        let page = Approval::list(&ledger, state, after, limits::PAGE_ITEMS, |_| true);
                        let (items, next) = page.map_err(refused)?;
                        let damage = ledger.damage().map(|of| AppendError::Damaged(Box::new(of)).to_string());
                        json!({ "items": items, "next": next, "damage": damage })
                    }
                    answered => ok(answered)?,
                }
            }
        };
        // A number from the socket, a string over HTTP.
        let next = match page.get("next") {
            Some(Value::String(next)) => next.parse().ok(),
            next => next.and_then(Value::as_u64),
        };
        let damage = match self {
            Self::Server(server) => server.damage(),
            Self::Home(_) => page.get("damage").and_then(Value::as_str).map(text::visible_line),
        };
        let items = match page.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        Ok(ApprovalPage { items, next, damage })
    }

    /// The approval `id`, as the server or the ledger shows it.
    pub(super) fn find(&self, id: &str) -> Result<Value, Fail> {
        let id = parse(id)?;
        match self {
            Self::Server(server) => server.ask(&format!("/approvals/{id}"), None),
            Self::Home(config) => {
                match admin::call(
                    &config.home.data,
                    &json!({ "op": Operation::ApprovalShow.as_str(), "id": id.as_str() }),
                ) {
                    Err(AdminError::NotRunning) => {
                        let found = Approval::find(&ledger(config)?, &id).map_err(refused)?;
                        let found = found.ok_or_else(|| refused(AnswerError::Unknown))?;
                        serde_json::to_value(found).map_err(Fail::failed)
                    }
                    answered => Ok(ok(answered)?.get("approval").cloned().unwrap_or_default()),
                }
            }
        }
    }
}

impl ApprovalSource {
    /// Refuses a user of this home who may not approve `approval`, and on a damaged ledger every
    /// user. A server that is reached with a key refuses other answers itself.
    pub(super) fn check_may(&self, approval: &Value) -> Result<(), Fail> {
        let config = match self {
            Self::Home(config) => config,
            Self::Server(server) => {
                return server.damage().map_or(Ok(()), |what| Err(Fail::new(exit::UNVERIFIED, what)));
            }
        };
        let id = approval.get("id").cloned().unwrap_or_default();
        let asked = json!({ "op": Operation::ApprovalShow.as_str(), "id": id });
        match admin::call(&config.home.data, &asked) {
            Err(AdminError::NotRunning) => {
                drop(compose::open_to_act(config)?);
                check_own(config, approval)
            }
            answered => match ok(answered)?.get("may_not") {
                None | Some(Value::Null) => Ok(()),
                Some(why) => {
                    let word = |name: &str| why.get(name).and_then(Value::as_str).unwrap_or_default();
                    let (code, detail) = (FailureCode::parse(word("code")), word("detail").to_owned());
                    ok(Err(AdminError::Failed(code, detail))).map(|_| ())
                }
            },
        }
    }
}

/// Without a server: the owner of the home cannot approve what they asked for themselves, if a
/// group must.
fn check_own(config: &Config, approval: &Value) -> Result<(), Fail> {
    let by = owner(config)?;
    let groups = approval.get("groups").and_then(Value::as_array).into_iter().flatten();
    let groups: Vec<&str> = groups.filter_map(Value::as_str).collect();
    let word = |at: &str| approval.pointer(at).and_then(Value::as_str);
    let is_same_user = by.user().is_some() && by.user() == word("/requester/user");
    if groups.is_empty() || !(is_same_user || word("/requester/principal") == Some(by.id().as_str())) {
        return Ok(());
    }
    let needed = groups.iter().map(|group| {
        let members = || config.groups.get(*group).into_iter().flatten();
        OtherMember {
            group: (*group).to_owned(),
            exists: members().any(|member| by.user() != Some(member.as_str())),
            is_own: members().any(|member| by.user() == Some(member.as_str())),
        }
    });
    let needed = OtherNeeded { groups: needed.collect(), user: by.user().map(str::to_owned) };
    Err(refused(AnswerError::OwnRequest(needed)))
}

/// Opens the ledger for reading. Only the owner of the home may.
fn ledger(config: &Config) -> Result<Ledger, Fail> {
    owner(config)?;
    compose::open_ledger(config)
}

pub(super) fn owner(config: &Config) -> Result<Principal, Fail> {
    compose::local_principal(config, Some(Role::Admin))
}

pub(super) fn parse(id: &str) -> Result<ApprovalId, Fail> {
    let shown = || text::visible_line(text::prefix(id, limits::SHOWN_BYTES_MAX));
    ApprovalId::parse(id).ok_or_else(|| {
        Fail::usage(format!(
            "`{}` is not a valid approval id, expected `apr_…`: `par approval list` shows the ids",
            shown()
        ))
    })
}
