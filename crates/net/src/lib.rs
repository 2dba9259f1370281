//! Bytes that come and go: sockets, the first bytes that tell protocols apart, TLS, WebSockets, and the patience with
//! peers that have not shown who they are.
//!
//! [`Ports`] accepts, looks at the first bytes, does TLS where a peer begins it, looks again and hands each connection to
//! a [`Serve`]. So every port answers every protocol. [`Certificates`] says with which certificate.

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
