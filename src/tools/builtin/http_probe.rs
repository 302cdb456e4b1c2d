//! The head of a web server's response, and how long it took. No byte of the body is returned.

use super::answer::Answer;
use super::http_get::{AnswerHead, request};
use crate::types::clock::mono_us;
use crate::types::{WebUrl, text};
use serde_json::{Map, Value, json};
use std::io::{self, BufReader, Read, Write};
use std::net::IpAddr;

/// Headers whose values are returned; the others are counted. None of them is meant to hold a
/// credential.
const HEADERS: [&str; 14] = [
    "age",
    "cache-control",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "expires",
    "last-modified",
    "retry-after",
    "server",
    "strict-transport-security",
    "transfer-encoding",
    "vary",
    "x-powered-by",
];
/// What is in no answer.
const NOT_SEEN: [&str; 2] = ["the body", "cookies and every header that is not listed"];
/// Bytes that are returned of a value.
const VALUE_BYTES_MAX: usize = 200;
/// Bytes of a body that are counted.
const BODY_BYTES_MAX: usize = 256 << 10;
/// Ends of names that lead to no public host.
const PRIVATE_ENDS: [&str; 5] = [".internal", ".local", ".localhost", ".lan", ".home.arpa"];

/// When a probe began and when its connection ends, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct ProbeTimes {
    /// When the call began.
    pub began_us: u64,
    /// When reads begin to fail.
    pub end_us: u64,
}

impl ProbeTimes {
    fn is_over(self) -> bool {
        mono_us() >= self.end_us
    }

    fn waited_ms(self) -> u64 {
        mono_us().saturating_sub(self.began_us) / 1_000
    }
}

/// Requests `url` over `socket`, which is connected to its host and uses TLS if the URL does.
///
/// The answer holds `status`, `first_byte_ms`, `headers`, `headers_left_out`, `body_bytes`,
/// `body_is_complete`, and for a redirect `location` or `location_left_out`. The body is read to
/// count its bytes, at most 256 KiB. If the time is over, `timed_out` is `head` or `body`, which
/// was not there whole, and what had not come by then is `null`.
pub fn http_probe(mut socket: impl Read + Write, url: &WebUrl, times: ProbeTimes) -> Answer {
    let broke = |e: io::Error| format!("the connection broke: {e}");
    let sent = socket.write_all(request(url).as_bytes()).and_then(|()| socket.flush());
    let mut from = BufReader::new(socket);
    let head = match sent.map_err(broke).and_then(|()| AnswerHead::read(&mut from)) {
        Ok(head) => head,
        Err(_) if times.is_over() => return Ok(without_head(url, times)),
        Err(why) => return Err(why),
    };
    let first_byte_ms = times.waited_ms();
    let read = head.body.read(&mut from, BODY_BYTES_MAX);
    let timed_out = (read.is_err() && times.is_over()).then_some("body");
    // A body that breaks off does not make the head unknown.
    let (body_bytes, is_complete) = read.map_or((None, false), |(body, cut)| (Some(body.len()), !cut));
    let mut answer = json!({
        "status": head.status,
        "first_byte_ms": first_byte_ms,
        "tls": url.is_tls(),
        "body_bytes": body_bytes,
        "body_is_complete": is_complete,
        "timed_out": timed_out,
        "waited_ms": times.waited_ms(),
        "not_seen": NOT_SEEN,
        "truncated": false,
    });
    if let Some(members) = answer.as_object_mut() {
        put_headers(members, &head);
        if let Some(location) = head.location.as_deref() {
            put_location(members, url, location);
        }
    }
    Ok(answer)
}

/// The answer about a server that sent no whole head in time.
fn without_head(url: &WebUrl, times: ProbeTimes) -> Value {
    json!({
        "status": null,
        "first_byte_ms": null,
        "tls": url.is_tls(),
        "headers": {},
        "body_bytes": null,
        "body_is_complete": false,
        "timed_out": "head",
        "waited_ms": times.waited_ms(),
        "not_seen": NOT_SEEN,
        "truncated": false,
    })
}

fn put_headers(members: &mut Map<String, Value>, head: &AnswerHead) {
    let mut headers = Map::new();
    let mut left_out = 0_u64;
    for (name, value) in &head.headers {
        match HEADERS.iter().find(|known| **known == name) {
            Some(known) if !headers.contains_key(*known) => {
                let value = text::visible_line(text::prefix(value, VALUE_BYTES_MAX));
                headers.insert((*known).to_owned(), json!(value));
            }
            _ if name == "location" => {}
            _ => left_out += 1,
        }
    }
    members.insert("headers".to_owned(), headers.into());
    members.insert("headers_left_out".to_owned(), json!(left_out));
}

/// Where a redirect leads: host and path of a public host, without the query, which may hold a
/// token. It is not followed.
fn put_location(members: &mut Map<String, Value>, url: &WebUrl, location: &str) {
    let absolute = match location.strip_prefix('/') {
        Some(rest) if !rest.starts_with('/') => {
            let scheme = if url.is_tls() { "https" } else { "http" };
            format!("{scheme}://{}/{rest}", url.host_header())
        }
        _ => location.to_owned(),
    };
    let without_fragment = absolute.split('#').next().unwrap_or_default();
    let reason = match WebUrl::parse(without_fragment) {
        Err(_) => "not a plain http or https URL",
        Ok(to) if is_private(&to) && to.host_port() != url.host_port() => "not a public host",
        Ok(to) => {
            let path = to.path_and_query().split('?').next().unwrap_or_default().to_owned();
            let path = text::visible_line(text::prefix(&path, VALUE_BYTES_MAX));
            let host = to.host_port().as_str().to_owned();
            members.insert("location".to_owned(), json!({ "host": host, "path": path, "tls": to.is_tls() }));
            return;
        }
    };
    members.insert("location_left_out".to_owned(), json!(reason));
}

/// Whether a URL names an address that is not public, or a name that only an inner network knows.
fn is_private(url: &WebUrl) -> bool {
    let to = url.host_port();
    match to.ip() {
        Some(IpAddr::V4(ip)) => {
            ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_unspecified()
                || ip.is_multicast()
        }
        // A literal of version 6 is rarely where a public site redirects to.
        Some(IpAddr::V6(_)) => true,
        None => {
            let host = to.host();
            !host.contains('.') || PRIVATE_ENDS.iter().any(|end| host.ends_with(end))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ProbeTimes, http_probe};
    use crate::types::WebUrl;
    use serde_json::{Value, json};
    use std::io::{self, Read, Write};

    struct SpokenServer<'a>(&'a [u8], Vec<u8>);

    impl Read for SpokenServer<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(into)
        }
    }

    impl Write for SpokenServer<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn probe(answer: &str) -> Result<Value, String> {
        let url = WebUrl::parse("https://shop.example.com/a?b=c").expect("a URL");
        let times = ProbeTimes { began_us: crate::types::clock::mono_us(), end_us: u64::MAX };
        http_probe(SpokenServer(answer.as_bytes(), Vec::new()), &url, times)
    }

    #[test]
    fn a_response_is_its_status_and_listed_headers() {
        let answer = probe(
            "HTTP/1.1 200 OK\r\nServer: nginx\r\nSet-Cookie: id=S3CRET\r\nX-Token: S3CRET\r\n\
             Content-Type: text/html\u{1b}[2J\r\nContent-Length: 11\r\n\r\nBODY-S3CRET",
        );
        // A control character in a header is not HTTP.
        assert!(answer.is_err(), "{answer:?}");
        let answer = probe(
            "HTTP/1.1 200 OK\r\nServer: nginx\r\nSet-Cookie: id=S3CRET\r\nX-Token: S3CRET\r\n\
             Content-Type: text/html; \u{202e}x\r\nContent-Length: 11\r\n\r\nBODY-S3CRET",
        )
        .expect("a response");
        assert_eq!((&answer["status"], &answer["body_bytes"]), (&json!(200), &json!(11)));
        assert_eq!((&answer["headers_left_out"], &answer["body_is_complete"]), (&json!(2), &json!(true)));
        assert_eq!(answer["headers"]["server"], "nginx");
        let shown = answer.to_string();
        assert!(!shown.contains("S3CRET") && !shown.contains('\u{202e}'), "{shown}");
    }

    /// C5, C6: a redirect to the metadata service or into an inner network is not repeated, and no
    /// query is.
    #[test]
    fn a_redirect_is_reported_only_if_it_is_harmless() {
        for (location, expect) in [
            (
                "https://www.example.com/new?token=S3CRET#x",
                json!({"host":"www.example.com:443","path":"/new","tls":true}),
            ),
            ("/login?next=S3CRET", json!({"host":"shop.example.com:443","path":"/login","tls":true})),
            ("http://169.254.169.254/latest/S3CRET", Value::Null),
            ("http://10.0.0.7/S3CRET", Value::Null),
            ("http://0x7f.1/S3CRET", Value::Null),
            ("http://[::ffff:169.254.169.254]/S3CRET", Value::Null),
            ("http://metadata.google.internal/S3CRET", Value::Null),
            ("http://localhost/S3CRET", Value::Null),
            ("//evil.example.com/S3CRET", Value::Null),
            ("javascript:S3CRET", Value::Null),
            ("https://user:S3CRET@example.com/", Value::Null),
            ("https://example.com/a b S3CRET", Value::Null),
        ] {
            let answer =
                probe(&format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"));
            let answer = answer.expect(location);
            assert_eq!(answer.get("location").cloned().unwrap_or_default(), expect, "{location}");
            assert_eq!(answer.get("location_left_out").is_some(), expect.is_null(), "{location}");
            assert!(!answer.to_string().contains("S3CRET"), "{location}: {answer}");
        }
    }

    #[test]
    fn an_endless_or_broken_body_is_counted_so_far() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let endless = format!("{head}{}", "4000\r\n".to_owned() + &"x".repeat(0x4000) + "\r\n").repeat(1);
        let chunks = format!("4000\r\n{}\r\n", "x".repeat(0x4000)).repeat(40);
        for (answer, bytes, is_complete) in [
            (format!("{head}{chunks}"), json!(256 << 10), false),
            (endless, json!(0x4000), false),
            (format!("{head}3\r\nabcdef\r\n"), Value::Null, false),
            ("HTTP/1.0 200 OK\r\n\r\nto the end".to_owned(), json!(10), true),
        ] {
            let answer = probe(&answer).expect("a response");
            assert_eq!((&answer["body_bytes"], &answer["body_is_complete"]), (&bytes, &json!(is_complete)));
        }
        for answer in
            ["", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"]
        {
            assert!(probe(answer).is_err(), "{answer}");
        }
    }
}
