//! Random histories that combine features.

use proptest::prelude::*;
use proptest::strategy::Union;

use super::draft::Move;
use super::histories::{
    History, Kind, draft, histories_of, nearly_full, partitioned, with_duplicates, with_others,
};

/// Histories of all kinds with any combination of features, and with messages that their destination refused.
pub(super) fn histories() -> BoxedStrategy<History> {
    let kinds = [Kind::Queue, Kind::Sessions, Kind::Topic];
    let flags = [false, true];
    let mut all = Vec::new();
    for kind in kinds {
        for idles in flags {
            all.extend(flags.map(|units| (1, histories_of(kind, idles, units))));
        }
    }
    let add = |(history, detects, parts, is_small): (History, bool, bool, bool)| {
        let history = if detects { with_duplicates(history) } else { history };
        let history = if parts { partitioned(history) } else { history };
        if is_small { nearly_full(history) } else { history }
    };
    let histories = (Union::new_weighted(all), any::<bool>(), any::<bool>(), prop::bool::weighted(0.3));
    let undelivered = prop::collection::vec(draft(Kind::Queue), 0..3);
    let kept = (0..120usize, undelivered.prop_map(Move::KeepUndelivered));
    (histories.prop_map(add), prop::collection::vec(kept, 0..6)).prop_map(with_others).boxed()
}
