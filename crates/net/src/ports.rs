//! Accepts connections and detects their protocols.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::{
    ByteStream, FirstBytes, Incoming, Peer, Protocol, ReadAhead, Serve, Tls, UnauthenticatedConnection,
    UnauthenticatedConnections, read_first_bytes,
};

/// Pause after a failed accept (no more file descriptors).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Maximum number of bytes read from a peer that is refused.
const UNREAD_BYTES_MAX: u64 = 64 << 10;
/// AMQP's answer to a peer that has to use TLS (part 5, §5.2.1: the header of the expected protocol).
const AMQP_NEEDS_TLS: &[u8] = b"AMQP\x02\x01\x00\x00";
/// HTTP's answer to such a peer.
const HTTP_NEEDS_TLS: &[u8] = b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Type: text/plain\r\n\
    Content-Length: 42\r\n\r\nthis broker requires TLS: write https://\r\n";

/// Settings for accepting connections.
#[derive(Debug, Clone, Copy)]
pub struct PortOptions {
    /// Whether connections without TLS are refused.
    pub tls_required: bool,
    /// How long a peer may take to send enough bytes to detect the protocol; again inside TLS.
    pub first_bytes_within: Duration,
    /// How long the TLS handshake may take.
    pub handshake_within: Duration,
}

impl Default for PortOptions {
    fn default() -> Self {
        let ten_seconds = Duration::from_secs(10);
        Self { tls_required: false, first_bytes_within: ten_seconds, handshake_within: ten_seconds }
    }
}

/// State shared by all ports.
pub struct Ports<H> {
    handler: H,
    tls: Arc<Tls>,
    unauthenticated: UnauthenticatedConnections,
    options: PortOptions,
}

impl<H: Serve> Ports<H> {
    /// Combines the parts.
    pub fn new(
        handler: H,
        tls: Arc<Tls>,
        unauthenticated: UnauthenticatedConnections,
        options: PortOptions,
    ) -> Arc<Self> {
        Arc::new(Self { handler, tls, unauthenticated, options })
    }

    /// Accepts on all listeners until dropped, which cuts every connection.
    pub async fn run(self: Arc<Self>, listeners: Vec<TcpListener>) {
        let mut loops = JoinSet::new();
        for listener in listeners {
            loops.spawn(Arc::clone(&self).accept_all(listener));
        }
        while loops.join_next().await.is_some() {}
    }

    async fn accept_all(self: Arc<Self>, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                // Finished tasks are removed even while no connection arrives.
                Some(_) = connections.join_next() => continue,
            };
            let (socket, address) = match accepted {
                Ok(accepted) => accepted,
                Err(failure) => {
                    tracing::warn!(error = %failure, "a connection could not be accepted");
                    if lacks_resources(&failure) {
                        self.unauthenticated.evict_oldest();
                    }
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            let unauthenticated = self.unauthenticated.arrive(address.ip());
            connections.spawn(Arc::clone(&self).receive(socket, address, unauthenticated));
        }
    }

    async fn receive(
        self: Arc<Self>,
        socket: TcpStream,
        address: SocketAddr,
        unauthenticated: UnauthenticatedConnection,
    ) {
        if let Err(failure) = socket.set_nodelay(true) {
            tracing::debug!(error = %failure, %address, "TCP_NODELAY could not be set");
        }
        self.detect_and_serve(socket, address, unauthenticated).await;
    }

    /// Detects the protocol of a stream, and serves it. Boxes large futures, so that silent connections stay small.
    async fn detect_and_serve<S: ByteStream>(
        &self,
        mut socket: S,
        address: SocketAddr,
        mut unauthenticated: UnauthenticatedConnection,
    ) {
        let mut first_bytes = BytesMut::new();
        let Some(found) = self.first_bytes(&mut socket, &mut first_bytes, &mut unauthenticated).await else {
            tracing::debug!(%address, "closed a connection whose protocol did not become known");
            return;
        };
        let peer = Peer { address, encrypted: false, certificate: None };
        match found {
            FirstBytes::Plain(protocol) if self.options.tls_required => {
                tracing::info!(%address, ?protocol, "connection refused: TLS is required (tls.required)");
                Box::pin(self.refuse_plaintext(socket, protocol, &mut unauthenticated)).await;
            }
            FirstBytes::Plain(protocol) => {
                let incoming = Incoming { stream: socket, first_bytes, protocol, peer, unauthenticated };
                Box::pin(self.handler.serve(incoming)).await;
            }
            FirstBytes::Tls => {
                Box::pin(self.accept_tls(ReadAhead::new(first_bytes, socket), peer, unauthenticated)).await;
            }
            FirstBytes::Undecided => {}
        }
    }

    async fn accept_tls<S: ByteStream>(
        &self,
        socket: S,
        mut peer: Peer,
        mut unauthenticated: UnauthenticatedConnection,
    ) {
        let handshake = timeout(self.options.handshake_within, self.tls.accept(socket));
        let accepted = tokio::select! {
            biased;
            () = unauthenticated.evicted_meanwhile() => return,
            accepted = handshake => accepted,
        };
        let mut stream = match accepted {
            // Boxed: the futures that serve it have room for several copies.
            Ok(Ok(stream)) => Box::new(stream),
            Ok(Err(failure)) => {
                tracing::info!(address = %peer.address, error = %failure, "the TLS handshake failed");
                return;
            }
            Err(_) => {
                tracing::debug!(address = %peer.address, "the TLS handshake timed out");
                return;
            }
        };
        peer.encrypted = true;
        peer.certificate = Tls::subject(&stream);
        let mut first_bytes = BytesMut::new();
        let protocol = match self.first_bytes(&mut stream, &mut first_bytes, &mut unauthenticated).await {
            Some(FirstBytes::Plain(protocol)) => protocol,
            // TLS inside TLS is not supported.
            _ => return,
        };
        Box::pin(self.handler.serve(Incoming { stream, first_bytes, protocol, peer, unauthenticated })).await;
    }

    /// `None` when the peer sends too little in time, closes, or is evicted.
    async fn first_bytes<S: ByteStream>(
        &self,
        socket: &mut S,
        bytes: &mut BytesMut,
        unauthenticated: &mut UnauthenticatedConnection,
    ) -> Option<FirstBytes> {
        tokio::select! {
            biased;
            () = unauthenticated.evicted_meanwhile() => None,
            found = timeout(self.options.first_bytes_within, read_first_bytes(socket, bytes)) => found.ok()?.ok()?,
        }
    }

    async fn refuse_plaintext(
        &self,
        mut socket: impl ByteStream,
        protocol: Protocol,
        unauthenticated: &mut UnauthenticatedConnection,
    ) {
        let answer = match protocol {
            Protocol::Amqp => AMQP_NEEDS_TLS,
            Protocol::Http => HTTP_NEEDS_TLS,
        };
        let farewell = async {
            socket.write_all(answer).await?;
            socket.shutdown().await?;
            // Unread input would cause a reset that overtakes the answer.
            tokio::io::copy(&mut socket.take(UNREAD_BYTES_MAX), &mut tokio::io::sink()).await
        };
        tokio::select! {
            () = unauthenticated.evicted_meanwhile() => {}
            // The peer may have closed; it got the reason if it was reading.
            _ = timeout(self.options.first_bytes_within, farewell) => {}
        }
    }
}

/// Whether the system has too few descriptors or too little memory for another connection. Other errors are of the connection
/// that was to be accepted.
fn lacks_resources(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS))
}

impl<H> std::fmt::Debug for Ports<H> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ports").field("options", &self.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_over_http_is_as_long_as_it_says() {
        let text = std::str::from_utf8(HTTP_NEEDS_TLS).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("\r\nContent-Length: {}", body.len())), "{head}: {body:?}");
    }
}
