//! Wraps every response of the dashboard: security headers, and errors as pages for a browser.

use super::page::ErrorPage;
use super::state::Ui;
use super::visitor::{Visitor, wants_page};
use crate::http::middleware::{AsIs, Id};
use crate::http::problem::Problem;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{Extension, Html, IntoResponse as _, Response};

/// Allows only our own stylesheet and script, and no markup made from text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'";

pub(super) async fn wrap(State(ui): State<Ui>, request: Request, next: Next) -> Response {
    let is_page = wants_page(request.headers());
    let id = request.extensions().get::<Id>().map(|id| id.0.clone()).unwrap_or_default();
    let (parts, body) = request.into_parts();
    // An error page has the navigation if the request comes with a login.
    let again = is_page.then(|| parts.clone());
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if let Some(parts) = again {
        response = as_page(response, &id, &ui, parts).await;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    for name in ["cross-origin-opener-policy", "cross-origin-resource-policy"] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static("same-origin"));
    }
    response
}

/// Renders an error as a page. Other responses stay unchanged.
async fn as_page(mut response: Response, id: &str, ui: &Ui, mut parts: Parts) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let problem = response.extensions_mut().remove::<Problem>();
    let is_bare = is_error && response.extensions().get::<AsIs>().is_none();
    let Some(problem) = problem.or_else(|| is_bare.then(|| Problem::from_status(status))) else {
        return response;
    };
    let (status, title, detail) = problem.words();
    let page = ErrorPage { status: status.as_u16(), title, detail, id };
    let html = match Visitor::from_request_parts(&mut parts, ui).await {
        Ok(visitor) => page.framed(ui, &visitor),
        Err(_) => Html(page.bare().into_string()),
    };
    (status, Extension(AsIs), html).into_response()
}
