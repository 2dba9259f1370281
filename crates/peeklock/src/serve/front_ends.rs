//! Selects the server of a connection by its protocol: AMQP, HTTP, and AMQP over WebSockets.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use peeklock_amqp::server::{self as amqp, Admission, Connections};
use peeklock_amqp::servicebus::ServiceBus;
use peeklock_connections::Transport;
use peeklock_net::{ByteStream, Incoming, Peer, Protocol, Serve, UnauthenticatedConnection};
use tokio::sync::watch;
use tokio::time::timeout;

use super::http::{Http, WebSocketAsked};
use super::metrics::{ConnectionMetrics, Spoken};

/// A connection to a standby node is closed after this time. It may arrive at a fail-over, from a load balancer that
/// does not know the active node yet, and is then served after the take-over; or its client has the wrong address and
/// should try another.
const STANDBY_PATIENCE: Duration = Duration::from_secs(10);

/// Where AMQP is served.
#[derive(Clone)]
pub(super) enum Amqp {
    /// Not yet served: connections wait.
    Starting,
    /// On another node, at present: connections wait for a while.
    Standby,
    /// In this process.
    Served(Arc<Connections<ServiceBus>>),
}

/// The server for new connections; `None` if this process does not serve them in time.
async fn served(mut amqp: watch::Receiver<Amqp>) -> Option<Arc<Connections<ServiceBus>>> {
    loop {
        let now = amqp.borrow_and_update().clone();
        let changed = amqp.changed();
        match now {
            Amqp::Served(connections) => return Some(connections),
            // The sender lives until serving ends.
            Amqp::Starting => changed.await.ok()?,
            Amqp::Standby => timeout(STANDBY_PATIENCE, changed).await.ok()?.ok()?,
        }
    }
}

/// The front ends of every port.
pub(super) struct FrontEnds {
    pub(super) amqp: watch::Receiver<Amqp>,
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
        let connections = tokio::select! {
            biased;
            () = unauthenticated.evicted_meanwhile() => return,
            connections = served(self.amqp.clone()) => connections,
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
