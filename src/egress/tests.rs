//! The client against servers with certificates made for the test.

mod reached;

use super::{Client, EgressError, Endpoint, HttpRequest, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A server on `localhost` with a self-signed certificate for `name`, which answers one request.
struct TestServer {
    port: u16,
    certificate: Vec<u8>,
}

impl TestServer {
    fn start(name: &str) -> Self {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("a certificate");
        let certificate = made.cert.der().to_vec();
        let key = made.signing_key.serialize_der().try_into().expect("a key");
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a configuration");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        std::thread::spawn(move || serve_one(&listener, config));
        Self { port, certificate }
    }

    fn write_pem(&self, file: &Path) {
        let text = STANDARD.encode(&self.certificate);
        let pem = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
        std::fs::write(file, pem).expect("written");
    }
}

/// Answers once. A client that refuses the certificate disconnects early, which is expected.
fn serve_one(listener: &TcpListener, config: ServerConfig) {
    let (socket, _) = listener.accept().expect("a connection");
    let connection = ServerConnection::new(Arc::new(config)).expect("a connection");
    let mut stream = StreamOwned::new(connection, socket);
    if stream.read(&mut [0; 4096]).is_ok() {
        stream.write_all(b"HTTP/1.1 200 x\r\ncontent-length: 2\r\n\r\n{}").expect("written");
        stream.flush().expect("written");
    }
}

async fn ask(scheme: &str, server: &TestServer, client: &Client) -> Result<Response, EgressError> {
    let base = format!("{scheme}://localhost:{}", server.port);
    let endpoint = Endpoint::parse(&base, "v1").expect("an endpoint");
    let deadline = Duration::from_secs(10);
    let ask =
        HttpRequest { endpoint: &endpoint, credential: None, headers: &[], body: Some(b"{}"), deadline };
    client.exchange(ask).await
}

#[tokio::test]
async fn a_certificate_without_a_trusted_root_is_refused() {
    let server = TestServer::start("localhost");
    let answer = ask("https", &server, &Client::new(None)).await;
    assert!(
        matches!(&answer, Err(EgressError::Tls(why)) if why.starts_with("the server's certificate is ")),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_certificate_from_the_file_is_trusted_for_its_own_name_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    for (name, taken) in [("localhost", true), ("example.com", false)] {
        let server = TestServer::start(name);
        server.write_pem(&file);
        let answer = ask("https", &server, &Client::new(Some(file.clone()))).await;
        match answer {
            Ok(answer) => assert!(taken && answer.body == b"{}", "{name}"),
            Err(EgressError::Tls(why)) => assert!(!taken, "{name}: {why}"),
            Err(other) => panic!("{name}: {other}"),
        }
    }
}

#[tokio::test]
async fn an_answer_in_the_other_protocol_is_refused() {
    let server = TestServer::start("localhost");
    let answer = ask("http", &server, &Client::new(None)).await;
    assert!(matches!(answer, Err(EgressError::Broken(_))), "{answer:?}");
}

#[tokio::test]
async fn a_file_without_a_certificate_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    let server = TestServer::start("localhost");
    for content in [None, Some(""), Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")] {
        if let Some(content) = content {
            std::fs::write(&file, content).expect("written");
        }
        let answer = ask("https", &server, &Client::new(Some(file.clone()))).await;
        assert!(
            matches!(&answer, Err(EgressError::Address(why)) if why.contains("ca.pem")),
            "{content:?}: {answer:?}"
        );
    }
}
