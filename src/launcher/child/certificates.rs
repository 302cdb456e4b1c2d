//! The builtins that judge certificates: those that a server shows, and those in a file.

use super::timed::TimedSocket;
use crate::launcher::host::trust::TlsTrust;
use crate::tools::builtin::{
    Answer, ChainQuestion, NOT_FOUND, days_left as builtin_days_left, judge, stamped,
};
use crate::types::clock::{Wall, mono_us};
use crate::types::{HostPort, text};
use rustix::io::pread;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use serde_json::{Map, Value, json};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Size of a file that is read, in bytes.
const FILE_BYTES_MAX: usize = 512 << 10;
/// Certificates of a file or a server that are looked at.
const CHAIN_MAX: usize = 64;

/// The certificates that the server of `to` shows on the connection. The handshake is all that is
/// sent; `name` is the name that a client would ask for.
pub(crate) fn of_server(
    trust: Option<&TlsTrust>,
    connected: Option<TimedSocket>,
    to: &str,
    arguments: &Value,
    host: &str,
) -> Answer {
    let trust = trust.ok_or("the launcher has no certificates")?;
    let to = HostPort::parse(to).map_err(|e| e.to_string())?;
    let name = arguments.get("server_name").and_then(Value::as_str).unwrap_or(to.host());
    let asked =
        ServerName::try_from(name.to_owned()).map_err(|_| "`server_name` is not a name".to_owned())?;
    let mut socket = connected.ok_or("no connection was given")?;
    let shown = Arc::new(ShownChain::new());
    let config = ClientConfig::builder_with_provider(shown.provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(shown.clone())
        .with_no_client_auth();
    let mut session = ClientConnection::new(Arc::new(config), asked).map_err(|e| e.to_string())?;
    let began_us = mono_us();
    let ended = session.complete_io(&mut socket);
    let handshake_ms = mono_us().saturating_sub(began_us) / 1_000;
    let (chain, is_proven) = shown.take();
    if chain.is_empty() && mono_us() >= socket.end_us {
        return Err(format!(
            "timed out: the port accepted the connection, and sent no certificate within {handshake_ms} ms"
        ));
    }
    if chain.is_empty() {
        let why = ended.err().map_or_else(|| "it showed none".to_owned(), |e| e.to_string());
        return Err(format!(
            "no certificate from the server: {}",
            text::visible_line(text::prefix(&why, 200))
        ));
    }
    let mut answer = of_chain(trust, &chain, Some(name))?;
    let version = session.protocol_version().and_then(|version| version.as_str().map(str::to_owned));
    // The server did not show that it has the key of its certificate.
    if !is_proven && let Some(Value::Array(problems)) = answer.get_mut("problems") {
        problems.push(json!("key_not_proven"));
        answer.insert("verdict".to_owned(), json!("refused"));
    }
    answer.insert("tls_version".to_owned(), json!(version));
    answer.insert("handshake_ms".to_owned(), json!(handshake_ms));
    answer.insert("handshake".to_owned(), json!(if ended.is_ok() { "complete" } else { "broke_off" }));
    Ok(stamped(Value::Object(answer), host))
}

/// The certificates in a file: PEM, or one in DER.
pub(crate) fn of_file(
    trust: Option<&TlsTrust>,
    file: BorrowedFd<'_>,
    path: &str,
    arguments: &Value,
    host: &str,
) -> Answer {
    let trust = trust.ok_or("the launcher has no certificates")?;
    let bytes = read(file)?;
    let chain = chain_in(bytes);
    let name = arguments.get("server_name").and_then(Value::as_str);
    let mut answer = match of_chain(trust, &chain, name) {
        Ok(answer) => answer,
        Err(why) => return Err(format!("`{}`: {why}", text::visible_line(path))),
    };
    answer.insert("path".to_owned(), json!(text::visible_line(path)));
    Ok(stamped(Value::Object(answer), host))
}

/// The certificates in PEM, or the one in DER.
fn chain_in(bytes: Vec<u8>) -> Vec<CertificateDer<'static>> {
    let pem = CertificateDer::pem_slice_iter(&bytes).take(CHAIN_MAX);
    let mut chain: Vec<CertificateDer<'static>> = pem.filter_map(Result::ok).collect();
    if chain.is_empty() && bytes.first() == Some(&0x30) {
        chain.push(CertificateDer::from(bytes));
    }
    chain
}

/// Whole days until the first certificate in a file ends; `None` for a file without one.
pub(crate) fn days_left(file: BorrowedFd<'_>) -> Option<i64> {
    let now_s = i64::try_from(Wall::now().0 / 1_000_000).unwrap_or(i64::MAX);
    builtin_days_left(chain_in(read(file).ok()?).first()?, now_s)
}

fn of_chain(
    trust: &TlsTrust,
    chain: &[CertificateDer<'_>],
    name: Option<&str>,
) -> Result<Map<String, Value>, String> {
    let now_s = i64::try_from(Wall::now().0 / 1_000_000).unwrap_or(i64::MAX);
    judge(&ChainQuestion { chain, name, roots: &trust.roots, now_s })
}

fn read(file: BorrowedFd<'_>) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; FILE_BYTES_MAX + 1];
    let mut filled = 0;
    while let Some(free) = bytes.get_mut(filled..).filter(|free| !free.is_empty()) {
        match pread(file, free, filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Err(NOT_FOUND.to_owned()),
        }
    }
    if filled > FILE_BYTES_MAX {
        return Err(format!("the file is larger than {FILE_BYTES_MAX} bytes"));
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Keeps the chain that a server shows and accepts it: it is judged afterwards, and nothing but the
/// handshake is sent over the connection.
#[derive(Debug)]
struct ShownChain {
    provider: Arc<CryptoProvider>,
    chain: Mutex<(Vec<CertificateDer<'static>>, bool)>,
}

impl ShownChain {
    fn new() -> Self {
        Self { provider: Arc::new(rustls::crypto::ring::default_provider()), chain: Mutex::default() }
    }

    /// The chain, and whether the server showed that it has its key.
    fn take(&self) -> (Vec<CertificateDer<'static>>, bool) {
        std::mem::take(&mut *self.chain.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, proof: &Result<HandshakeSignatureValid, Error>) {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner).1 = proof.is_ok();
    }
}

impl ServerCertVerifier for ShownChain {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let all = std::iter::once(end_entity).chain(intermediates).take(CHAIN_MAX);
        let all = all.map(|one| one.clone().into_owned()).collect();
        self.chain.lock().unwrap_or_else(PoisonError::into_inner).0 = all;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.note(&verify_tls12_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        ));
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.note(&verify_tls13_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        ));
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
