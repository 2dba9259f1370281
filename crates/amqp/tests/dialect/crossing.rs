//! A client with transactions across entities: the coordinator's link is the first of its AMQP session.

use peeklock_amqp::endpoint::LinkId;

use super::outcome::Outcome;
use super::peer::{Asked, Purpose};
use super::world::World;

/// The client that may have them.
const CROSSING_PEER: usize = 2;

impl World {
    /// Attaches a link to the coordinator.
    pub(crate) fn coordinate(&mut self, peer: usize) -> LinkId {
        let link = self.peers[peer].attach(Purpose::Coordinates, |_| {});
        self.peers[peer].expect(Asked::Attach(link), Outcome::Attached(None));
        link
    }

    /// Whether a client has transactions across entities.
    pub(crate) const fn crosses(&self, peer: usize) -> bool {
        self.setup.crosses && peer == CROSSING_PEER
    }

    /// Begins a session for transactions across entities, if the client has them: the coordinator's link is the first.
    pub(crate) fn cross(&mut self, peer: usize) {
        if !self.crosses(peer) {
            return;
        }
        let client = &mut self.peers[peer];
        client.control = client.connection.begin().expect("a session");
        client.session = client.control;
        self.bus.cross(peer);
        self.coordinate(peer);
    }
}
