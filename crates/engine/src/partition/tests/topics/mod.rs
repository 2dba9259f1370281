//! The rules of a topic and its subscriptions, one test each.

mod deletion;
mod histories;
mod idle;
mod publishing;
mod rig;
mod rules;
mod scheduling;
mod sessions;
mod storing;
mod subscriptions;
