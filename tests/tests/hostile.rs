//! Peers that violate all rules: the peer gets an error or uses bounded memory, never a panic, and a well-behaved
//! client on another connection is not affected.

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
