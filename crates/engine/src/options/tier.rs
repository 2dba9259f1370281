//! The tiers of Service Bus, and the options of entities in each.

use super::schema::OptionSet;
use crate::DELETE_COUNT_MAX;

const DAY_MS: u64 = 86_400_000;
const KILOBYTE: u64 = 1 << 10;
const MEGABYTE: u64 = 1 << 20;

/// A tier, in ascending order. A higher tier has every option of a lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Tier {
    /// Queues without sessions, duplicate detection, forwarding and transactions; no topics.
    Basic,
    /// Everything except large messages.
    Standard,
    /// Everything.
    #[default]
    Premium,
}

impl Tier {
    /// Every tier.
    pub const ALL: [Self; 3] = [Self::Basic, Self::Standard, Self::Premium];

    /// Its name in Service Bus.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Basic => "Basic",
            Self::Standard => "Standard",
            Self::Premium => "Premium",
        }
    }

    /// Whether there are topics (azure-docs 46129, 111485).
    #[must_use]
    pub const fn has_topics(self) -> bool {
        !matches!(self, Self::Basic)
    }

    /// Whether there are transactions (azure-spring-boot 965).
    #[must_use]
    pub const fn has_transactions(self) -> bool {
        !matches!(self, Self::Basic)
    }

    /// Default and maximum of the time to live of messages, in milliseconds (S-15; azure-service-bus 306).
    #[must_use]
    pub const fn time_to_live_ms_max(self) -> Option<u64> {
        match self {
            Self::Basic => Some(14 * DAY_MS),
            Self::Standard | Self::Premium => None,
        }
    }

    /// The common maximum message size of all entities, in bytes; `None` where each entity has its own (azure-docs 105413).
    #[must_use]
    pub const fn message_size_bytes(self) -> Option<u64> {
        match self {
            Self::Basic | Self::Standard => Some(256 * KILOBYTE),
            Self::Premium => None,
        }
    }

    /// The allowed sizes of an entity, in megabytes, the default first; `None` if the option's range applies (azure-cli
    /// 31702).
    #[must_use]
    pub const fn sizes_mb(self) -> Option<&'static [u64]> {
        match self {
            Self::Basic | Self::Standard => Some(&[1024, 2048, 3072, 4096, 5120]),
            Self::Premium => None,
        }
    }

    /// Number of partitions of a partitioned entity, each of the requested size (azure-sdk-for-net 3855,
    /// azure-service-bus-dotnet 619). Premium divides namespaces instead of entities.
    #[must_use]
    pub const fn partitions(self) -> u64 {
        match self {
            Self::Basic | Self::Standard => 16,
            Self::Premium => 1,
        }
    }

    /// Maximum number of messages that a client can delete with one request (azure-docs 127665).
    #[must_use]
    pub const fn delete_count_max(self) -> u32 {
        match self {
            Self::Basic | Self::Standard => 500,
            Self::Premium => DELETE_COUNT_MAX,
        }
    }

    /// The default options of an entity. `[limits]` determines the time to live.
    #[must_use]
    pub fn defaults<O: OptionSet>(self) -> O {
        let mut options = O::default();
        if let Some((message_bytes, total_bytes)) = options.sizes_bytes_mut() {
            *message_bytes = self.message_size_bytes().unwrap_or(*message_bytes);
            let size_mb = self.sizes_mb().and_then(|sizes_mb| sizes_mb.first());
            *total_bytes = size_mb.map_or(*total_bytes, |size_mb| size_mb * MEGABYTE);
        }
        options
    }

    /// Whether this tier allows the entity's size. A partitioned entity may also have its total size, because administration
    /// clients read that and write it back (inferred).
    #[must_use]
    pub fn allows_size<O: OptionSet>(self, options: &O) -> bool {
        let (Some(sizes_mb), Some((_, total_bytes))) = (self.sizes_mb(), options.sizes_bytes()) else {
            return true;
        };
        let factor = self.partitions();
        sizes_mb.iter().any(|size_mb| {
            let size_bytes = size_mb * MEGABYTE;
            total_bytes == size_bytes || options.is_partitioned() && total_bytes == size_bytes * factor
        })
    }

    /// Multiplies the size of a partitioned entity by the number of partitions, unless it is the total size already.
    #[must_use]
    pub fn complete<O: OptionSet>(self, mut options: O) -> O {
        let is_partitioned = options.is_partitioned();
        let most_mb = self.sizes_mb().and_then(|sizes_mb| sizes_mb.last());
        if let (true, Some(most_mb), Some((_, total_bytes))) =
            (is_partitioned, most_mb, options.sizes_bytes_mut())
            && *total_bytes <= most_mb * MEGABYTE
        {
            *total_bytes *= self.partitions();
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kept, QueueOptions, SubscriptionOptions, TopicOptions};

    const GIGABYTE: u64 = 1 << 30;

    #[test]
    fn below_premium_messages_and_entities_are_small() {
        for tier in [Tier::Basic, Tier::Standard] {
            let queue: QueueOptions = tier.defaults();
            assert_eq!((queue.max_message_size_bytes, queue.max_size_bytes), (262_144, GIGABYTE));
            let topic: TopicOptions = tier.defaults();
            assert_eq!((topic.max_message_size_bytes, topic.max_size_bytes), (262_144, GIGABYTE));
        }
        assert_eq!(Tier::Premium.defaults::<QueueOptions>(), QueueOptions::default());
        assert_eq!(Tier::Basic.defaults::<SubscriptionOptions>(), SubscriptionOptions::default());
    }

    #[test]
    fn a_partitioned_entity_has_sixteen_times_its_size_once() {
        let kept = Kept { enable_partitioning: true, ..Kept::default() };
        for (size_gb, total_gb) in [(1, 16), (5, 80), (16, 16), (80, 80)] {
            let queue = QueueOptions {
                max_size_bytes: size_gb * GIGABYTE,
                kept: kept.clone(),
                ..Tier::Standard.defaults()
            };
            assert!(Tier::Standard.allows_size(&queue), "{size_gb} GB");
            assert_eq!(Tier::Standard.complete(queue).max_size_bytes, total_gb * GIGABYTE);
        }
        let whole = QueueOptions { max_size_bytes: 16 * GIGABYTE, ..Tier::Standard.defaults() };
        assert!(!Tier::Standard.allows_size(&whole));
        assert!(Tier::Premium.allows_size(&whole));
        let partitioned = QueueOptions { kept, ..QueueOptions::default() };
        assert_eq!(Tier::Premium.complete(partitioned.clone()), partitioned);
    }
}
