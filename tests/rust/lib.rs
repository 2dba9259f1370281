//! Helpers for suites that test a real Peeklock daemon from outside.
//!
//! Nothing here uses the broker's own crates: [`codec`] and [`client`] are an independent, deliberately simple
//! implementation of AMQP 1.0, which can send what a proper client library never would.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)] // reason: only tests use this crate, and a panic is a failed test

pub mod audit;
pub mod bystander;
pub mod client;
pub mod codec;
pub mod daemon;
pub mod http;
pub mod load;
pub mod loopback;
pub mod recorded;
pub mod seed;
pub mod session_audit;
pub mod wire;
