//! Last access by clients to an entity or subscription, for administrators; not kept across restarts.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Timestamp;

/// A timestamp that other tasks can read; zero means never.
#[derive(Debug, Default)]
pub(super) struct AccessedAt(AtomicU64);

impl AccessedAt {
    pub(super) fn get(&self) -> Option<Timestamp> {
        Some(Timestamp(self.0.load(Ordering::Relaxed))).filter(|at| *at != Timestamp::default())
    }

    pub(super) fn set(&self, at: Timestamp) {
        self.0.store(at.0, Ordering::Relaxed);
    }
}
