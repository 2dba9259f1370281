//! Random options of entities: small times and sizes.

use proptest::prelude::*;

use super::draft::Options;
use super::histories::sometimes;
use crate::EntityStatus;

fn status() -> impl Strategy<Value = EntityStatus> {
    prop_oneof![
        9 => Just(EntityStatus::Active),
        1 => Just(EntityStatus::Disabled),
        1 => Just(EntityStatus::SendDisabled),
        1 => Just(EntityStatus::ReceiveDisabled),
    ]
}

/// Options for an existing entity: only an existing one has links that a status can detach.
pub(super) fn other_options(idles: bool) -> impl Strategy<Value = Options> {
    (options(idles), status()).prop_map(|(options, status)| Options { status, ..options })
}

/// Options of a new entity.
pub(super) fn options(idles: bool) -> impl Strategy<Value = Options> {
    let idle_ms = sometimes(if idles { 8 } else { 0 }, 6..40u64);
    let life = sometimes(3, 0..25u64);
    let sizes = (4..8u64, 20..80u64);
    let flags = (any::<bool>(), any::<bool>());
    // With a low maximum few messages stay deferred.
    let deliveries_max = prop_oneof![2 => 1..4u32, 1 => 4..20u32];
    (5..20u64, deliveries_max, life, flags, idle_ms, sizes, 6..30u64).prop_map(
        |(
            lock_duration_ms,
            max_delivery_count,
            time_to_live_ms,
            (dead_lettering, dead_lettering_of_failures),
            idle_ms,
            (message, total),
            window_ms,
        )| {
            Options {
                lock_duration_ms,
                max_delivery_count,
                time_to_live_ms,
                dead_lettering,
                dead_lettering_of_failures,
                idle_ms,
                message_bytes_max: message,
                bytes_max: total,
                window_ms,
                status: EntityStatus::Active,
            }
        },
    )
}
