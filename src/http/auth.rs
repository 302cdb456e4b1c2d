//! Authentication: the key of a request, or the peer of `par.sock`, becomes a principal, which is
//! released only for a named power.

use super::app::App;
use super::connections::Mark;
use super::middleware::{Ends, SocketPeer};
use super::problem::{Code, Problem};
use crate::auth::Principal;
use crate::gate::{Gate, Granted, Refused, Sight};
use crate::policy::{Door, Over, Power, Via};
use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, HeaderName};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};

/// A caller with a valid key, or a known user of this host. Its powers have not been checked yet.
#[derive(Debug)]
pub(super) struct Caller {
    principal: Principal,
    door: Door,
    gate: Gate,
}

impl Caller {
    /// The door that the request came through.
    pub(super) fn door(&self) -> Door {
        self.door
    }

    /// Returns the principal if it holds `power` over the server.
    pub(super) fn holding(self, power: Power) -> Result<Principal, Problem> {
        let _granted: Granted = self.gate.may(&self.principal, power, Over::Server, self.door)?;
        Ok(self.principal)
    }

    /// Returns the principal and the grant of `power` over the server.
    pub(super) fn granted(self, power: Power) -> Result<(Principal, Granted), Problem> {
        let granted = self.gate.may(&self.principal, power, Over::Server, self.door())?;
        Ok((self.principal, granted))
    }

    /// Returns the exporter's name for the ledger and the grant that permits the export.
    pub(super) fn exporting(self) -> Result<(String, Granted), Problem> {
        let power = self.gate.may(&self.principal, Power::Export, Over::Server, self.door())?;
        Ok((self.principal.id(), power))
    }

    /// Returns the principal if it may hold `power` over some run or approval. Each object is
    /// checked separately.
    pub(super) fn able(self, power: Power) -> Result<Principal, Problem> {
        self.gate.holds(&self.principal, power, self.door())?;
        Ok(self.principal)
    }

    /// Returns the principal, whose powers have not been checked, and whether it may read the whole
    /// ledger.
    pub(super) fn reader(&self) -> (Principal, bool) {
        let reads_all = self.gate.holds(&self.principal, Power::AuditRead, self.door).is_ok();
        (self.principal.clone(), reads_all)
    }

    /// Returns the objects over which the caller holds `power`.
    pub(super) fn seeing(self, power: Power) -> Result<Sight, Problem> {
        Ok(self.gate.sight(&self.principal, power, self.door())?)
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        Self::new(Code::Forbidden, refused.to_string())
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let gate = app.agent.gate().clone();
        if let Some(SocketPeer(principal)) = parts.extensions.get::<SocketPeer>() {
            if !presented(&parts.headers)?.is_empty() {
                return Err(Problem::new(
                    Code::Malformed,
                    "`par.sock` takes no key: you are the user of this host that the kernel reports",
                ));
            }
            return Ok(Self { principal: principal.clone(), door: Door::PAR_SOCK, gate });
        }
        let ends = parts.extensions.get::<Ends>().copied();
        let ends = ends.ok_or_else(|| Problem::internal("a request has no source"))?;
        let key = presented(&parts.headers)?;
        let principal = app.authority.authenticate(key, ends.peer).await?;
        prove(&parts.extensions, &principal)?;
        Ok(Self { principal, door: Door { via: Via::Http, source_ip: Some(ends.peer) }, gate })
    }
}

/// Marks the request as authenticated, which protects the slot of its connection. Refused if its
/// key has too many requests.
pub(super) fn prove(extensions: &Extensions, principal: &Principal) -> Result<(), Problem> {
    let is_in_share = extensions.get::<Mark>().is_none_or(|mark| mark.proven(&principal.id()));
    let too_many =
        || Problem::new(Code::TooMany, "this key has too many requests in progress").retry_after(1);
    is_in_share.then_some(()).ok_or_else(too_many)
}

/// Returns the key of a request, empty without one. Two different keys are refused: the server
/// does not guess which one was meant.
fn presented(headers: &HeaderMap) -> Result<&str, Problem> {
    let bearer = only(headers, AUTHORIZATION)?.map(|value| match value.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => key.trim(),
        // Another scheme is an unknown key, not a missing one.
        _ => "other-scheme",
    });
    let plain = only(headers, HeaderName::from_static("x-api-key"))?.map(str::trim);
    match (bearer, plain) {
        (Some(a), Some(b)) if a != b => Err(Problem::new(
            Code::Malformed,
            "`Authorization` and `X-API-Key` contain different keys: send one key",
        )),
        (Some(key), _) | (None, Some(key)) => Ok(key),
        (None, None) => Ok(""),
    }
}

fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(&name).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(Problem::new(Code::Malformed, format!("`{name}` is present twice: send it once")));
    }
    // A value outside visible ASCII cannot be a key.
    Ok(first.map(|value| value.to_str().unwrap_or("not-ascii")))
}
