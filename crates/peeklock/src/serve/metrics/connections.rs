//! Connections by protocol.

use std::fmt;

use peeklock_metrics::{Counters, Family, Page, Source, Unit};
use peeklock_net::UnauthenticatedConnections;
use std::sync::{Arc, OnceLock};

const CONNECTIONS: Family = Family::gauge(
    "peeklock_connections",
    Unit::None,
    "Open connections by protocol; ws and wss are AMQP over WebSockets.",
);
const OPENED: Family = Family::counter(
    "peeklock_connections_opened",
    Unit::None,
    "Connections opened since the start, by protocol.",
);
const UNAUTHENTICATED: Family = Family::gauge(
    "peeklock_connections_unauthenticated",
    Unit::None,
    "Open connections whose peer has not authenticated.",
);

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::serve) enum Spoken {
    Amqp,
    WebSocket,
    Http,
}

impl Spoken {
    const fn name(self, is_encrypted: bool) -> &'static str {
        match (self, is_encrypted) {
            (Self::Amqp, false) => "amqp",
            (Self::Amqp, true) => "amqps",
            (Self::WebSocket, false) => "ws",
            (Self::WebSocket, true) => "wss",
            (Self::Http, false) => "http",
            (Self::Http, true) => "https",
        }
    }

    fn all() -> impl Iterator<Item = &'static str> {
        let all = [Self::Amqp, Self::WebSocket, Self::Http];
        all.into_iter().flat_map(|spoken| [spoken.name(false), spoken.name(true)])
    }
}

/// The metrics' source; see the module; cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::serve) struct ConnectionMetrics {
    opened: Counters<1>,
    closed: Counters<1>,
    unauthenticated: Arc<OnceLock<UnauthenticatedConnections>>,
}

impl Default for ConnectionMetrics {
    /// Every protocol has a series from the start, so that the first connection is visible as an increase.
    fn default() -> Self {
        let (opened, closed) = (Counters::default(), Counters::default());
        for protocol in Spoken::all() {
            opened.get_or_create(&[("protocol", protocol)]).inc_by(0);
            closed.get_or_create(&[("protocol", protocol)]).inc_by(0);
        }
        Self { opened, closed, unauthenticated: Arc::default() }
    }
}

impl ConnectionMetrics {
    /// Sets the list of unauthenticated connections, once.
    pub(in crate::serve) fn set_unauthenticated(&self, connections: UnauthenticatedConnections) {
        // It is set in one place only.
        let _ = self.unauthenticated.set(connections);
    }

    /// Counts a connection as open until the returned value is dropped.
    pub(in crate::serve) fn open(&self, spoken: Spoken, is_encrypted: bool) -> OpenConnection {
        let labels = [("protocol", spoken.name(is_encrypted))];
        self.opened.get_or_create(&labels).inc();
        OpenConnection(self.closed.get_or_create(&labels).clone())
    }
}

/// An open connection.
#[derive(Debug)]
pub(in crate::serve) struct OpenConnection(peeklock_metrics::Counter);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.inc();
    }
}

impl Source for ConnectionMetrics {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let open = Spoken::all().map(|protocol| {
            let labels = [("protocol", protocol)];
            // Read first, so that a connection that closes meanwhile is not subtracted without having been added.
            let closed = self.closed.get_or_create(&labels).get();
            (labels, self.opened.get_or_create(&labels).get().saturating_sub(closed))
        });
        page.each(&CONNECTIONS, open)?;
        page.counters(&OPENED, &self.opened)?;
        let unauthenticated = self.unauthenticated.get().map_or(0, UnauthenticatedConnections::len);
        page.one(&UNAUTHENTICATED, unauthenticated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_counts_as_open_until_it_ends() {
        let (registry, connections) = (peeklock_metrics::Metrics::default(), ConnectionMetrics::default());
        registry.register(connections.clone());
        let open = connections.open(Spoken::WebSocket, true);
        assert!(registry.text().unwrap().contains("peeklock_connections{protocol=\"wss\"} 1\n"));
        drop(open);
        let text = registry.text().unwrap();
        assert!(text.contains("peeklock_connections{protocol=\"wss\"} 0\n"), "{text}");
        assert!(text.contains("peeklock_connections_opened_total{protocol=\"wss\"} 1\n"), "{text}");
    }
}
