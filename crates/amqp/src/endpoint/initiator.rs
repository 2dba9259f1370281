//! Operations of the connecting side only, beside [`Connection::begin`]: attaching links.

use super::LinkId;
use super::connection::Connection;
use super::link::{LinkPhase, Side};
use super::link_in::LinkIn;
use super::link_out::LinkOut;
use super::session::SessionPhase;
use crate::wire::performative::{Attach, Performative, Role};

impl Connection {
    /// Attaches a link in the role given by `attach`, without waiting for the answer ([`super::Event::Attach`], or
    /// [`super::Event::Detached`] after an attach without terminus). The handle is filled in. `None` when the session
    /// has ended or the peer allows no more links.
    ///
    /// A receiver grants credit with [`Self::set_credit`] and settles with [`Self::update_incoming`] or
    /// [`Self::settle_incoming`]; a sender uses [`Self::send`] and gets [`super::Event::Credit`] and
    /// [`super::Event::Disposition`].
    pub fn attach(&mut self, session: u16, mut attach: Attach) -> Option<LinkId> {
        let session_key = self.channels_out.get(&session).copied().filter(|_| self.can_send_frames())?;
        self.sessions.get(session_key).filter(|session| session.phase != SessionPhase::Ending)?;
        let side = match attach.role {
            Role::Receiver => {
                let mut side = LinkIn::new(None);
                side.open(attach.max_message_size, 0);
                Side::In(side)
            }
            Role::Sender => {
                let mut side = Box::<LinkOut>::default();
                side.open(*attach.initial_delivery_count.get_or_insert(0));
                Side::Out(side)
            }
        };
        let key = self.insert_link(session_key, &attach, LinkPhase::Offered, side)?;
        let link = self.links.get_mut(key)?;
        link.announced = true;
        attach.handle = link.handle_out;
        let id = link.id;
        self.outbox.frame(session, &Performative::Attach(Box::new(attach)));
        Some(id)
    }
}
