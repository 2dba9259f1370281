//! The runtime through its public API, over a store whose commits and reads the tests control.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test crate a panic is a failure"
)]
#![allow(clippy::indexing_slicing, reason = "in a test crate a panic is a failure")]

mod administration;
mod auditor;
mod batches;
mod broker;
mod catalogue;
mod clients;
mod cold_reads;
mod damage;
mod descriptions;
mod duplicates;
mod durability;
mod earlier_store;
mod failures;
mod forwarding;
mod forwarding_histories;
mod forwarding_outcomes;
mod forwarding_recovery;
mod forwarding_rules;
mod forwarding_topics;
mod full_disk;
mod growth;
mod idle;
mod metrics;
mod refused_once;
mod restart;
mod rules;
mod shard_lost;
mod short_memory;
mod simulation;
mod slow_reads;
mod spans;
mod tenure;
mod timers;
mod topics;
mod topics_failures;
mod transactions;
mod transactions_together;
mod transactions_topics;
mod travel;
mod travel_histories;
mod turns;
mod unreadable;
mod wall_clock;
mod wall_clock_histories;
mod wrapped;
