//! TLS by rustls: the server certificate, and verification of client certificates.

mod certificate_fields;
mod certificates;
pub mod client;
mod local;
mod pem;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

pub use certificates::{CertificateSource, Certificates, Now, TlsOptions};
use pem::Identity;

/// Why TLS can't be served. Errors name the file and the problem.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read or written.
    #[error("{what} {}: {error}", file.display())]
    File {
        /// Its expected contents.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file does not have the expected contents.
    #[error("{what} {}: {reason}", file.display())]
    Content {
        /// Its expected contents.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// What is wrong, and how to fix it.
        reason: String,
    },
    /// A certificate can't be made.
    #[error("no certificate could be made: {0}")]
    Make(#[from] rcgen::Error),
}

impl TlsError {
    fn file(what: &'static str, file: &Path, error: io::Error) -> Self {
        Self::File { what, file: file.to_owned(), error }
    }

    fn content(what: &'static str, file: &Path, reason: impl Into<String>) -> Self {
        Self::Content { what, file: file.to_owned(), reason: reason.into() }
    }

    /// Whether a file is missing or has other contents. All other errors, such as a lack of descriptors, say nothing about
    /// the file.
    fn is_damage(&self) -> bool {
        match self {
            Self::File { error, .. } => error.kind() == io::ErrorKind::NotFound,
            Self::Content { .. } => true,
            Self::Make(_) => false,
        }
    }
}

/// The TLS settings of new connections; changes at run time don't affect existing ones.
#[derive(Debug)]
pub struct Tls(watch::Sender<Option<Served>>);

#[derive(Debug, Clone)]
struct Served {
    config: Arc<ServerConfig>,
    certificate_ends_at: Option<SystemTime>,
}

impl Default for Tls {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Tls {
    /// Does the TLS handshake with a client; waits for the first certificate if there is none yet. Accepts any server
    /// name.
    ///
    /// # Errors
    /// The stream's, and rustls's errors as [`io::ErrorKind::InvalidData`].
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> io::Result<TlsStream<S>> {
        let mut config = self.0.subscribe();
        // The sender is in `self`, so waiting can't fail.
        let served = config.wait_for(Option::is_some).await.ok().and_then(|config| config.clone());
        let served = served.ok_or(io::ErrorKind::NotConnected)?;
        TlsAcceptor::from(served.config).accept(stream).await
    }

    /// When the certificate for new connections expires; `None` before there is one.
    #[must_use]
    pub fn certificate_ends_at(&self) -> Option<SystemTime> {
        self.0.borrow().as_ref()?.certificate_ends_at
    }

    /// The subject of the client certificate, if TLS verified one.
    pub fn subject<S>(stream: &TlsStream<S>) -> Option<Arc<str>> {
        let (_, connection) = stream.get_ref();
        let certificate = connection.peer_certificates()?.first()?;
        certificate_fields::subject(certificate).map(Arc::from)
    }

    /// Uses `identity` from now on, see [`server_config`].
    fn set(&self, identity: Identity, client_ca: Option<&Path>) -> Result<(), TlsError> {
        let certificate_ends_at = identity.chain.first().and_then(certificate_fields::end);
        let config = Arc::new(server_config(identity, client_ca)?);
        self.0.send_replace(Some(Served { config, certificate_ends_at }));
        Ok(())
    }
}

/// The only cryptography provider in this program.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Presents `identity` to clients; requests optional client certificates if there is a `client_ca`.
fn server_config(identity: Identity, client_ca: Option<&Path>) -> Result<ServerConfig, TlsError> {
    let Identity { chain, key, certificate_file, .. } = identity;
    let refused =
        |error: rustls::Error| TlsError::content("TLS certificate", &certificate_file, error.to_string());
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(refused)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let wrong = |reason: String| TlsError::content("client CA", file, reason);
            let mut roots = RootCertStore::empty();
            for certificate in pem::certificates("client CA", file)? {
                roots.add(certificate).map_err(|error| wrong(format!("is no CA certificate: {error}")))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
            let verifier = verifier.allow_unauthenticated().build();
            builder.with_client_cert_verifier(verifier.map_err(|error| wrong(error.to_string()))?)
        }
    };
    builder.with_single_cert(chain, key).map_err(refused)
}
