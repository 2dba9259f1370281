//! A client of Service Bus: AMQP for messages, HTTP for administration.
//!
//! It uses public protocols only, so it works against this broker, the Service Bus emulator and Azure; only [`Api`] is
//! specific to this broker. The command line is built on it. [`Client`] is one AMQP connection, driven by its caller's
//! tasks: it has no task of its own, so no input or output happens between two calls, and dropping it ends the
//! connection. [`Admin`] and [`Api`] make one HTTP request for each call.

mod admin;
mod amqp;
mod api;
mod connection_string;
mod described;
mod error;
mod message;
mod sas;
mod tls;

pub use admin::Admin;
pub use amqp::{
    Client, Delivery, LinkId, Mode, Outcome, Page, Received, Sending, SessionRequest, TransactionId,
};
pub use api::Api;
pub use connection_string::{ConnectionString, Credentials};
pub use described::{Counts, Described, EntityKind, Found, Options};
pub use error::{Answer, ClientError};
pub use message::{Message, MessageState, Readdress};
pub use sas::SharedAccessKey;
pub use tls::Trust;
