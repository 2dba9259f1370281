//! One AMQP connection with the Service Bus dialect.

mod cbs;
mod connection;
mod links;
mod management;
mod receiving;
mod requests;
mod sending;
mod sessions;
mod transactions;

pub use connection::Client;
pub use management::{Page, Received};
pub use peeklock_amqp::endpoint::LinkId;
pub use receiving::{Delivery, Mode, Outcome};
pub use sending::Sending;
pub use sessions::SessionRequest;
pub use transactions::TransactionId;
