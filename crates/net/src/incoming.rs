//! An accepted connection, ready to be served.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{Protocol, UnauthenticatedConnection};

/// The common interface of TCP, TLS and WebSocket streams.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> ByteStream for S {}

/// The peer, as far as the transport knows it.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The address of the peer.
    pub address: SocketAddr,
    /// Whether the connection uses TLS.
    pub encrypted: bool,
    /// The subject of the client certificate, if TLS verified one, in the form of RFC 4514: `CN=orders,O=Example`.
    pub certificate: Option<Arc<str>>,
}

/// A connection whose protocol has been detected.
#[derive(Debug)]
pub struct Incoming<S> {
    /// The stream after the first bytes, in both directions.
    pub stream: S,
    /// The bytes that were read to detect the protocol.
    pub first_bytes: BytesMut,
    /// The detected protocol.
    pub protocol: Protocol,
    /// The peer.
    pub peer: Peer,
    /// Its entry among the unauthenticated connections.
    pub unauthenticated: UnauthenticatedConnection,
}

/// Serves connections over any transport. Each is served in its own task, by code specialised for its kind of stream.
pub trait Serve: Send + Sync + 'static {
    /// Serves one connection to its end. Implementations must end it on [`UnauthenticatedConnection::evicted`] until
    /// the peer has authenticated.
    fn serve<S: ByteStream>(&self, incoming: Incoming<S>) -> impl Future<Output = ()> + Send;
}
