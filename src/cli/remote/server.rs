//! Requests to a server over HTTP, with the caller's own key.

use crate::agent::RunReply;
use crate::cli::compose;
use crate::cli::exit::{self, Fail};
use crate::cli::progress::Busy;
use crate::config::client_key;
use crate::egress::{Client, Credential, EgressError, Endpoint, HttpRequest, Response};
use crate::ledger::WAY_OUT;
use crate::types::{Secret, limits, text};
use serde_json::Value;
use std::time::Duration;

/// The address of a server behind `par.sock`, as its requests name it.
pub(super) const SOCKET_URL: &str = "http://par.sock";

/// The server at `url`, for people.
pub(super) fn place(url: &str) -> &str {
    if url == SOCKET_URL { "the server of this home" } else { url }
}

/// Where a caller's key is taken from.
const KEY_PLACES: &str = "set PAR_KEY, name a key file in PAR_KEY_FILE, or write ~/.config/par/key";

/// A server, and how this caller reaches it.
pub(in crate::cli) struct Server {
    pub(super) url: String,
    /// The caller's key; `None` over `par.sock`, where the kernel says who asks.
    pub(super) key: Option<Secret>,
    /// The address under which its log is known.
    pub(super) address: String,
    pub(super) client: Client,
    pub(super) runtime: tokio::runtime::Runtime,
}

impl Server {
    /// Takes the key from the caller's environment. Refuses a server to which the key would travel
    /// in clear text.
    pub(in crate::cli) fn at(url: &str) -> Result<Self, Fail> {
        if !Endpoint::parse(url, "").map_err(Fail::usage)?.is_private() {
            return Err(Fail::usage(format!("{url}: the key would travel in clear text: use https")));
        }
        let (client, runtime) = (Client::new(None), compose::runtime()?);
        let Some(key) = client_key().map_err(|e| Fail::new(exit::UNAUTHENTICATED, e))? else {
            // If no server answers there, the key is not what is missing.
            runtime.block_on(exchange(&client, url, None, "/readyz", None)).map_or_else(
                |fail| if fail.code == exit::UNREACHABLE { Err(fail) } else { Ok(()) },
                |_| Ok(()),
            )?;
            let what = format!("no API key for the server at {url}: {KEY_PLACES}");
            return Err(Fail::new(exit::UNAUTHENTICATED, what));
        };
        Ok(Self {
            url: url.to_owned(),
            key: Some(key),
            address: url.trim_end_matches('/').to_owned(),
            client,
            runtime,
        })
    }

    /// Requests `path` and returns plain text. Blocking.
    pub(in crate::cli) fn text(&self, path: &str) -> Result<String, Fail> {
        let bytes =
            self.runtime.block_on(exchange(&self.client, &self.url, self.key.as_ref(), path, None))?;
        String::from_utf8(bytes)
            .map_err(|_| Fail::failed(format!("{}: the answer is not text", place(&self.url))))
    }

    /// Reads the events of `path` and passes the `data` of each one to `each`, until `each` returns
    /// false or the server ends the stream. Blocking.
    pub(in crate::cli) fn events(&self, path: &str, mut each: impl FnMut(&str) -> bool) -> Result<(), Fail> {
        let endpoint = Endpoint::parse(&self.url, path).map_err(Fail::failed)?;
        let ask = HttpRequest {
            endpoint: &endpoint,
            credential: self.key.as_ref().map(Credential::Bearer),
            headers: &[("accept", "text/event-stream")],
            body: None,
            // The server sends a comment every 15 seconds.
            deadline: Duration::from_secs(60),
        };
        let mut left = Vec::new();
        let answer = self.runtime.block_on(self.client.listen(ask, |piece| {
            left.extend_from_slice(piece);
            while let Some(end) = left.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = left.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                if line.strip_prefix("data: ").is_some_and(|data| !each(data.trim_end())) {
                    return false;
                }
            }
            // An event is far shorter: a line without an end is not an event.
            left.len() < limits::REQUEST_BYTES_MAX
        }));
        let answer = answer.map_err(|e| unanswered(&self.url, &e))?;
        if answer.status == 200 { Ok(()) } else { Err(refused_with(&self.url, &answer)) }
    }

    /// Sends a run. Says what it waits for, and that the run goes on if Ctrl-C ends the waiting.
    pub(super) fn ask_run(&self, path: &str, body: &Value) -> Result<Value, Fail> {
        let _busy = Busy::new(|| "waiting for the run".to_owned());
        self.runtime.block_on(async {
            tokio::select! {
                answer = ask(&self.client, &self.url, self.key.as_ref(), path, Some(body)) => answer,
                heard = tokio::signal::ctrl_c() => Err(heard.map_or_else(Fail::failed, |()| self.goes_on())),
            }
        })
    }

    /// The outcome of a command that does not wait for its run any longer.
    pub(super) fn goes_on(&self) -> Fail {
        let place = place(&self.url);
        Fail::new(
            exit::WAITING,
            format!("the run goes on, at {place}: `par runs list` shows it, and `par runs show` its outcome"),
        )
    }

    /// What the server says of a damaged ledger, on which nothing runs; `None` if it reports none,
    /// or does not answer.
    pub(in crate::cli) fn damage(&self) -> Option<String> {
        let endpoint = Endpoint::parse(&self.url, "/readyz").ok()?;
        let ask = HttpRequest {
            endpoint: &endpoint,
            credential: None,
            headers: &[],
            body: None,
            deadline: Duration::from_millis(limits::ADMIN_ANSWER_MS_MAX),
        };
        let answer = self.runtime.block_on(self.client.exchange(ask)).ok()?;
        let body = String::from_utf8_lossy(&answer.body);
        let state = body.strip_prefix("ledger_damaged\n")?.trim_end().strip_prefix("ledger: ")?;
        let state = text::visible_line(text::prefix(state, limits::SHOWN_BYTES_MAX));
        Some(format!(
            "the ledger is damaged ({state}): nothing runs, and no answer, key or rule is taken; {WAY_OUT}"
        ))
    }

    /// Requests `path`, with `POST` if there is a body. Blocking.
    pub(in crate::cli) fn ask(&self, path: &str, body: Option<&Value>) -> Result<Value, Fail> {
        self.runtime.block_on(ask(&self.client, &self.url, self.key.as_ref(), path, body))
    }
}

/// Sends a run with `key`.
pub(in crate::cli) async fn post(
    client: &Client,
    url: &str,
    key: &Secret,
    body: &Value,
) -> Result<RunReply, Fail> {
    reply(url, ask(client, url, Some(key), "/agent/run", Some(body)).await?)
}

pub(super) fn reply(url: &str, reply: Value) -> Result<RunReply, Fail> {
    serde_json::from_value(reply)
        .map_err(|e| Fail::failed(format!("{}: the answer cannot be read: {e}", place(url))))
}

async fn ask(
    client: &Client,
    url: &str,
    key: Option<&Secret>,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, Fail> {
    let answer = exchange(client, url, key, path, body).await?;
    serde_json::from_slice(&answer)
        .map_err(|e| Fail::failed(format!("{}: the answer cannot be read: {e}", place(url))))
}

async fn exchange(
    client: &Client,
    url: &str,
    key: Option<&Secret>,
    path: &str,
    body: Option<&Value>,
) -> Result<Vec<u8>, Fail> {
    let endpoint = Endpoint::parse(url, path).map_err(Fail::failed)?;
    let body = body.map(Value::to_string);
    let ask = HttpRequest {
        endpoint: &endpoint,
        credential: key.map(Credential::Bearer),
        headers: &[],
        body: body.as_ref().map(String::as_bytes),
        deadline: Duration::from_millis(limits::RUN_MS_MAX + limits::MODEL_MS_MAX),
    };
    let response = client.exchange(ask).await.map_err(|e| unanswered(url, &e))?;
    if matches!(response.status, 200 | 202) {
        return Ok(response.body);
    }
    Err(refused_with(url, &response))
}

/// The error for a request without an answer.
pub(super) fn unanswered(url: &str, error: &EgressError) -> Fail {
    let what = match error {
        EgressError::Connect(why) => format!("no server answers at {}: {why}", place(url)),
        other => format!("{}: {other}", place(url)),
    };
    Fail::new(exit::UNREACHABLE, what)
}

/// The error for a response that is not a success.
fn refused_with(url: &str, response: &Response) -> Fail {
    refused(url, response.status, &serde_json::from_slice(&response.body).unwrap_or_default())
}

/// The error for a response of this status, or for a run that ended with a problem (status 0).
pub(super) fn refused(url: &str, status: u16, problem: &Value) -> Fail {
    let status = match status {
        0 => problem.get("status").and_then(Value::as_u64).and_then(|of| u16::try_from(of).ok()).unwrap_or(0),
        status => status,
    };
    let word = |name: &str| text::visible_line(problem.get(name).and_then(Value::as_str).unwrap_or_default());
    let code = match status {
        _ if ["ledger_damaged", "damaged"].contains(&word("code").as_str()) => exit::UNVERIFIED,
        401 => {
            let what = format!("the server at {url} does not accept this key: {KEY_PLACES}");
            return Fail::new(exit::UNAUTHENTICATED, what);
        }
        403 => exit::DENIED,
        409 if word("code") == "halted" => exit::DENIED,
        // A missing object or a changed state is not a usage error.
        404 | 409 => exit::FAILED,
        400 | 405..=422 => exit::USAGE,
        429 => exit::LIMIT,
        _ => exit::FAILED,
    };
    Fail::new(code, format!("{}: {status} {}: {}", place(url), word("code"), word("detail")))
}

#[cfg(test)]
mod tests {
    use super::{SOCKET_URL, refused};
    use crate::cli::exit;
    use serde_json::json;

    fn answered(status: u16, code: &str) -> (u8, String) {
        let fail = refused(SOCKET_URL, status, &json!({ "code": code, "detail": "why" }));
        (fail.code, fail.what)
    }

    /// A run on a damaged ledger exits with 5, next to a server as without one.
    #[test]
    fn a_damaged_ledger_has_the_same_exit_code_beside_a_server() {
        assert_eq!(answered(503, "ledger_damaged").0, exit::UNVERIFIED);
        assert_eq!(answered(500, "damaged").0, exit::UNVERIFIED);
        assert_eq!(answered(503, "ledger").0, exit::FAILED);
    }

    /// The address of a socket is of no use to a person.
    #[test]
    fn the_server_of_a_home_is_named_as_such() {
        assert_eq!(answered(404, "not_found").1, "the server of this home: 404 not_found: why");
    }
}
