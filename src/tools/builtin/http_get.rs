//! One response of a web server, over a connection that was made for the call.

use super::answer::{Answer, FRAME_BYTES, integer, json_len, shown};
use crate::types::{WebUrl, limits, text};
use serde_json::{Map, Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};

/// Bytes of the body that are read if the call sets no limit.
const LIMIT_DEFAULT: u64 = 16_384;
/// Most headers of a response.
const HEADERS_MAX: usize = 100;
/// The longest line before a chunk, in bytes.
const CHUNK_LINE_BYTES_MAX: u64 = 256;

/// Requests `url` over `socket`, which is connected to its host, uses TLS if the URL does, and has
/// a deadline.
///
/// The answer holds `url`, `status`, `location` and `content_type` if the server sent them,
/// `bytes`, `truncated`, and `text` if the body is UTF-8, else `base64`. It fits
/// `output_bytes_max`. Redirects are not followed and nothing is decompressed. `truncated` says
/// that the body has, or was meant to have, more bytes: the limit was reached, or the connection
/// ended early.
pub fn http_get(
    mut socket: impl Read + Write,
    url: &WebUrl,
    arguments: &Value,
    output_bytes_max: usize,
) -> Answer {
    let broke = |e: io::Error| format!("the connection broke: {e}");
    socket.write_all(request(url).as_bytes()).and_then(|()| socket.flush()).map_err(broke)?;
    let mut from = BufReader::new(socket);
    let head = AnswerHead::read(&mut from)?;
    let mut answer = head.members(url);
    let taken: usize = answer.values().filter_map(Value::as_str).map(json_len).sum();
    let room = output_bytes_max.saturating_sub(FRAME_BYTES + taken);
    let limit = usize::try_from(integer(arguments, "limit", LIMIT_DEFAULT)).unwrap_or(usize::MAX);
    // Base64 takes four bytes for three, so this much fits whatever the bytes are.
    let (body, truncated) = head.body.read(&mut from, limit.min(room / 4 * 3)).map_err(broke)?;
    let (key, content, bytes) = shown(&body, truncated, room);
    answer.insert(key.to_owned(), content.into());
    answer.insert("bytes".to_owned(), bytes.into());
    answer.insert("truncated".to_owned(), truncated.into());
    Ok(answer.into())
}

/// The request for `url`.
pub(super) fn request(url: &WebUrl) -> String {
    let (path, host) = (url.path_and_query(), url.host_header());
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: par\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
}

/// The head of a response.
pub(super) struct AnswerHead {
    pub(super) status: u16,
    pub(super) location: Option<String>,
    content_type: Option<String>,
    /// Every header, its name in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: BodyFraming,
}

/// Where the body ends (RFC 9112 section 6.3).
pub(super) enum BodyFraming {
    Length(u64),
    Chunks,
    UntilClose,
}

impl AnswerHead {
    /// The head of the final response; interim responses are skipped.
    pub(super) fn read(from: &mut impl BufRead) -> Result<Self, String> {
        let mut left = from.take(limits::HEADER_BYTES_MAX as u64);
        loop {
            let bytes = read_block(&mut left).map_err(|e| format!("the head is incomplete: {e}"))?;
            let head = Self::parse(&bytes).map_err(|why| format!("not an HTTP response: {why}"))?;
            if !(100..200).contains(&head.status) {
                return Ok(head);
            }
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut answer = httparse::Response::new(&mut headers);
        if answer.parse(bytes).map_err(|e| e.to_string())?.is_partial() {
            return Err("the head is incomplete".to_owned());
        }
        let status = answer.code.ok_or("the status is missing")?;
        let values = |name: &str| {
            let named = answer.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
            named.map(|header| String::from_utf8_lossy(header.value).trim().to_owned()).collect::<Vec<_>>()
        };
        let first = |name: &str, bytes_max: usize| {
            values(name).first().map(|value| text::prefix(value, bytes_max).to_owned())
        };
        let body = match status {
            204 | 304 => BodyFraming::Length(0),
            _ => BodyFraming::parse(&values("transfer-encoding"), &values("content-length"))?,
        };
        let all = answer.headers.iter();
        let all = all
            .map(|one| (one.name.to_ascii_lowercase(), String::from_utf8_lossy(one.value).trim().to_owned()));
        Ok(Self {
            headers: all.collect(),
            status,
            location: first("location", limits::URL_BYTES_MAX),
            content_type: first("content-type", limits::SHOWN_BYTES_MAX),
            body,
        })
    }

    fn members(&self, url: &WebUrl) -> Map<String, Value> {
        let mut answer = Map::new();
        answer.insert("url".to_owned(), json!(url.as_str()));
        answer.insert("status".to_owned(), json!(self.status));
        for (name, value) in [("location", &self.location), ("content_type", &self.content_type)] {
            if let Some(value) = value {
                answer.insert(name.to_owned(), json!(value));
            }
        }
        answer
    }
}

impl BodyFraming {
    /// With two lengths, or a length and chunks, another party may have used the other one.
    fn parse(encodings: &[String], lengths: &[String]) -> Result<Self, String> {
        match (encodings, lengths) {
            ([], []) => Ok(Self::UntilClose),
            ([one], []) if one.eq_ignore_ascii_case("chunked") => Ok(Self::Chunks),
            ([], [one]) if one.bytes().all(|b| b.is_ascii_digit()) => {
                one.parse().map(Self::Length).map_err(|_| "the length is not a number".to_owned())
            }
            _ => Err("the end of its body is ambiguous".to_owned()),
        }
    }

    /// At most `limit` bytes of the body, and whether it was meant to have more.
    pub(super) fn read(&self, from: &mut impl BufRead, limit: usize) -> io::Result<(Vec<u8>, bool)> {
        let mut body = Vec::new();
        let room = limit as u64;
        let truncated = match self {
            Self::Length(length) => {
                from.take(room.min(*length)).read_to_end(&mut body)?;
                (body.len() as u64) < *length
            }
            Self::UntilClose => {
                from.take(room.saturating_add(1)).read_to_end(&mut body)?;
                body.len() > limit
            }
            Self::Chunks => !read_chunks(from, room, &mut body)?,
        };
        body.truncate(limit);
        Ok((body, truncated))
    }
}

/// Reads chunks (RFC 9112 section 7.1) until the last one, and then returns `true`, or until `room`
/// is used up or the connection ends. Reads nothing after the last chunk.
fn read_chunks(from: &mut impl BufRead, room: u64, body: &mut Vec<u8>) -> io::Result<bool> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
    loop {
        let mut line = Vec::new();
        from.take(CHUNK_LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(false);
        }
        let parsed = httparse::parse_chunk_size(&line).map_err(|_| invalid("expected a chunk"))?;
        let httparse::Status::Complete((_, size)) = parsed else {
            return Err(invalid("the line before a chunk is too long or incomplete"));
        };
        if size == 0 {
            return Ok(true);
        }
        let read = from.take(size.min(room.saturating_sub(body.len() as u64))).read_to_end(body)?;
        if (read as u64) < size {
            return Ok(false);
        }
        let mut end = [0; 2];
        match from.read_exact(&mut end) {
            Ok(()) if end == *b"\r\n" => {}
            Err(e) if e.kind() != io::ErrorKind::UnexpectedEof => return Err(e),
            Err(_) => return Ok(false),
            Ok(()) => return Err(invalid("a chunk is longer than its stated size")),
        }
    }
}

/// Reads up to and including an empty line.
fn read_block(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut block = Vec::new();
    loop {
        let before = block.len();
        if from.read_until(b'\n', &mut block)? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection ended, or it is too long",
            ));
        }
        if matches!(block.get(before..), Some(b"\r\n" | b"\n")) {
            return Ok(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::http_get;
    use crate::types::WebUrl;
    use serde_json::{Value, json};
    use std::io::{self, Read, Write};

    /// A server that sends fixed bytes in pieces of one size, and the request that it got.
    struct PlainServer {
        answer: Vec<u8>,
        at: usize,
        piece: usize,
        asked: Vec<u8>,
    }

    impl Read for PlainServer {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let left = &self.answer[self.at..];
            let read = left.len().min(self.piece).min(into.len());
            into[..read].copy_from_slice(&left[..read]);
            self.at += read;
            Ok(read)
        }
    }

    impl Write for PlainServer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.asked.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn get(
        answer: &[u8],
        piece: usize,
        arguments: &Value,
        cap: usize,
    ) -> (Result<Value, String>, PlainServer) {
        let mut server = PlainServer { answer: answer.to_vec(), at: 0, piece, asked: Vec::new() };
        let url = WebUrl::parse("http://Example.com:8080/a?b").expect("a URL");
        (http_get(&mut server, &url, arguments, cap), server)
    }

    /// The same answer, however its bytes arrive.
    fn answer_of(answer: impl AsRef<[u8]>, arguments: Value) -> Result<Value, String> {
        let [one, seven, all] =
            [1, 7, usize::MAX].map(|piece| get(answer.as_ref(), piece, &arguments, 4_096).0);
        assert_eq!(one, all);
        assert_eq!(seven, all);
        all.map(|mut value| {
            assert_eq!(value["url"], "http://example.com:8080/a?b");
            value.as_object_mut().expect("an object").remove("url");
            value
        })
    }

    #[test]
    fn one_request_is_written() {
        let (_, server) = get(b"HTTP/1.1 204 No Content\r\n\r\n", 9, &json!({}), 4_096);
        assert_eq!(
            String::from_utf8_lossy(&server.asked),
            "GET /a?b HTTP/1.1\r\nHost: example.com:8080\r\nUser-Agent: par\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn a_body_ends_where_the_head_says() {
        let none = || json!({});
        let whole = |text: &str| json!({"status":200,"text":text,"bytes":text.len(),"truncated":false});
        let part = |text: &str| json!({"status":200,"text":text,"bytes":text.len(),"truncated":true});
        for (answer, expect) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello and more", whole("hello")),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", part("hello")),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nhello", whole("")),
            ("HTTP/1.0 200 OK\r\n\r\nhello", whole("hello")),
            ("HTTP/1.1 200\n\nhello", whole("hello")),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhi",
                whole("hi"),
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nT: u\r\n\r\n",
                whole("hello"),
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", part("hel")),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\nhel", part("hel")),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel", part("hel")),
        ] {
            assert_eq!(answer_of(answer, none()), Ok(expect), "{answer:?}");
        }
        let limited = json!({"limit":3});
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello",
        ] {
            assert_eq!(answer_of(answer, limited.clone()), Ok(part("hel")), "{answer:?}");
        }
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhel",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0\r\n\r\n",
        ] {
            assert_eq!(answer_of(answer, limited.clone()), Ok(whole("hel")), "{answer:?}");
        }
    }

    #[test]
    fn an_ambiguous_response_is_an_error() {
        let headers = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(101));
        let long = format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "b".repeat(16 << 10));
        let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000);
        let line =
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;{}\r\nabc\r\n", "x".repeat(300));
        for answer in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\nhello",
            "HTTP/1.1 101 Switching\r\n\r\n\u{1}\u{2}",
            headers.as_str(),
            long.as_str(),
            interim.as_str(),
            line.as_str(),
        ] {
            let read = answer_of(answer, json!({}));
            assert!(read.is_err(), "{answer:.90?} is {read:?}");
        }
    }

    #[test]
    fn a_redirect_is_reported_and_not_followed() {
        let answer =
            "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Type: text/plain\r\n\r\n";
        assert_eq!(
            answer_of(answer, json!({})),
            Ok(
                json!({"status":302,"location":"http://169.254.169.254/","content_type":"text/plain","text":"","bytes":0,"truncated":false})
            )
        );
    }

    #[test]
    fn binary_bytes_are_base64_and_everything_fits() {
        assert_eq!(
            answer_of(b"HTTP/1.1 200 OK\r\n\r\na\xff", json!({})),
            Ok(json!({"status":200,"base64":"Yf8=","bytes":2,"truncated":false}))
        );
        for byte in [1_u8, b'a', 0xff] {
            for cap in [2_000, 10_000, 65_536] {
                let mut answer = b"HTTP/1.1 200 OK\r\nLocation: ".to_vec();
                answer.extend(vec![b'"'; cap.min(6_000) / 8]);
                answer.extend(b"\r\n\r\n");
                answer.extend(vec![byte; 70_000]);
                let (read, _) = get(&answer, usize::MAX, &json!({"limit":65_536}), cap);
                assert!(read.expect("an answer").to_string().len() < cap, "{byte} in {cap}");
            }
        }
    }
}
