//! The AMQP 1.0 front end and the Service Bus dialect.
//!
//! [`wire`], a crate of its own, turns bytes into values, performatives and message sections and back. [`endpoint`] is the
//! protocol as a pure state machine, ignorant of Service Bus. [`servicebus`] joins endpoint and engine: addresses, `$cbs`,
//! `$management`, the error table. [`server`] drives them over sockets.

pub mod endpoint;
mod metrics;
pub mod server;
pub mod servicebus;

pub use metrics::RefusalMetrics;
pub use peeklock_wire as wire;
