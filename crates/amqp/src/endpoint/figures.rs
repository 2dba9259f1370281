//! The state of a link, for diagnosis.

use super::LinkId;
use super::connection::Connection;
use super::link::Side;

/// A snapshot of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkFigures<'a> {
    /// The name chosen by the side that attached first.
    pub name: &'a str,
    /// Whether we receive on it.
    pub is_incoming: bool,
    /// Deliveries that the receiving side still allows.
    pub credit: u32,
    /// Deliveries that are not settled.
    pub unsettled: usize,
    /// Deliveries since attach: those received completely, or those sent completely.
    pub messages: u64,
}

impl Connection {
    /// The links with a name, at most one in each direction.
    pub fn links_named(&self, name: &str) -> impl Iterator<Item = LinkId> {
        self.links.ids_named(name)
    }

    /// A snapshot of a link; `None` if the link no longer exists.
    #[must_use]
    pub fn link_figures(&self, link: LinkId) -> Option<LinkFigures<'_>> {
        let link = self.links.key(link).and_then(|key| self.links.get(key))?;
        let (is_incoming, credit, unsettled, messages) = match &link.side {
            Side::In(side) => {
                let (credit, received) = side.figures();
                (true, credit, side.unsettled, received)
            }
            Side::Out(side) => (false, side.credit, side.unsettled.len(), side.transmitted),
        };
        Some(LinkFigures { name: &link.name, is_incoming, credit, unsettled, messages })
    }
}
