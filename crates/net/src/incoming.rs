//! A connection as it is handed over.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{Protocol, UnauthenticatedConnection};

/// What TCP, TLS and WebSockets have in common.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> ByteStream for S {}

/// Who is at the other end, as far as the transport knows.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Where the peer connects from.
    pub address: SocketAddr,
    /// Whether the bytes come through TLS.
    pub encrypted: bool,
    /// The subject of the client certificate, if TLS verified one, as RFC 4514 writes it: `CN=orders,O=Example`.
    pub certificate: Option<Arc<str>>,
}

/// A connection whose protocol is known.
#[derive(Debug)]
pub struct Incoming<S> {
    /// What comes after the first bytes, and the way back.
    pub stream: S,
    /// What was read to see what the peer speaks.
    pub first_bytes: BytesMut,
    /// What it speaks.
    pub protocol: Protocol,
    /// Who it is.
    pub peer: Peer,
    /// Its place among the unauthenticated connections.
    pub unauthenticated: UnauthenticatedConnection,
}

/// Serves connections, whatever carries them. Each is served in its own task, by code made for its kind of stream.
pub trait Serve: Send + Sync + 'static {
    /// Serves one to its end. Whoever serves heeds [`UnauthenticatedConnection::evicted`] until the peer has shown who it is.
    fn serve<S: ByteStream>(&self, incoming: Incoming<S>) -> impl Future<Output = ()> + Send;
}
