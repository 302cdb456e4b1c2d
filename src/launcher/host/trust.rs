//! The certificates of servers that this host trusts.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// What connections trust: the certificates, and the configuration of a client that checks them.
#[derive(Clone, Debug)]
pub(crate) struct TlsTrust {
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) client: Arc<ClientConfig>,
}

impl TlsTrust {
    /// Trusts the system's certificates, and those in `ca_file` (PEM). Reads files of the host, so
    /// it is called before there is a view.
    pub(crate) fn read(ca_file: Option<&Path>) -> Result<Self, String> {
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
        let roots = Arc::new(roots);
        let client = Arc::new(config.with_root_certificates(roots.clone()).with_no_client_auth());
        Ok(Self { roots, client })
    }
}
