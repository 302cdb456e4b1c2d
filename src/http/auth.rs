//! Who asks: the key in a request becomes a principal, which is given out only for a named power.

use super::app::App;
use super::connections::Mark;
use super::middleware::Ends;
use super::problem::{Code, Problem};
use crate::auth::Principal;
use crate::gate::{Gate, Granted, Refused, Sight};
use crate::policy::{Door, Over, Power, Via};
use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, HeaderName};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use std::net::IpAddr;

/// A caller whose key is valid. What it may do was not asked yet.
#[derive(Debug)]
pub(super) struct Caller {
    principal: Principal,
    source: IpAddr,
    gate: Gate,
}

impl Caller {
    /// The address that the request came from.
    pub(super) fn source(&self) -> IpAddr {
        self.source
    }

    /// By which door it came in.
    pub(super) fn door(&self) -> Door {
        Door { via: Via::Http, source_ip: Some(self.source) }
    }

    /// The principal, where it holds `power` over the server.
    pub(super) fn holding(self, power: Power) -> Result<Principal, Problem> {
        let _granted: Granted = self.gate.may(&self.principal, power, Over::Server, self.door())?;
        Ok(self.principal)
    }

    /// Who takes entries out, by the name on the ledger, and what let it.
    pub(super) fn exporting(self) -> Result<(String, Granted), Problem> {
        let power = self.gate.may(&self.principal, Power::Export, Over::Server, self.door())?;
        Ok((self.principal.id(), power))
    }

    /// The principal, where it could hold `power` over some run or approval. Over which, is asked of each.
    pub(super) fn able(self, power: Power) -> Result<Principal, Problem> {
        self.gate.holds(&self.principal, power, self.door())?;
        Ok(self.principal)
    }

    /// What the caller may use `power` on.
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
        let ends = parts.extensions.get::<Ends>().copied();
        let ends = ends.ok_or_else(|| Problem::internal("a request has no source"))?;
        let key = presented(&parts.headers)?;
        let principal = app.authority.authenticate(key, ends.peer).await?;
        prove(&parts.extensions, &principal)?;
        Ok(Self { principal, source: ends.peer, gate: app.agent.gate().clone() })
    }
}

/// Marks that a request has a valid key, which keeps its connection its slot; refused where its key has too many.
pub(super) fn prove(extensions: &Extensions, principal: &Principal) -> Result<(), Problem> {
    let is_in_share = extensions.get::<Mark>().is_none_or(|mark| mark.proven(&principal.id()));
    let too_many =
        || Problem::new(Code::TooMany, "too many requests of this key are under way").retry_after(1);
    is_in_share.then_some(()).ok_or_else(too_many)
}

/// The key of a request; empty where there is none. Two that differ are refused: which of them was
/// meant is not ours to guess.
fn presented(headers: &HeaderMap) -> Result<&str, Problem> {
    let bearer = only(headers, AUTHORIZATION)?.map(|value| match value.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => key.trim(),
        // Another scheme is a key that we do not know, not the lack of one.
        _ => "other-scheme",
    });
    let plain = only(headers, HeaderName::from_static("x-api-key"))?.map(str::trim);
    match (bearer, plain) {
        (Some(a), Some(b)) if a != b => {
            Err(Problem::new(Code::Malformed, "`Authorization` and `X-API-Key` hold different keys"))
        }
        (Some(key), _) | (None, Some(key)) => Ok(key),
        (None, None) => Ok(""),
    }
}

fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(&name).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(Problem::new(Code::Malformed, format!("`{name}` is there twice")));
    }
    // What is no visible ASCII is no key of ours.
    Ok(first.map(|value| value.to_str().unwrap_or("not-ascii")))
}
