//! The dialect between a client's endpoint and an engine whose answers the tests script.

pub(super) mod authorization;
mod awaited;
mod browsing;
mod early;
mod entities;
pub(super) mod harness;
mod idle;
mod joined_sends;
mod kept_attaches;
mod leaving;
mod links;
mod missing;
mod presence;
mod receiving;
mod requests;
mod selectors;
mod sending;
mod sessions;
mod topics;
mod transactions;
mod watching;
