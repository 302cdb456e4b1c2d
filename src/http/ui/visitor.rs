//! The visitor of a page: a login whose key is still valid, and its powers.

use super::cookie::{Exposure, Purpose};
use super::format;
use super::logins::Login;
use super::state::Ui;
use crate::auth::{Principal, Refusal, Source};
use crate::gate::{Gate, Granted, Sight};
use crate::http::app::App;
use crate::http::auth::prove;
use crate::http::link::link;
use crate::http::middleware::Ends;
use crate::http::problem::{Code, Problem};
use crate::ledger::{Filter, Stored};
use crate::policy::{Door, Over, Power, Via};
use crate::types::{RunId, clock};
use axum::extract::FromRequestParts;
use axum::http::header::{ACCEPT, HOST};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse as _, Redirect, Response};
use std::collections::BTreeSet;

/// What a visitor may read of the ledger.
#[derive(Debug)]
pub(super) enum Scope {
    /// Every entry.
    All,
    /// The entries of these runs.
    Runs(Sight),
}

impl Scope {
    /// Confines a query to the scope. A query for one visible run finds all of its entries, also
    /// those of a person who answered. Blocking.
    pub(super) fn confine(&self, app: &App, filter: Filter) -> Result<Filter, Problem> {
        let Self::Runs(sight) = self else { return Ok(filter) };
        let mut runs = filter.runs().unwrap_or_default().into_iter();
        if runs.len() > 0 && runs.try_fold(true, |all, run| sees(app, sight, run).map(|sees| all && sees))? {
            return Ok(filter);
        }
        Ok(filter.in_runs_of(app.agent.run_owners(sight)?))
    }

    /// Whether an entry is in the scope. Blocking.
    pub(super) fn has(&self, app: &App, stored: &Stored) -> Result<bool, Problem> {
        let Self::Runs(sight) = self else { return Ok(true) };
        stored.header.str("run").map_or(Ok(false), |run| sees(app, sight, run))
    }
}

fn sees(app: &App, sight: &Sight, run: &str) -> Result<bool, Problem> {
    let Some(run) = RunId::parse(run) else { return Ok(false) };
    Ok(app.agent.find(sight, &run)?.is_some())
}

/// A visitor with an open login.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    principal: Principal,
    login: Login,
    gate: Gate,
    door: Door,
    /// Other callers of the same user.
    same: BTreeSet<String>,
    /// This server's address in the visitor's browser, such as `http://127.0.0.1:7117`.
    pub(super) base: String,
}

impl Visitor {
    /// Returns the principal if it holds `power` over the server.
    pub(super) fn holding(&self, power: Power) -> Result<&Principal, Problem> {
        let _granted: Granted = self.gate.may(&self.principal, power, Over::Server, self.door)?;
        Ok(&self.principal)
    }

    /// Returns the exporter's name for the ledger and the grant that permits the export.
    pub(super) fn exporting(&self) -> Result<(String, Granted), Problem> {
        let power = self.gate.may(&self.principal, Power::Export, Over::Server, self.door)?;
        Ok((self.principal.id(), power))
    }

    /// Returns the principal if it may hold `power` over some run or approval. Each object is
    /// checked separately.
    pub(super) fn able(&self, power: Power) -> Result<&Principal, Problem> {
        self.gate.holds(&self.principal, power, self.door)?;
        Ok(&self.principal)
    }

    /// Returns the objects over which the visitor holds `power`. A login is of a user: what other
    /// keys of the user own, and the same user of this host, counts as the visitor's own.
    pub(super) fn seeing(&self, power: Power) -> Result<Sight, Problem> {
        Ok(self.gate.sight(&self.principal, power, self.door)?.of_user(self.same.clone()))
    }

    /// Returns what the visitor may read of the ledger: all of it, or the entries of the runs that
    /// the visitor sees.
    pub(super) fn reading(&self) -> Result<Scope, Problem> {
        match self.holding(Power::AuditRead) {
            Ok(_) => Ok(Scope::All),
            Err(refused) => self.seeing(Power::RunRead).map(Scope::Runs).map_err(|_| refused),
        }
    }

    /// Whether to offer the visitor a page that needs `power`.
    pub(super) fn may(&self, power: Power) -> bool {
        self.gate.holds(&self.principal, power, self.door).is_ok()
    }

    /// The principal. Its powers have not been checked.
    pub(super) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The door that the visitor came through.
    pub(super) fn door(&self) -> Door {
        self.door
    }

    /// The name of the key, and its role.
    pub(super) fn shown(&self) -> (String, &'static str) {
        let name = match self.principal.source() {
            Source::Key { name, .. } | Source::Os { name } => format::line(name, 40),
        };
        (name, self.principal.role().as_str())
    }

    /// The login.
    pub(super) fn login(&self) -> &Login {
        &self.login
    }
}

impl FromRequestParts<Ui> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, ui: &Ui) -> Result<Self, Response> {
        let ends = ends(parts).map_err(Problem::into_response)?;
        let reach = Exposure::from_request(ends, &parts.headers);
        let find = |purpose| {
            let id = reach.read(&parts.headers, purpose)?;
            ui.logins.find(id, clock::mono_us())
        };
        // Where answers are given, the login that answers counts.
        let order = match parts.uri.path().starts_with("/ui/approvals") {
            true => [Purpose::Answer, Purpose::Read],
            false => [Purpose::Read, Purpose::Answer],
        };
        let login = order.into_iter().find_map(find);
        let Some(login) = login else { return Err(to_login(parts)) };
        // Checked for each request: a revoked or expired key opens nothing any more.
        match ui.app.authority.standing(&login.proven).await {
            Ok(principal) => {
                prove(&parts.extensions, &principal).map_err(Problem::into_response)?;
                let door = Door { via: Via::Page, source_ip: Some(ends.peer) };
                let (gate, base) = (ui.app.agent.gate().clone(), base(reach, &parts.headers));
                // Whoever reads the whole ledger sees every run.
                let same = match gate.holds(&principal, Power::AuditRead, door) {
                    Ok(()) => BTreeSet::new(),
                    Err(_) => {
                        let same = ui.app.authority.same_user(&principal).await;
                        same.map_err(|e| Problem::internal(e).into_response())?
                    }
                };
                Ok(Self { principal, login, gate, door, same, base })
            }
            Err(Refusal::Unreadable) => Err(Problem::from(Refusal::Unreadable).into_response()),
            Err(_) => {
                ui.logins.end_of(&login.proven);
                Err(to_login(parts))
            }
        }
    }
}

pub(super) fn ends(parts: &Parts) -> Result<Ends, Problem> {
    let ends = parts.extensions.get::<Ends>().copied();
    ends.ok_or_else(|| Problem::internal("a request has no source"))
}

/// This server's address. `middleware` has checked the `Host`.
pub(super) fn base(reach: Exposure, headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    format!("{}://{host}", reach.scheme())
}

/// Whether the client wants a page rather than data.
pub(super) fn wants_page(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepts.into_iter().any(|value| value.contains("text/html"))
}

/// Redirects a visitor without a login to the login page, and from there to the requested page.
fn to_login(parts: &Parts) -> Response {
    if parts.method == Method::GET && wants_page(&parts.headers) {
        let wanted = parts.uri.path_and_query().map_or("/ui/", |wanted| wanted.as_str());
        let to = match wanted {
            "/ui/" => "/ui/login".to_owned(),
            wanted => link("/ui/login", &[("next", wanted)]),
        };
        return Redirect::to(&to).into_response();
    }
    Problem::new(Code::Unauthenticated, "log in at `/ui/login`").into_response()
}
