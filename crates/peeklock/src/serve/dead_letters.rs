//! Logs once a minute how many messages were dead-lettered, by entity and reason, in one line for many messages.

use std::collections::HashMap;
use std::time::Duration;

use peeklock_engine::Totals;
use peeklock_engine::runtime::Namespace;

const EVERY: Duration = Duration::from_secs(60);
/// Maximum number of lines at a time; the rest is summed up in one.
const LINES_MAX: usize = 50;

/// Reports until it is dropped.
pub(super) async fn report(namespace: Namespace) {
    let mut seen = Seen::default();
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        ticks.tick().await;
        let mut increases = seen.take(namespace.all_totals());
        let left_out: u64 = increases.iter().skip(LINES_MAX).map(|increase| increase.count).sum();
        increases.truncate(LINES_MAX);
        for Increase { entity, reason, count } in increases {
            tracing::info!(entity, reason, count, "messages were dead-lettered");
        }
        if left_out > 0 {
            tracing::info!(count = left_out, "messages of more entities were dead-lettered");
        }
    }
}

/// Number of messages of an entity dead-lettered since the last report.
#[derive(Debug, PartialEq, Eq)]
struct Increase {
    entity: String,
    reason: &'static str,
    count: u64,
}

/// Totals that have been reported.
#[derive(Debug, Default)]
struct Seen(HashMap<String, Totals>);

impl Seen {
    /// The increases since the last call, largest first.
    fn take(&mut self, totals: Vec<(String, Totals)>) -> Vec<Increase> {
        let before = std::mem::take(&mut self.0);
        let mut increases = Vec::new();
        for (entity, now) in totals {
            // A new entity of the same name starts from 0.
            let before = before.get(&entity).filter(|before| before.dead_lettered() <= now.dead_lettered());
            let before = before.copied().unwrap_or_default().dead_lettered_by_reason();
            for ((reason, now), (_, before)) in now.dead_lettered_by_reason().into_iter().zip(before) {
                if now > before {
                    increases.push(Increase { entity: entity.clone(), reason, count: now - before });
                }
            }
            if now.dead_lettered() > 0 {
                self.0.insert(entity, now);
            }
        }
        increases.sort_by_key(|increase| std::cmp::Reverse(increase.count));
        increases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(ttl: u64, application: u64) -> Totals {
        Totals { dead_lettered_ttl: ttl, dead_lettered_application: application, ..Totals::default() }
    }

    fn take(seen: &mut Seen, totals: &[(&str, Totals)]) -> Vec<(String, &'static str, u64)> {
        let totals = totals.iter().map(|(name, totals)| ((*name).to_owned(), *totals)).collect();
        seen.take(totals).into_iter().map(|one| (one.entity, one.reason, one.count)).collect()
    }

    #[test]
    fn each_dead_letter_is_reported_once_by_entity_and_reason() {
        let mut seen = Seen::default();
        let first = take(&mut seen, &[("a", totals(1, 5)), ("b", totals(0, 0))]);
        assert_eq!(first, [("a".to_owned(), "application", 5), ("a".to_owned(), "ttl", 1)]);
        assert_eq!(take(&mut seen, &[("a", totals(1, 5)), ("b", totals(0, 0))]), []);
        let next = take(&mut seen, &[("a", totals(1, 7)), ("b", totals(3, 0))]);
        assert_eq!(next, [("b".to_owned(), "ttl", 3), ("a".to_owned(), "application", 2)]);
        assert_eq!(
            take(&mut seen, &[("a", totals(0, 2))]),
            [("a".to_owned(), "application", 2)],
            "created anew"
        );
    }
}
