//! The register of live AMQP connections, for listing, inspecting and closing them.
//!
//! The front end registers a connection when its peer has opened it, and holds the [`Presence`] as long as the
//! connection lives. Dropping it removes the connection from the register, even if the connection's task panics or is
//! aborted. State is not published: a query is sent to the connection's own task, which answers at the end of a turn
//! from state that it keeps anyway. So nothing is counted for the register, no lock is held across an await, and
//! without queries a connection pays for one check per turn.

mod figures;
mod register;
#[cfg(test)]
mod tests;

pub use figures::{
    About, Credential, Direction, Figures, Identity, LinkFigures, LinkPage, Look, Purpose, Transport, excerpt,
};
pub use register::{ConnectionId, Entry, Presence, Register, Request};
