//! The AMQP 1.0 front end and the Service Bus dialect.
//!
//! [`wire`], a crate of its own, encodes and decodes values, performatives and message sections. [`endpoint`] is the
//! protocol as a pure state machine, independent of Service Bus. [`servicebus`] connects endpoint and engine:
//! addresses, `$cbs`, `$management`, the error table. [`server`] drives them over sockets.

pub mod endpoint;
mod metrics;
pub mod server;
pub mod servicebus;

pub use metrics::RefusalMetrics;
pub use peeklock_wire as wire;
