//! The rules of a topic and its subscriptions, one test each.

mod deletion;
mod histories;
mod idle;
mod limits;
mod publishing;
pub(super) mod rig;
mod rules;
mod scheduling;
mod sessions;
mod status;
pub(super) mod store;
mod storing;
mod subscriptions;
mod table;
