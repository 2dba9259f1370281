//! Transactions against a real daemon: by other AMQP clients, by the recorded .NET client, by misbehaving clients, and
//! across kills.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests, outside #[test].

mod transactions {
    mod concurrent;
    mod coordinator;
    mod crash;
    mod entities;
    mod generic_client;
    mod handler;
    mod management;
    mod pipelined;
    mod recorded;
    mod send_via;
    mod stage;
    mod work;
}
