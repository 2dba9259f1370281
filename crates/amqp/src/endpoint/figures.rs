//! What can be seen of a link from outside.

use super::LinkId;
use super::connection::Connection;
use super::link::Side;

/// A link at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkFigures<'a> {
    /// As the side that attached first named it.
    pub name: &'a str,
    /// Whether we receive on it.
    pub is_incoming: bool,
    /// Deliveries that the receiving side will still take.
    pub credit: u32,
    /// Deliveries that are not settled.
    pub unsettled: usize,
    /// Deliveries since attach: complete ones that came, or those that have left completely.
    pub messages: u64,
}

impl Connection {
    /// What is known of a link; `None` if it is gone.
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
