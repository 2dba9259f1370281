//! TLS to the servers, with the modes of libpq.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls;

use crate::noted::Noted;
use crate::options::{OptionsError, TlsOptions, Verification};

/// Certificates and key in files. Like libpq, each connection uses the files as they are then: a client certificate may
/// be renewed several times while the process runs.
pub(crate) struct TlsFiles {
    options: TlsOptions,
    state: Mutex<State>,
}

struct State {
    /// With the last usable contents.
    connector: MakeRustlsConnect,
    problem: Noted,
}

impl fmt::Debug for TlsFiles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsFiles").field("options", &self.options).finish_non_exhaustive()
    }
}

impl TlsFiles {
    /// Reads the files named in `options`.
    ///
    /// # Errors
    /// [`OptionsError::File`].
    pub(crate) fn read(options: TlsOptions) -> Result<Self, OptionsError> {
        let state = Mutex::new(State { connector: connector(&options)?, problem: Noted::default() });
        Ok(Self { options, state })
    }

    /// A connector with the present contents of the files; with their last usable ones if they are unusable now.
    pub(crate) fn connector(&self) -> MakeRustlsConnect {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.options.root_certificate.is_some() || self.options.identity.is_some() {
            let problem = match connector(&self.options) {
                Ok(read) => {
                    state.connector = read;
                    None
                }
                Err(error) => Some(error.to_string()),
            };
            if let Some(error) = state.problem.note(problem) {
                tracing::warn!(%error, "the previous certificates for the database stay in use");
            }
        }
        state.connector.clone()
    }
}

/// Creates a TLS connector from the files named in `options`.
fn connector(options: &TlsOptions) -> Result<MakeRustlsConnect, OptionsError> {
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(options, &error))?;
    let lenient = |authorities| Arc::new(Lenient { algorithms, authorities });
    let builder = match options.verification {
        Verification::None => builder.dangerous().with_custom_certificate_verifier(lenient(None)),
        Verification::Full => builder.with_root_certificates(roots(options)?),
        Verification::Authority => {
            let roots = Arc::new(roots(options)?);
            let authorities = WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|error| unusable(options, &error))?;
            builder.dangerous().with_custom_certificate_verifier(lenient(Some(authorities)))
        }
    };
    let config = match &options.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates("sslcert", certificate)?;
            let read = PrivateKeyDer::from_pem_file(key).map_err(|error| unread("sslkey", key, &error))?;
            builder.with_client_auth_cert(chain, read).map_err(|error| file("sslkey", key, &error))?
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn roots(options: &TlsOptions) -> Result<RootCertStore, OptionsError> {
    let mut roots = RootCertStore::empty();
    match &options.root_certificate {
        Some(path) => {
            for certificate in certificates("sslrootcert", path)? {
                roots.add(certificate).map_err(|error| file("sslrootcert", path, &error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        let path = options.root_certificate.clone().unwrap_or_else(|| "system".into());
        let reason = "it contains no certificate: name the CA of the servers".to_owned();
        return Err(OptionsError::File { parameter: "sslrootcert", path, reason, unread: None });
    }
    Ok(roots)
}

fn certificates(parameter: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, OptionsError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unread(parameter, path, &error))
}

/// The error of a file that can't be read, or whose contents are wrong.
fn unread(parameter: &'static str, path: &Path, error: &pem::Error) -> OptionsError {
    let unread = match error {
        pem::Error::Io(error) => Some(error.kind()),
        _ => None,
    };
    OptionsError::File { parameter, path: path.to_owned(), reason: error.to_string(), unread }
}

fn file(parameter: &'static str, path: &Path, error: &impl ToString) -> OptionsError {
    OptionsError::File { parameter, path: path.to_owned(), reason: error.to_string(), unread: None }
}

fn unusable(options: &TlsOptions, error: &impl ToString) -> OptionsError {
    let path = options.root_certificate.clone().unwrap_or_else(|| "system".into());
    OptionsError::File { parameter: "sslrootcert", path, reason: error.to_string(), unread: None }
}

/// Requires the signature of the certificate's owner, but is less strict about the certificate than
/// [`WebPkiServerVerifier`].
#[derive(Debug)]
struct Lenient {
    algorithms: WebPkiSupportedAlgorithms,
    /// `verify-ca`: the certificate must be from a known authority, for any name. `None`, for `require` and `prefer`:
    /// any certificate is accepted.
    authorities: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authorities) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        // The name is checked last, so everything else was valid.
        match authorities.verify_server_cert(certificate, chain, name, stapled, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
