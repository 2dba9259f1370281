//! Peers that break every rule: an error to that peer or bounded memory, never a panic, and no harm to the bystander who
//! works on another connection all the while.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests, outside #[test].

mod hostile {
    mod before_login;
    mod deliveries;
    mod exhaustion;
    mod framing;
    mod guessing;
    mod http;
    mod logs;
    mod memory;
    mod mutation;
    mod order;
    mod pages;
    mod payload;
    mod slow;
    mod transactions;
    mod unauthenticated;
    mod websocket;
}
