//! Repeated failures are logged once for each reason.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

/// Current failures and their reasons.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    reasons: Mutex<BTreeMap<&'static str, String>>,
}

impl Warnings {
    /// Logs `what` with its `reason`, unless the same was logged last; returns whether it was logged.
    pub(super) fn warn(&self, what: &'static str, reason: &impl Display) -> bool {
        let reason = reason.to_string();
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = reasons.get(what) != Some(&reason);
        if is_news {
            tracing::warn!(reason, "{what}");
            reasons.insert(what, reason);
        }
        is_news
    }

    /// Logs that `what` has ended.
    pub(super) fn end(&self, what: &'static str) {
        let ended = self.reasons.lock().unwrap_or_else(PoisonError::into_inner).remove(what);
        if ended.is_some() {
            tracing::info!("resolved: {what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_logged_once_for_each_reason_until_it_ends() {
        let warnings = Warnings::default();
        let logged = ["EIO", "EIO", "ENOSPC", "EIO", "EIO"].map(|reason| warnings.warn("what", &reason));
        assert_eq!(logged, [true, false, true, true, false]);
        assert!(warnings.warn("something else", &"EIO"));
        warnings.end("what");
        assert!(warnings.warn("what", &"EIO"));
    }
}
