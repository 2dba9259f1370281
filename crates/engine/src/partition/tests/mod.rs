//! The rules of a queue, one test each; names carry the requirement that they prove (S-1…S-43).

mod dead_letter;
mod deferral;
mod delivery;
mod expiry;
mod idle;
mod locks;
mod messages;
mod model;
mod model_test;
mod peek;
mod persistence;
mod rig;
mod rig_sessions;
mod scheduling;
mod sending;
mod sessions_accept;
mod sessions_delivery;
mod sessions_expiry;
mod sessions_histories;
mod sessions_lock;
mod sessions_state;
mod sessions_table;
mod settling;
mod status;
mod table;
mod topics;
