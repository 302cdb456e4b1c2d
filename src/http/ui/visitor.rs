//! Who looks at a page: a login whose key still holds, and what it may see.

use super::cookie::Exposure;
use super::format;
use super::logins::Login;
use super::state::Ui;
use crate::auth::{Principal, Refusal, Source};
use crate::gate::{Gate, Granted, Sight};
use crate::http::auth::prove;
use crate::http::link::link;
use crate::http::middleware::Ends;
use crate::http::problem::{Code, Problem};
use crate::policy::{Door, Over, Power, Via};
use crate::types::clock;
use axum::extract::FromRequestParts;
use axum::http::header::{ACCEPT, HOST};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse as _, Redirect, Response};

/// A visitor with an open login.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    principal: Principal,
    login: Login,
    gate: Gate,
    door: Door,
    /// This server's address as the visitor's browser has it, such as `http://127.0.0.1:7117`.
    pub(super) base: String,
}

impl Visitor {
    /// The principal, where it holds `power` over the server.
    pub(super) fn holding(&self, power: Power) -> Result<&Principal, Problem> {
        let _granted: Granted = self.gate.may(&self.principal, power, Over::Server, self.door)?;
        Ok(&self.principal)
    }

    /// Who takes entries out, by the name on the ledger, and what let it.
    pub(super) fn exporting(&self) -> Result<(String, Granted), Problem> {
        let power = self.gate.may(&self.principal, Power::Export, Over::Server, self.door)?;
        Ok((self.principal.id(), power))
    }

    /// The principal, where it could hold `power` over some run or approval. Over which, is asked of each.
    pub(super) fn able(&self, power: Power) -> Result<&Principal, Problem> {
        self.gate.holds(&self.principal, power, self.door)?;
        Ok(&self.principal)
    }

    /// What the visitor may use `power` on.
    pub(super) fn seeing(&self, power: Power) -> Result<Sight, Problem> {
        Ok(self.gate.sight(&self.principal, power, self.door)?)
    }

    /// Whether a page may be offered.
    pub(super) fn may(&self, power: Power) -> bool {
        self.gate.holds(&self.principal, power, self.door).is_ok()
    }

    /// Who looks. What they may do was not asked.
    pub(super) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// By which door the visitor came in.
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
        let login = reach.read(&parts.headers).and_then(|id| ui.logins.find(id, clock::mono_us()));
        let Some(login) = login else { return Err(away(parts)) };
        // Looked at for each request: a key that is revoked or over opens nothing any more.
        match ui.app.authority.standing(&login.proven).await {
            Ok(principal) => {
                prove(&parts.extensions, &principal).map_err(Problem::into_response)?;
                let door = Door { via: Via::Page, source_ip: Some(ends.peer) };
                let (gate, base) = (ui.app.agent.gate().clone(), base(reach, &parts.headers));
                Ok(Self { principal, login, gate, door, base })
            }
            Err(Refusal::Unreadable) => Err(Problem::from(Refusal::Unreadable).into_response()),
            Err(_) => {
                ui.logins.end_of(&login.proven);
                Err(away(parts))
            }
        }
    }
}

pub(super) fn ends(parts: &Parts) -> Result<Ends, Problem> {
    let ends = parts.extensions.get::<Ends>().copied();
    ends.ok_or_else(|| Problem::internal("a request has no source"))
}

/// This server's address; the `Host` was checked by `middleware`.
pub(super) fn base(reach: Exposure, headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    format!("{}://{host}", reach.scheme())
}

/// Whether a page is wanted, and not data.
pub(super) fn wants_page(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepts.into_iter().any(|value| value.contains("text/html"))
}

/// Who has no login is led to the login page and from there to where they wanted to go.
fn away(parts: &Parts) -> Response {
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
