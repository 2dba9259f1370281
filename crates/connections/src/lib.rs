//! The register of live AMQP connections: who is connected, a way to look at one, and a way to end one.
//!
//! The front end enters a connection when its peer has opened it and holds the [`Presence`] as long as the connection lives. To drop
//! it takes the connection off the register, so that one whose task panics or is aborted is off as well. Figures are not
//! published: a connection is asked, and its own task answers at the end of a turn from what it knows anyway. So nothing is counted for
//! the register, no lock is held across an await, and a connection that nobody looks at costs one check in each turn.

mod figures;
mod register;
#[cfg(test)]
mod tests;

pub use figures::{
    About, Credential, Direction, Figures, Identity, LinkFigures, LinkPage, Look, Purpose, Transport, excerpt,
};
pub use register::{ConnectionId, Entry, Presence, Register, Request};
