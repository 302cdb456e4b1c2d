//! `/ui/login` and `/ui/logout`: a key opens a login.

use super::cookie::{Exposure, Purpose};
use super::form::{Fields, field, read};
use super::logins::Login;
use super::state::Ui;
use super::visitor::{Visitor, base};
use super::{csrf, page};
use crate::auth::{LoginLinks, Principal, Refusal};
use crate::http::middleware::{AsIs, Ends};
use crate::http::problem::{Code, Problem};
use crate::policy::{Door, Power, Via};
use crate::types::clock;
use axum::extract::{Query, Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Extension, Html, IntoResponse as _, Redirect, Response};
use maud::{Markup, html};

pub(super) async fn form(
    Extension(ends): Extension<Ends>,
    headers: HeaderMap,
    Query(asked): Query<Fields>,
) -> Html<String> {
    let base = base(Exposure::from_request(ends, &headers), &headers);
    Html(shown(&base, next_page(&asked), None).into_string())
}

/// Opens a login for a key, or for the code of a login link, and redirects to the requested page.
pub(super) async fn open(State(ui): State<Ui>, request: Request) -> Result<Response, Problem> {
    let ends = request.extensions().get::<Ends>().copied();
    let ends = ends.ok_or_else(|| Problem::internal("a request has no source"))?;
    csrf::check_own(request.headers())?;
    let reach = Exposure::from_request(ends, request.headers());
    let base = base(reach, request.headers());
    let fields = read(ui.app.bounds.body_unproven_read_max, request).await?;
    let next = next_page(&fields);
    let refused = |status: StatusCode, why: &str| {
        let page = shown(&base, next, Some(why));
        Ok((status, Extension(AsIs), Html(page.into_string())).into_response())
    };
    let key = field(&fields, "key").trim();
    if LoginLinks::is_code(key) {
        let Some(principal) = ui.app.links.redeem(key, clock::mono_us()) else {
            let why = "This link was used already, or is older than a minute. On the server, run par login.";
            return refused(StatusCode::UNAUTHORIZED, why);
        };
        let next = if next == "/ui/" { "/ui/approvals" } else { next };
        return opened(&ui, reach, (principal, Purpose::Answer), field(&fields, "proof"), next);
    }
    let principal = match ui.app.authority.authenticate(key, ends.peer).await {
        Ok(principal) => principal,
        Err(refusal @ (Refusal::TooMany { .. } | Refusal::Unreadable)) => return Err(refusal.into()),
        Err(_) => return refused(StatusCode::UNAUTHORIZED, "This is not a valid key."),
    };
    let door = Door { via: Via::Page, source_ip: Some(ends.peer) };
    if !may_enter(&ui, &principal, door) {
        let why = "The dashboard needs a key that can read runs or the ledger, or approve calls. This key can do none of these.";
        return refused(StatusCode::FORBIDDEN, why);
    }
    // Starts a check, so that the badge of the first page has a result.
    ui.chain.look(&ui.app);
    opened(&ui, reach, (principal, Purpose::Read), field(&fields, "proof"), next)
}

/// Opens the login and leads to the page `next`.
fn opened(
    ui: &Ui,
    reach: Exposure,
    (principal, purpose): (Principal, Purpose),
    proof: &str,
    next: &str,
) -> Result<Response, Problem> {
    let id = ui.logins.open(principal, purpose, proof, clock::mono_us()).map_err(Problem::internal)?;
    let cookie = reach.set(&id, purpose).ok_or_else(|| Problem::internal("the cookie cannot be written"))?;
    Ok(([(SET_COOKIE, cookie)], Redirect::to(next)).into_response())
}

/// Ends the login.
pub(super) async fn close(
    State(ui): State<Ui>,
    Extension(ends): Extension<Ends>,
    _visitor: Visitor,
    request: Request,
) -> Result<Response, Problem> {
    csrf::check_own(request.headers())?;
    let reach = Exposure::from_request(ends, request.headers());
    let find = |purpose| {
        let id = reach.read(request.headers(), purpose)?;
        ui.logins.find(id, clock::mono_us())
    };
    let logins: Vec<Login> = [Purpose::Read, Purpose::Answer].into_iter().filter_map(find).collect();
    let fields = read(ui.app.bounds.body_read_max, request).await?;
    // The page that has the form is that of one login; the other one stays.
    let Some(login) = logins.iter().find(|login| login.made(field(&fields, "token"))) else {
        return Err(Problem::new(Code::Forbidden, "the form belongs to another login: reload the page"));
    };
    ui.logins.end(&login.hash);
    let cookie = reach.clear(login.purpose);
    let cookie = cookie.ok_or_else(|| Problem::internal("the cookie cannot be written"))?;
    Ok(([(SET_COOKIE, cookie)], Redirect::to("/ui/login")).into_response())
}

fn may_enter(ui: &Ui, principal: &Principal, door: Door) -> bool {
    let gate = ui.app.agent.gate();
    [Power::AuditRead, Power::Approve, Power::RunRead]
        .into_iter()
        .any(|power| gate.holds(principal, power, door).is_ok())
}

/// The page to continue with: one of ours and no other.
fn next_page(fields: &Fields) -> &str {
    let next = field(fields, "next");
    let is_plain = next.bytes().all(|b| b.is_ascii_graphic() && b != b'\\') && !next.contains("//");
    if next.starts_with("/ui/") && is_plain { next } else { "/ui/" }
}

fn shown(base: &str, next: &str, why: Option<&str>) -> Markup {
    page::bare(
        "Log in",
        html! {
            h1 { "Log in" }
            p.lead { "See what the agent was asked, what it was allowed to do, and what it did." }
            @if let Some(why) = why { p.notice.bad role="alert" id="why" { (why) } }
            p.notice.warn data-insecure hidden {
                "This page came over plain HTTP from another machine: a key typed here can be read in transit, \
                 and the browser keeps no login. Use HTTPS, or an SSH tunnel to the loopback address."
            }
            form.card.stack method="post" action="/ui/login" {
                input type="hidden" name="next" value=(next);
                // The script creates a proof at each login and keeps it in the tab.
                input type="hidden" name="proof" data-proof="new" autocomplete="off";
                label for="key" { "API key, or the code of a login link" }
                // The script takes the code from the link's fragment, which no server sees.
                input #key data-link type="password" name="key" required autocomplete="current-password" spellcheck="false"
                    autofocus placeholder="par_…" aria-describedby=[why.map(|_| "why")];
                button.primary type="submit" { "Log in" }
            }
            details {
                summary { "No key yet?" }
                p { "On the server, create one that can read the ledger:" }
                pre data-copy tabindex="0" { code { "par key create my-name --role viewer" } }
                p { "To answer approvals as a user of the server, run there:" }
                pre data-copy tabindex="0" { code { "par login" } }
                p.muted { "A login ends after 12 hours without use, after 7 days, or when the key is \
                    revoked. This server is at " (base) "." }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::next_page;

    #[test]
    fn the_login_leads_only_to_our_own_pages() {
        for (next, expect) in [
            ("/ui/runs?status=done", "/ui/runs?status=done"),
            ("/ui/", "/ui/"),
            ("", "/ui/"),
            ("https://evil.example/", "/ui/"),
            ("//evil.example/ui/", "/ui/"),
            ("/ui//evil.example", "/ui/"),
            ("/ui/\\evil", "/ui/"),
            ("/ui/a\r\nSet-Cookie: x=y", "/ui/"),
            ("javascript:alert(1)", "/ui/"),
            ("/agent/run", "/ui/"),
        ] {
            assert_eq!(next_page(&vec![("next".to_owned(), next.to_owned())]), expect, "{next:?}");
        }
    }
}
