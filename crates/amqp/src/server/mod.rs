//! Sockets: one task per connection.
//!
//! [`Transport`] drives one byte stream, one [`crate::endpoint::Connection`] and one [`Application`] in a single task,
//! over TCP, TLS and WebSockets alike. [`Connections`] serves streams that another component accepted, and closes them
//! at shutdown; [`Listener`] accepts its own.

mod application;
mod connections;
mod input;
mod limits;
mod linger;
mod listener;
mod log_span;
mod memory;
mod output;
mod rare_wakeups;
#[cfg(test)]
mod tests;
mod timer;
mod transport;
mod unauthenticated;

pub use application::{Admission, Application, ApplicationFactory, Peer, Unanswered};
pub use connections::{Connections, ListenerOptions};
pub use listener::Listener;
pub use log_span::in_connection_span;
pub use transport::{Ended, Stop, StopSignal, Transport};
