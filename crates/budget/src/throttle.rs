//! Rate limits: messages per second of an entity, a rule or a connection.
//!
//! A bucket holds a second's worth. The time is passed with each call, so the same calls always return the same
//! results.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const SECOND_NS: u64 = 1_000_000_000;

/// A bucket overdrawn by large batches can be used again after this time at the latest.
const DEBT_NS_MAX: u64 = 60 * SECOND_NS;

/// Number of buckets beyond which unused ones are removed.
const BUCKETS_KEPT_MAX: usize = 10_000;

/// A token bucket: a steady rate, and a burst of a second's worth. (The "generic cell rate algorithm", whose state is a
/// single time.)
#[derive(Debug)]
pub struct Bucket {
    interval_ns: u64,
    /// Time when the bucket will be full again, in nanoseconds of the caller's clock.
    full_at_ns: AtomicU64,
}

impl Bucket {
    /// A full bucket of this many messages a second, at least one.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        let interval_ns = SECOND_NS / u64::from(per_second.max(1));
        Self { interval_ns, full_at_ns: AtomicU64::new(0) }
    }

    /// Takes this many messages unless the bucket is empty; a batch larger than the rest is accepted and overdraws the
    /// bucket.
    pub fn take(&self, now_ms: u64, messages: usize) -> bool {
        let now_ns = now_ms.saturating_mul(1_000_000);
        let cost_ns = self.interval_ns.saturating_mul(u64::try_from(messages).unwrap_or(u64::MAX));
        let taken = self.full_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at_ns| {
            // Further ahead than any overdraft: the clock went back.
            let full_at_ns = if full_at_ns > now_ns + DEBT_NS_MAX { now_ns } else { full_at_ns };
            let is_empty =
                full_at_ns.saturating_add(self.interval_ns) > now_ns + SECOND_NS.max(self.interval_ns);
            (!is_empty).then(|| full_at_ns.max(now_ns).saturating_add(cost_ns).min(now_ns + DEBT_NS_MAX))
        });
        taken.is_ok()
    }
}

/// Rates in messages a second; `None` means no limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rates {
    /// Rate of each connection.
    pub connection: Option<u32>,
    /// Rate of each shared access rule, certificate or other identity, over all its connections.
    pub identity: Option<u32>,
    /// Rate of each queue and topic that is not in [`Self::entities`].
    pub entity: Option<u32>,
    /// Rates of single queues and topics, by name in lower case.
    pub entities: HashMap<String, Option<u32>>,
}

/// The buckets of all identities and entities; cheap to clone, all clones share the buckets.
#[derive(Debug, Clone, Default)]
pub struct Throttles(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    rates: Rates,
    identities: Mutex<HashMap<String, Arc<Bucket>>>,
    entities: Mutex<HashMap<String, Arc<Bucket>>>,
}

impl Throttles {
    /// Throttles with these rates.
    #[must_use]
    pub fn new(rates: Rates) -> Self {
        Self(Arc::new(Inner { rates, ..Inner::default() }))
    }

    /// A new connection's bucket.
    #[must_use]
    pub fn connection(&self) -> Option<Bucket> {
        self.0.rates.connection.map(Bucket::new)
    }

    /// Whether identities are limited at all.
    #[must_use]
    pub fn limits_identities(&self) -> bool {
        self.0.rates.identity.is_some()
    }

    /// The bucket of an identity.
    #[must_use]
    pub fn identity(&self, principal: &str) -> Option<Arc<Bucket>> {
        Some(shared(&self.0.identities, principal.to_owned(), self.0.rates.identity?))
    }

    /// The bucket of a queue or topic.
    #[must_use]
    pub fn entity(&self, name: &str) -> Option<Arc<Bucket>> {
        let Rates { entity, entities, .. } = &self.0.rates;
        if entity.is_none() && entities.is_empty() {
            return None;
        }
        let name = name.to_lowercase();
        let rate = entities.get(&name).copied().unwrap_or(*entity)?;
        Some(shared(&self.0.entities, name, rate))
    }
}

fn shared(buckets: &Mutex<HashMap<String, Arc<Bucket>>>, name: String, rate: u32) -> Arc<Bucket> {
    let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
    if buckets.len() > BUCKETS_KEPT_MAX {
        buckets.retain(|_, bucket| Arc::strong_count(bucket) > 1);
    }
    Arc::clone(buckets.entry(name).or_insert_with(|| Arc::new(Bucket::new(rate))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    #[test]
    fn a_bucket_gives_a_seconds_worth_at_once_and_then_its_rate() {
        let bucket = Bucket::new(10);
        let taken = (0..20).filter(|_| bucket.take(NOW_MS, 1)).count();
        assert_eq!(taken, 10);
        assert!(!bucket.take(NOW_MS + 99, 1));
        assert!(bucket.take(NOW_MS + 100, 1));
        assert!(!bucket.take(NOW_MS + 100, 1));
        let taken = (0..20).filter(|_| bucket.take(NOW_MS + 10_000, 1)).count();
        assert_eq!(taken, 10);
    }

    #[test]
    fn a_batch_larger_than_the_bucket_passes_and_is_paid_for_afterwards() {
        let bucket = Bucket::new(10);
        assert!(bucket.take(NOW_MS, 30));
        assert!(!bucket.take(NOW_MS + 2_000, 1));
        assert!(bucket.take(NOW_MS + 2_100, 1));
        assert!(bucket.take(NOW_MS + 10_000, 1_000_000));
        assert!(!bucket.take(NOW_MS + 60_000, 1));
        assert!(bucket.take(NOW_MS + 70_000, 1), "no debt lasts longer than a minute");
    }

    #[test]
    fn a_clock_that_goes_back_does_not_block() {
        let bucket = Bucket::new(1);
        assert!(bucket.take(NOW_MS, 1));
        assert!(bucket.take(NOW_MS - 3_600_000, 1));
    }

    #[test]
    fn equal_names_share_a_bucket() {
        let entities = HashMap::from([("orders".to_owned(), Some(1)), ("free".to_owned(), None)]);
        let throttles = Throttles::new(Rates { entity: Some(2), entities, ..Rates::default() });
        assert!(throttles.entity("Orders").unwrap().take(NOW_MS, 1));
        assert!(!throttles.entity("orders").unwrap().take(NOW_MS, 1));
        assert!(throttles.entity("other").unwrap().take(NOW_MS, 1));
        assert!(throttles.entity("free").is_none());
        assert!(throttles.identity("rule").is_none() && throttles.connection().is_none());
    }
}
