//! Sockets: the listener and one task per connection.

mod application;

pub use application::{Application, ApplicationFactory, Peer, Unanswered};
