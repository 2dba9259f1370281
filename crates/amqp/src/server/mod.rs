//! Sockets: the listener and one task per connection.
//!
//! [`Listener`] accepts; [`Transport`] drives one socket, one [`crate::endpoint::Connection`] and one
//! [`Application`] in a single task. Any reliable byte stream will do, so TLS and WebSockets have their place.

mod application;
mod input;
mod limits;
mod listener;
mod output;
#[cfg(test)]
mod tests;
mod timer;
mod transport;

pub use application::{Admission, Application, ApplicationFactory, Peer, Unanswered};
pub use listener::{Listener, ListenerOptions};
pub use transport::{Ended, StopSignal, Transport};
