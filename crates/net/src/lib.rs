//! Transport: sockets, detection of protocols by their first bytes, TLS, WebSockets, and limits on unauthenticated
//! peers.
//!
//! [`Ports`] accepts a connection, examines the first bytes, does TLS if the peer begins it, examines the first bytes
//! inside, and passes the connection to a [`Serve`]. So every port serves every protocol. [`Certificates`] provides the
//! server certificate.

mod first_bytes;
mod incoming;
mod ports;
mod read_ahead;
mod tls;
mod unauthenticated;
pub mod websocket;

pub use first_bytes::{FirstBytes, Protocol, exercise, read_first_bytes};
pub use incoming::{ByteStream, Incoming, Peer, Serve};
pub use ports::{PortOptions, Ports};
pub use read_ahead::{AheadOf, ReadAhead, Rewind};
pub use tls::client as tls_client;
pub use tls::{CertificateSource, Certificates, Now, Tls, TlsError, TlsOptions};
pub use unauthenticated::{
    Pass, UnauthenticatedConnection, UnauthenticatedConnections, UnauthenticatedLimits,
};
