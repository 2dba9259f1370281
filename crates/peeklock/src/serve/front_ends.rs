//! What is spoken on a connection, and who serves it: AMQP, HTTP, and AMQP that began as HTTP.

use std::sync::Arc;

use bytes::BytesMut;
use peeklock_amqp::server::{self as amqp, Admission, Connections};
use peeklock_amqp::servicebus::ServiceBus;
use peeklock_connections::Transport;
use peeklock_net::{ByteStream, Incoming, Peer, Protocol, Serve, UnauthenticatedConnection};
use tokio::sync::watch;

use super::http::{Http, WebSocketAsked};
use super::metrics::{ConnectionMetrics, Spoken};

/// AMQP once it is served: connections that come before wait.
pub(super) type Amqp = watch::Receiver<Option<Arc<Connections<ServiceBus>>>>;

/// Everything that every port answers.
pub(super) struct FrontEnds {
    pub(super) amqp: Amqp,
    pub(super) http: Arc<Http>,
    pub(super) connections: ConnectionMetrics,
}

impl FrontEnds {
    async fn serve_amqp<S: ByteStream>(
        &self,
        stream: S,
        first_bytes: BytesMut,
        peer: Peer,
        mut unauthenticated: UnauthenticatedConnection,
        spoken: Spoken,
    ) {
        let _open = self.connections.open(spoken, peer.encrypted);
        let mut amqp = self.amqp.clone();
        let connections = tokio::select! {
            biased;
            () = unauthenticated.evicted_meanwhile() => return,
            // The sender lives until nothing is served any more.
            connections = amqp.wait_for(Option::is_some) => connections.ok().and_then(|found| found.clone()),
        };
        let Some(connections) = connections else { return };
        let (pass, evicted) = (unauthenticated.pass(), unauthenticated.evicted());
        let Peer { address, encrypted, certificate } = peer;
        let admission = Admission::new(move || pass.admit());
        let transport = match spoken {
            Spoken::WebSocket => Transport::WebSocket,
            Spoken::Amqp | Spoken::Http => Transport::Amqp,
        };
        let peer = amqp::Peer { address: Some(address), transport, encrypted, certificate, admission };
        connections.serve(stream, first_bytes, peer, evicted).await;
        drop(unauthenticated);
    }
}

impl Serve for FrontEnds {
    async fn serve<S: ByteStream>(&self, incoming: Incoming<S>) {
        let Incoming { stream, first_bytes, protocol, peer, unauthenticated } = incoming;
        match protocol {
            Protocol::Amqp => {
                self.serve_amqp(stream, first_bytes, peer, unauthenticated, Spoken::Amqp).await;
            }
            Protocol::Http => {
                let asked = Box::pin(self.http.serve(stream, first_bytes, peer, unauthenticated)).await;
                let Some(WebSocketAsked { socket, peer, unauthenticated }) = asked else { return };
                let spoken = Spoken::WebSocket;
                Box::pin(self.serve_amqp(socket, BytesMut::new(), peer, unauthenticated, spoken)).await;
            }
        }
    }
}
