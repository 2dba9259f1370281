//! Transactions: each requirement of the .NET client's live tests, by its number, and error cases.

mod acting;
mod control;
mod deliveries;
mod entities;
mod limits;
mod management;
mod order;
mod peer_settled;
mod revoked;
mod via;
mod work;
