//! The builtins that are given a connection, and the TLS around it: they run in the call's child.

use super::timed::TimedSocket;
use crate::launcher::host::trust::TlsTrust;
use crate::tools::Builtin;
use crate::tools::builtin::{self, Answer, ProbeTimes, stamped};
use crate::types::WebUrl;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::Value;

/// What a call to a web server has.
pub(crate) struct WebCall<'a> {
    pub(crate) which: Builtin,
    pub(crate) trust: Option<&'a TlsTrust>,
    pub(crate) connected: Option<TimedSocket>,
    pub(crate) arguments: &'a Value,
    pub(crate) cap: usize,
    pub(crate) host: &'a str,
    /// When the call began, on the monotonic clock.
    pub(crate) began_us: u64,
}

/// Requests `url` over the connection. Follows no redirect.
pub(crate) fn get(url: &str, call: WebCall<'_>) -> Answer {
    let WebCall { which, trust, connected, arguments, cap, host, began_us } = call;
    let url = WebUrl::parse(url).map_err(|e| e.to_string())?;
    let mut socket = connected.ok_or("no connection was given")?;
    let mut session = match url.is_tls() {
        false => None,
        true => {
            let trust = trust.ok_or("the launcher has no certificates")?;
            let name = ServerName::try_from(url.host_port().host().to_owned()).map_err(|e| e.to_string())?;
            Some(ClientConnection::new(trust.client.clone(), name).map_err(|e| e.to_string())?)
        }
    };
    if which == Builtin::HttpProbe {
        let times = ProbeTimes { began_us, end_us: socket.end_us };
        let answer = match session.take() {
            None => builtin::http_probe(&mut socket, &url, times),
            Some(session) => builtin::http_probe(&mut StreamOwned::new(session, socket), &url, times),
        };
        return answer.map(|answer| stamped(answer, host));
    }
    match session {
        None => builtin::http_get(&mut socket, &url, arguments, cap),
        Some(session) => builtin::http_get(&mut StreamOwned::new(session, socket), &url, arguments, cap),
    }
}
