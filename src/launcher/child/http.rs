//! The builtin that is given a connection, and the TLS around it: runs in the call's child.

use crate::tools::builtin::{self, Answer};
use crate::types::WebUrl;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// The certificates that connections trust: the system's, and those in `ca_file` (PEM). Reads files
/// of the host, so it is called before there is a view.
pub(crate) fn trust(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    // What cannot be read is not trusted.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = ca_file {
        let refuse = |e: &dyn std::fmt::Display| format!("`sandbox.ca_file` `{}`: {e}", file.display());
        let more = CertificateDer::pem_file_iter(file).map_err(|e| refuse(&e))?;
        let more = more.collect::<Result<Vec<_>, _>>().map_err(|e| refuse(&e))?;
        if more.is_empty() {
            return Err(refuse(&"contains no certificate"));
        }
        more.into_iter().try_for_each(|one| roots.add(one)).map_err(|e| refuse(&e))?;
    }
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions();
    let config = config.map_err(|e| format!("TLS: {e}"))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// Requests `url` over `connected`. Follows no redirect.
pub(crate) fn get(
    tls: Option<&Arc<ClientConfig>>,
    connected: Option<OwnedFd>,
    url: &str,
    arguments: &Value,
    cap: usize,
) -> Answer {
    let url = WebUrl::parse(url).map_err(|e| e.to_string())?;
    // A file, since the filter allows only reading and writing.
    let mut socket = File::from(connected.ok_or("no connection was given")?);
    if !url.is_tls() {
        return builtin::http_get(&mut socket, &url, arguments, cap);
    }
    let tls = tls.ok_or("the launcher has no certificates")?;
    let name = ServerName::try_from(url.host_port().host().to_owned()).map_err(|e| e.to_string())?;
    let session = ClientConnection::new(tls.clone(), name).map_err(|e| e.to_string())?;
    builtin::http_get(&mut StreamOwned::new(session, socket), &url, arguments, cap)
}
