//! The HTTP client of the model's provider.

use super::dns::CheckedDns;
use super::endpoint::Endpoint;
use super::error::EgressError;
use super::waits;
use crate::config::{ModelWaits, NamedModel};
use crate::secrets::Parted;
use crate::types::clock::Wall;
use crate::types::{Secret, limits, text};
use ipnet::IpNet;
use reqwest::ClientBuilder;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::OnceCell;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const GOOGLE_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// Sends requests and reads bounded answers. Shared by reference; nothing is built before the first
/// use.
///
/// Follows no redirect, takes no proxy from the environment, never sends a request twice, and never
/// uses plain HTTP for an `https` address. The trusted roots are the system's (the TLS library also
/// reads `SSL_CERT_FILE` and `SSL_CERT_DIR`) and those of the extra file.
pub struct Client {
    ca_file: Option<PathBuf>,
    /// The unix socket to which every request without TLS goes, whatever its address says.
    socket: Option<PathBuf>,
    /// The proxy through which every request goes.
    proxy: Option<Endpoint>,
    /// Checks the addresses of the server; `None` takes them as the system's resolver gives them.
    dns: Option<CheckedDns>,
    /// Deadlines of the parts of an exchange; `None` bounds the connection and the whole only.
    waits: Option<ModelWaits>,
    // Two clients: reading the system's roots takes tens of milliseconds and fails on a host
    // without any, and a server on this host that speaks plain HTTP needs none.
    tls: OnceCell<reqwest::Client>,
    clear: OnceCell<reqwest::Client>,
}

/// How a model's server is reached.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// Certificates (PEM) to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// The `http` URL of a proxy that understands CONNECT (RFC 9110 section 9.3.6).
    pub proxy: Option<String>,
    /// Address ranges that are not public and that a name may lead to.
    pub addresses: Vec<IpNet>,
    /// Deadlines of the parts of an exchange.
    pub waits: ModelWaits,
}

impl Way {
    /// The way to the server of `model`.
    #[must_use]
    pub fn of(model: &NamedModel) -> Self {
        Self {
            ca_file: model.ca_file.clone(),
            proxy: model.proxy.clone(),
            addresses: model.addresses.clone(),
            waits: model.waits,
        }
    }
}

/// One request.
#[derive(Debug)]
pub struct HttpRequest<'a> {
    /// The URL.
    pub endpoint: &'a Endpoint,
    /// The key, if the server needs one, and the header that carries it.
    pub credential: Option<Credential<'a>>,
    /// Sent unchanged: lower-case names and values, none of them secret.
    pub headers: &'static [(&'static str, &'static str)],
    /// JSON text; `None` makes the request a `GET`.
    pub body: Option<&'a [u8]>,
    /// For the whole exchange, from the connection to the last byte.
    pub deadline: Duration,
}

/// A key, in the header that its server expects.
#[derive(Clone, Copy, Debug)]
pub enum Credential<'a> {
    /// `Authorization: Bearer …`
    Bearer(&'a Secret),
    /// `X-API-Key: …`
    ApiKey(&'a Secret),
    /// `X-Goog-API-Key: …`
    GoogleApiKey(&'a Secret),
}

/// An answer with its complete body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The value of `Retry-After`, if present and valid.
    pub retry_after: Option<Duration>,
    /// `X-Request-Id`, else `Request-Id`: printable text of bounded length.
    pub request_id: Option<String>,
    /// `Content-Type`: printable text of bounded length.
    pub content_type: Option<String>,
    /// The body, at most [`limits::MODEL_REPLY_BYTES_MAX`] long.
    pub body: Vec<u8>,
}

impl Parted for Response {
    type Parts = ((u16, Option<Duration>), (Option<String>, Option<String>), Vec<u8>);

    fn apart(self) -> (Self::Parts, fn(Self::Parts) -> Self) {
        let Self { status, retry_after, request_id, content_type, body } = self;
        let whole = |((status, retry_after), (request_id, content_type), body)| Self {
            status,
            retry_after,
            request_id,
            content_type,
            body,
        };
        (((status, retry_after), (request_id, content_type), body), whole)
    }
}

impl Client {
    /// A client that also trusts the certificates (PEM) in `ca_file`.
    #[must_use]
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        let (tls, clear) = (OnceCell::new(), OnceCell::new());
        Self { ca_file, socket: None, proxy: None, dns: None, waits: None, tls, clear }
    }

    /// A client for the one server `to`, to which it goes by `way`. What the configuration names is
    /// checked here: a literal address, the proxy.
    ///
    /// Through a proxy, the proxy looks the server's name up. Its own name is checked instead.
    pub fn along(to: &Endpoint, way: Way) -> Result<Self, EgressError> {
        let refuse = |why: &str| Err(EgressError::Address(format!("the proxy {why}")));
        let proxy = match &way.proxy {
            None => None,
            // The proxy could read key and conversation.
            Some(_) if !to.is_tls() => return refuse("is only for `https` URLs"),
            Some(url) => match Endpoint::parse(url, "") {
                Ok(proxy) if !proxy.is_tls() => Some(proxy),
                Ok(_) => return refuse("must have an `http` URL"),
                Err(e) => return refuse(&format!("has no valid URL: {e}")),
            },
        };
        if let (Some(_), Err(why)) = (&proxy, CheckedDns::new(to.host(), &way.addresses)) {
            return Err(EgressError::Forbidden(why));
        }
        let dns = CheckedDns::new(proxy.as_ref().unwrap_or(to).host(), &way.addresses);
        let dns = Some(dns.map_err(EgressError::Forbidden)?);
        Ok(Self { proxy, dns, waits: Some(way.waits), ..Self::new(way.ca_file) })
    }

    /// The same with another resolver.
    #[cfg(test)]
    pub(super) fn asking(self, look_up: super::dns::LookUp) -> Self {
        Self { dns: self.dns.map(|dns| dns.asking(look_up)), ..self }
    }

    /// A client that sends its requests, which are without TLS, to the unix socket `socket`.
    #[must_use]
    pub fn on_socket(socket: PathBuf) -> Self {
        Self { socket: Some(socket), ..Self::new(None) }
    }

    /// Sends JSON, or a `GET`, and reads the answer, whatever its status.
    pub async fn exchange(&self, ask: HttpRequest<'_>) -> Result<Response, EgressError> {
        let whole = async { read(self.send(&ask).await?, self.idle()).await };
        tokio::time::timeout(ask.deadline, whole).await.unwrap_or(Err(EgressError::Timeout))
    }

    /// Like [`Client::exchange`], but passes the body of an answer of status 2xx to `each` as it
    /// comes, until `each` returns false. Its `Response` has no body. The bounds are the same; what
    /// `each` was given before an error has come.
    pub async fn exchange_in_pieces(
        &self,
        ask: HttpRequest<'_>,
        mut each: impl FnMut(&[u8]) -> bool + Send,
    ) -> Result<Response, EgressError> {
        let whole = async {
            let mut answer = self.send(&ask).await?;
            if !answer.status().is_success() {
                return read(answer, self.idle()).await;
            }
            let response = head(&answer);
            read_pieces(&mut answer, self.idle(), |piece| each(piece)).await?;
            Ok(response)
        };
        tokio::time::timeout(ask.deadline, whole).await.unwrap_or(Err(EgressError::Timeout))
    }

    /// Sends the request and returns the answer with its head.
    async fn send(&self, ask: &HttpRequest<'_>) -> Result<reqwest::Response, EgressError> {
        let client = self.client_for(ask.endpoint).await?;
        let (url, headers) = (ask.endpoint.url(), headers(ask)?);
        let Some(body) = ask.body else {
            return client.get(url).headers(headers).send().await.map_err(EgressError::sort);
        };
        let (body, begun) = waits::watched(body.to_vec());
        let first_byte = self.waits.map_or(ask.deadline, |waits| waits.first_byte);
        waits::head(client.post(url).headers(headers).body(body).send(), begun, first_byte).await
    }

    /// The deadline of each piece of an answer.
    fn idle(&self) -> Option<Duration> {
        self.waits.map(|waits| waits.idle)
    }

    /// Requests a stream and passes each chunk to `each`, until the stream ends or `each` stops it.
    /// The deadline applies to the head, and then to each chunk. An answer with a status other than
    /// 200 is read as by [`Client::exchange`].
    pub async fn listen(
        &self,
        ask: HttpRequest<'_>,
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> Result<Response, EgressError> {
        let late = |_| EgressError::Timeout;
        let client = self.client_for(ask.endpoint).await?;
        let request = match ask.body {
            Some(body) => client.post(ask.endpoint.url()).body(body.to_vec()),
            None => client.get(ask.endpoint.url()),
        };
        let head = request.headers(headers(&ask)?).send();
        let mut answer =
            tokio::time::timeout(ask.deadline, head).await.map_err(late)?.map_err(EgressError::sort)?;
        if answer.status() != 200 {
            return tokio::time::timeout(ask.deadline, read(answer, None)).await.map_err(late)?;
        }
        while let Some(piece) = tokio::time::timeout(ask.deadline, answer.chunk())
            .await
            .map_err(late)?
            .map_err(EgressError::sort)?
        {
            if !each(&piece) {
                break;
            }
        }
        Ok(Response {
            status: 200,
            retry_after: None,
            request_id: None,
            content_type: None,
            body: Vec::new(),
        })
    }

    /// Whether a server answers at `endpoint`: the HTTP status of a GET without a key. The body is
    /// not read.
    pub async fn reach(&self, endpoint: &Endpoint, deadline: Duration) -> Result<u16, EgressError> {
        let whole = async {
            let client = self.client_for(endpoint).await?;
            let answer = client.get(endpoint.url()).send().await.map_err(EgressError::sort)?;
            Ok(answer.status().as_u16())
        };
        tokio::time::timeout(deadline, whole).await.unwrap_or(Err(EgressError::Timeout))
    }

    fn common(&self) -> Result<ClientBuilder, EgressError> {
        let mut common = common();
        if let Some(dns) = self.dns.clone() {
            common = common.dns_resolver(dns);
        }
        if let Some(waits) = self.waits {
            common = common.connect_timeout(waits.connect);
        }
        if let Some(proxy) = &self.proxy {
            common = common.proxy(reqwest::Proxy::https(proxy.url()).map_err(EgressError::sort)?);
        }
        Ok(common)
    }

    async fn client_for(&self, endpoint: &Endpoint) -> Result<&reqwest::Client, EgressError> {
        let common = self.common();
        if endpoint.is_tls() {
            let ca_file = self.ca_file.clone();
            self.tls.get_or_try_init(|| off_the_runtime(move || build_tls(common?, ca_file))).await
        } else {
            let socket = self.socket.clone();
            self.clear.get_or_try_init(|| off_the_runtime(move || build_clear(common?, socket))).await
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("ca_file", &self.ca_file).finish_non_exhaustive()
    }
}

/// Building reads files, so it runs on a blocking thread.
async fn off_the_runtime(
    build: impl FnOnce() -> Result<reqwest::Client, EgressError> + Send + 'static,
) -> Result<reqwest::Client, EgressError> {
    tokio::task::spawn_blocking(build)
        .await
        .unwrap_or_else(|e| Err(EgressError::Address(format!("cannot build the HTTP client: {e}"))))
}

fn build_tls(common: ClientBuilder, ca_file: Option<PathBuf>) -> Result<reqwest::Client, EgressError> {
    let builder = common.https_only(true);
    let Some(file) = ca_file else { return builder.build().map_err(EgressError::sort) };
    let refuse = |why: String| {
        EgressError::Address(format!("cannot use the certificates in `{}`: {why}", file.display()))
    };
    let pem = std::fs::read(&file).map_err(|e| refuse(e.to_string()))?;
    let roots = reqwest::Certificate::from_pem_bundle(&pem)
        .map_err(|_| refuse("expected certificates in PEM".to_owned()))?;
    if roots.is_empty() {
        return Err(refuse("it is empty, expected certificates in PEM".to_owned()));
    }
    builder.tls_certs_merge(roots).build().map_err(|e| refuse(EgressError::sort(e).to_string()))
}

fn build_clear(common: ClientBuilder, socket: Option<PathBuf>) -> Result<reqwest::Client, EgressError> {
    // With an empty set of roots nothing is read, and nothing can be trusted by mistake.
    let clear = common.tls_certs_only([]);
    let clear = match socket {
        Some(path) => clear.unix_socket(path),
        None => clear,
    };
    clear.build().map_err(EgressError::sort)
}

fn common() -> ClientBuilder {
    // An error means that a provider is already installed, which serves as well.
    let _as_good = rustls::crypto::ring::default_provider().install_default();
    #[expect(clippy::disallowed_methods, reason = "only this room makes outbound connections")]
    let builder = reqwest::Client::builder();
    builder
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .referer(false)
        .connect_timeout(Duration::from_millis(limits::CONNECT_MS_MAX))
        .user_agent(concat!("par/", env!("CARGO_PKG_VERSION")))
}

fn headers(ask: &HttpRequest<'_>) -> Result<HeaderMap, EgressError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in ask.headers {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    let (name, value) = match ask.credential {
        Some(Credential::Bearer(secret)) => (AUTHORIZATION, format!("Bearer {}", secret.expose())),
        Some(Credential::ApiKey(secret)) => (API_KEY, secret.expose().to_owned()),
        Some(Credential::GoogleApiKey(secret)) => (GOOGLE_API_KEY, secret.expose().to_owned()),
        None => return Ok(headers),
    };
    let mut value = HeaderValue::from_str(&value).map_err(|_| {
        EgressError::Address("the API key contains a byte that an HTTP header cannot carry".to_owned())
    })?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(headers)
}

async fn read(mut answer: reqwest::Response, idle: Option<Duration>) -> Result<Response, EgressError> {
    let mut response = head(&answer);
    read_pieces(&mut answer, idle, |piece| {
        response.body.extend_from_slice(piece);
        true
    })
    .await?;
    Ok(response)
}

/// An answer without its body.
fn head(answer: &reqwest::Response) -> Response {
    let status = answer.status().as_u16();
    let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| wait_from(value.to_str().ok()?));
    let shown = |name: &str| {
        let value = answer.headers().get(name)?.to_str().ok()?;
        Some(text::visible_line(text::prefix(value, limits::SHOWN_BYTES_MAX)))
    };
    let request_id = ["x-request-id", "request-id"].into_iter().find_map(shown);
    Response { status, retry_after, request_id, content_type: shown("content-type"), body: Vec::new() }
}

/// Reads chunk by chunk, because the announced length cannot be trusted.
async fn read_pieces(
    answer: &mut reqwest::Response,
    idle: Option<Duration>,
    mut each: impl FnMut(&[u8]) -> bool,
) -> Result<(), EgressError> {
    let bytes_max = limits::MODEL_REPLY_BYTES_MAX;
    if answer.content_length().is_some_and(|length| length > bytes_max as u64) {
        return Err(EgressError::TooLarge(bytes_max));
    }
    let mut left = bytes_max;
    while let Some(chunk) = waits::piece(answer, idle).await? {
        left = left.checked_sub(chunk.len()).ok_or(EgressError::TooLarge(bytes_max))?;
        if !each(&chunk) {
            break;
        }
    }
    Ok(())
}

/// Parses `Retry-After`: seconds or a date (RFC 9110 section 10.2.3). A date in the past is zero.
fn wait_from(value: &str) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::parse(value.trim()).ok()?.timestamp().as_microsecond();
    let at = u64::try_from(at).unwrap_or(0);
    Some(Duration::from_micros(at.saturating_sub(Wall::now().0)))
}

#[cfg(test)]
mod tests {
    use super::wait_from;
    use std::time::Duration;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        for (value, expect) in [
            ("0", Some(Duration::ZERO)),
            (" 17 ", Some(Duration::from_secs(17))),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(Duration::ZERO)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(wait_from(value), expect, "{value}");
        }
        let far = wait_from("Fri, 06 Nov 2093 08:49:37 GMT").expect("a date");
        assert!(far > Duration::from_secs(1_000_000_000));
    }
}
