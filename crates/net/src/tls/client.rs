//! The client side, for health checks of our own broker.

use std::io;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned,
};

use super::{TlsError, pem, provider};

/// Which server certificate is accepted.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Any: for a broker on this machine, to which no secret is sent.
    AnyCertificate,
    /// One issued by a CA of this PEM file, for the host connected to.
    Authority(PathBuf),
}

/// TLS over a connected socket; blocks.
pub type TlsClient = StreamOwned<ClientConnection, TcpStream>;

/// Does the TLS handshake; blocks as long as the socket's time-outs allow.
///
/// # Errors
/// The socket's; [`io::ErrorKind::InvalidInput`] for an unusable host or file, [`io::ErrorKind::InvalidData`] for an
/// untrusted certificate.
pub fn connect(mut socket: TcpStream, host: &str, trust: &Trust) -> io::Result<TlsClient> {
    let invalid = |error: String| io::Error::new(io::ErrorKind::InvalidInput, error);
    let name = ServerName::try_from(host.to_owned()).map_err(|error| invalid(error.to_string()))?;
    let config = config(trust).map_err(|error| invalid(error.to_string()))?;
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    Ok(StreamOwned::new(connection, socket))
}

fn config(trust: &Trust) -> Result<ClientConfig, TlsError> {
    let versions: &[&rustls::SupportedProtocolVersion] = rustls::DEFAULT_VERSIONS;
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions);
    let builder =
        builder.map_err(|error| TlsError::content("TLS", "versions".as_ref(), error.to_string()))?;
    Ok(match trust {
        Trust::AnyCertificate => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate))
            .with_no_client_auth(),
        Trust::Authority(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in pem::certificates("CA", file)? {
                let wrong = |error: rustls::Error| TlsError::content("CA", file, error.to_string());
                roots.add(certificate).map_err(wrong)?;
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
    })
}

/// Accepts every certificate, but verifies that the server holds its key. For peers to which no secret is sent.
#[derive(Debug)]
pub struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, &known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
