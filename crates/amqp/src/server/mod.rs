//! Sockets: one task per connection.
//!
//! [`Transport`] drives one byte stream, one [`crate::endpoint::Connection`] and one [`Application`] in a single task;
//! TCP, TLS and WebSockets are alike to it. [`Connections`] serves streams that somebody else accepted, and takes leave of
//! them; [`Listener`] accepts by itself.

mod application;
mod connections;
mod input;
mod limits;
mod linger;
mod listener;
mod memory;
mod output;
#[cfg(test)]
mod tests;
mod timer;
mod transport;
mod unauthenticated;

pub use application::{Admission, Application, ApplicationFactory, Peer, Unanswered};
pub use connections::{Connections, ListenerOptions};
pub use listener::Listener;
pub use transport::{Ended, Stop, StopSignal, Transport};
