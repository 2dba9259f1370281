//! The runtime through its public face, over a store whose commits and reads the tests hold in their hands.

mod auditor;
mod broker;
mod catalogue;
mod cold_reads;
mod durability;
mod failures;
mod restart;
mod simulation;
mod slow_reads;
mod timers;
