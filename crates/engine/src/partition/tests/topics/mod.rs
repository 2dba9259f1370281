//! The rules of a topic and its subscriptions, one test each.

mod actions;
mod deletion;
mod doubt;
mod effects;
mod failures;
mod histories;
mod idle;
mod limits;
mod publishing;
mod purging;
pub(super) mod rig;
mod rules;
mod scheduling;
mod sessions;
pub(super) mod sql;
mod status;
pub(super) mod store;
mod storing;
mod subscriptions;
mod table;
mod undelivered;
