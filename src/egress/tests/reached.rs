//! How a model's server is reached: its addresses, its deadlines, its proxy.

use super::TestServer;
use crate::config::ModelWaits;
use crate::egress::{Client, EgressError, Endpoint, HttpRequest, IpNet, Response, Wait, Way};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(200);

/// A server on 127.0.0.1 that answers each request with these bytes, and then holds the connection
/// or closes it.
fn plain_server(said: &'static [u8], is_held: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            if stream.read(&mut [0; 4096]).is_ok() {
                stream.write_all(said).expect("written");
            }
            if is_held {
                held.push(stream);
            }
        }
    });
    port
}

const OK: &[u8] = b"HTTP/1.1 200 x\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";

fn nets(named: &[&str]) -> Vec<IpNet> {
    named.iter().map(|net| net.parse().expect(net)).collect()
}

fn along(base: &str, way: Way) -> Result<(Client, Endpoint), EgressError> {
    let endpoint = Endpoint::parse(base, "v1").expect(base);
    Client::along(&endpoint, way).map(|client| (client, endpoint))
}

async fn send(client: &Client, endpoint: &Endpoint, deadline: Duration) -> Result<Response, EgressError> {
    let ask = HttpRequest { endpoint, credential: None, headers: &[], body: Some(b"{}"), deadline };
    client.exchange(ask).await
}

/// A resolver that gives these answers one after the other, and then the last one for ever.
fn answering(client: Client, answers: &[&str]) -> Client {
    let mut answers: Vec<IpAddr> = answers.iter().rev().map(|ip| ip.parse().expect(ip)).collect();
    let last = *answers.first().expect("an answer");
    let left = Mutex::new(std::mem::take(&mut answers));
    client.asking(Arc::new(move |_| {
        let ip = left.lock().expect("answers").pop().unwrap_or(last);
        Box::pin(async move { Ok(vec![ip]) })
    }))
}

#[tokio::test]
async fn a_literal_is_taken_as_written_unless_it_is_link_local() {
    let port = plain_server(OK, false);
    let (client, endpoint) = along(&format!("http://127.0.0.1:{port}"), Way::default()).expect("taken");
    assert_eq!(send(&client, &endpoint, LONG).await.expect("an answer").body, b"{}");
    let all = Way { addresses: nets(&["0.0.0.0/0", "::/0"]), ..Way::default() };
    for base in [
        "http://169.254.169.254",
        "http://2852039166",
        "http://0xa9fea9fe",
        "http://[fe80::1]",
        "http://[::ffff:169.254.169.254]",
        "http://0.0.0.0:11434",
    ] {
        let refused = along(base, all.clone()).err();
        assert!(
            matches!(refused, Some(EgressError::Forbidden(why)) if why.is_final()),
            "{base}: {refused:?}"
        );
    }
    for base in ["http://10.0.0.1", "http://[fd00::1]", "https://192.168.0.1"] {
        assert!(along(base, Way::default()).is_ok(), "{base}");
    }
}

/// The name is looked up again for each connection, and each answer is checked.
#[tokio::test]
async fn a_name_that_later_leads_to_the_metadata_service_is_refused() {
    let port = plain_server(OK, false);
    let base = format!("http://model.example:{port}");
    for named in [&["127.0.0.0/8"][..], &["127.0.0.0/8", "169.254.0.0/16"]] {
        let way = Way { addresses: nets(named), ..Way::default() };
        let (client, endpoint) = along(&base, way).expect("a name");
        let client = answering(client, &["127.0.0.1", "169.254.169.254"]);
        assert_eq!(send(&client, &endpoint, LONG).await.expect("the first time").status, 200);
        let second = send(&client, &endpoint, LONG).await;
        assert!(matches!(second, Err(EgressError::Forbidden(why)) if why.is_final()), "{second:?}");
    }
}

#[tokio::test]
async fn a_name_leads_to_public_and_named_addresses_only() {
    let port = plain_server(OK, false);
    for (host, answer, named, expect) in [
        ("model.example", "127.0.0.1", &[][..], Some("127.0.0.1 is loopback")),
        ("model.example", "127.0.0.1", &["127.0.0.1/32"], None),
        ("model.example", "10.9.8.7", &[], Some("10.9.8.7 is private")),
        ("localhost", "127.0.0.1", &[], None),
        ("localhost", "10.9.8.7", &[], Some("10.9.8.7 is private")),
    ] {
        let way = Way { addresses: nets(named), ..Way::default() };
        let (client, endpoint) = along(&format!("http://{host}:{port}"), way).expect("a name");
        let client = answering(client, &[answer]);
        match (send(&client, &endpoint, LONG).await, expect) {
            (Ok(answer), None) => assert_eq!(answer.status, 200),
            (Err(EgressError::Forbidden(why)), Some(expect)) => {
                assert_eq!((why.to_string().as_str(), why.is_final()), (expect, false));
            }
            (got, expect) => panic!("{host} → {answer}: {got:?}, not {expect:?}"),
        }
    }
}

#[tokio::test]
async fn each_deadline_has_an_error_of_its_own() {
    let long = ModelWaits { connect: LONG, first_byte: LONG, idle: LONG, total: LONG };
    let silent = plain_server(b"", true);
    let halting = plain_server(b"HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\n{", true);
    let check = async |port: u16, waits: ModelWaits, deadline, expect: EgressError| {
        let way = Way { waits, ..Way::default() };
        let (client, endpoint) = along(&format!("http://127.0.0.1:{port}"), way).expect("an address");
        assert_eq!(send(&client, &endpoint, deadline).await, Err(expect));
    };
    check(silent, ModelWaits { first_byte: SHORT, ..long }, LONG, EgressError::Late(Wait::FirstByte)).await;
    check(halting, ModelWaits { idle: SHORT, ..long }, LONG, EgressError::Late(Wait::Idle)).await;
    check(halting, long, SHORT, EgressError::Timeout).await;
    // A resolver that never answers.
    let way = Way { waits: ModelWaits { connect: SHORT, ..long }, ..Way::default() };
    let (client, endpoint) = along("http://model.example", way).expect("a name");
    let client = client.asking(Arc::new(|_| Box::pin(std::future::pending())));
    assert_eq!(send(&client, &endpoint, LONG).await, Err(EgressError::Late(Wait::Connect)));
}

/// A slow answer whose pieces come in time is read to its end: the deadline of a piece begins again
/// with each of them.
#[tokio::test]
async fn a_slow_answer_is_not_an_idle_one() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        assert!(stream.read(&mut [0; 4096]).expect("a request") > 0);
        stream.write_all(b"HTTP/1.1 200 x\r\ncontent-length: 6\r\n\r\n").expect("written");
        for _ in 0..6 {
            std::thread::sleep(SHORT);
            stream.write_all(b" ").expect("written");
        }
    });
    let waits = ModelWaits { first_byte: LONG, idle: 5 * SHORT, ..ModelWaits::default() };
    let way = Way { waits, ..Way::default() };
    let (client, endpoint) = along(&format!("http://127.0.0.1:{port}"), way).expect("an address");
    assert_eq!(send(&client, &endpoint, LONG).await.expect("all of it").body, b"      ");
}

/// A proxy that passes one connection on to 127.0.0.1, whatever it is asked for; and what it was
/// asked for.
fn proxy(to: u16) -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let asked = Arc::<Mutex<String>>::default();
    let seen = asked.clone();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a connection");
        let mut head = [0; 4096];
        let count = client.read(&mut head).expect("a head");
        *seen.lock().expect("head") = String::from_utf8_lossy(&head[..count]).into_owned();
        #[expect(clippy::disallowed_methods, reason = "the proxy of this test")]
        let mut server = TcpStream::connect(("127.0.0.1", to)).expect("the server");
        client.write_all(b"HTTP/1.1 200 x\r\n\r\n").expect("written");
        let (mut up, mut down) =
            (client.try_clone().expect("a descriptor"), server.try_clone().expect("a descriptor"));
        std::thread::spawn(move || std::io::copy(&mut up, &mut server));
        drop(std::io::copy(&mut down, &mut client));
    });
    (port, asked)
}

#[tokio::test]
async fn a_proxy_gets_the_name_and_no_byte_of_the_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    let server = TestServer::start("model.example");
    server.write_pem(&file);
    let (port, asked) = proxy(server.port);
    let way = |proxy: String| Way { ca_file: Some(file.clone()), proxy: Some(proxy), ..Way::default() };
    let (client, endpoint) =
        along("https://model.example:8443", way(format!("http://127.0.0.1:{port}"))).expect("a proxy");
    assert_eq!(send(&client, &endpoint, LONG).await.expect("an answer").body, b"{}");
    let asked = asked.lock().expect("head").clone();
    assert!(asked.starts_with("CONNECT model.example:8443 HTTP/1.1\r\n"), "{asked}");
    for (base, proxy, expect) in [
        ("http://model.example", "http://127.0.0.1:1", "is only for `https` URLs"),
        ("https://model.example", "https://127.0.0.1:1", "must have an `http` URL"),
        ("https://model.example", "127.0.0.1:1", "has no valid URL"),
        ("https://model.example", "http://user:pass@127.0.0.1:1", "contains credentials"),
    ] {
        let refused = along(base, way(proxy.to_owned())).expect_err(proxy).to_string();
        assert!(refused.contains(expect) && !refused.contains("pass@"), "{refused}");
    }
    // The proxy's own address is checked as the server's would be.
    let refused = along("https://model.example", way("http://169.254.1.1".to_owned()));
    assert!(matches!(refused, Err(EgressError::Forbidden(_))));
    let (client, endpoint) =
        along("https://model.example", way("http://proxy.example:1".to_owned())).expect("a name");
    let refused = send(&answering(client, &["10.0.0.1"]), &endpoint, LONG).await;
    assert!(matches!(refused, Err(EgressError::Forbidden(_))), "{refused:?}");
}
