//! Trusted certificates.

use std::path::PathBuf;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

use crate::ClientError;

/// The certificates that a client trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The authorities that the system trusts.
    System,
    /// The authorities of a PEM file, such as the `ca.pem` that the broker made.
    File(PathBuf),
}

impl Trust {
    /// Trusts no certificate: for connections without TLS.
    ///
    /// # Errors
    /// Never on any known platform.
    pub(crate) fn none() -> Result<ClientConfig, ClientError> {
        Ok(Self::builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
    }

    fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, ClientError> {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| ClientError::Tls(error.to_string()))
    }

    /// The configuration for rustls.
    ///
    /// # Errors
    /// A file that can't be read, or contains no certificate.
    pub(crate) fn config(&self) -> Result<ClientConfig, ClientError> {
        let wrong = |error: &dyn std::fmt::Display| ClientError::Tls(error.to_string());
        let builder = Self::builder()?;
        let builder = match self {
            Self::System => builder.with_native_roots().map_err(|error| wrong(&error))?,
            Self::File(path) => {
                let of_file = |error: &dyn std::fmt::Display| {
                    ClientError::Tls(format!("the CA file {} can't be used: {error}", path.display()))
                };
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_file_iter(path).map_err(|error| of_file(&error))? {
                    let certificate = certificate.map_err(|error| of_file(&error))?;
                    roots.add(certificate).map_err(|error| of_file(&error))?;
                }
                if roots.is_empty() {
                    return Err(of_file(&"it has no certificate"));
                }
                builder.with_root_certificates(roots)
            }
        };
        Ok(builder.with_no_client_auth())
    }
}
