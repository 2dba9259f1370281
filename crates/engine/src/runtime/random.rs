//! The port for randomness: one generator per partition.

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng, TryRng};

use peeklock_storage::PartitionId;

/// Derives each partition's generator from one secret.
#[derive(Clone)]
pub(super) struct RandomSource {
    secret: [u8; 24],
}

impl RandomSource {
    /// Creates it from a seed, or without one from the operating system. With a seed, every start hands out the same lock
    /// tokens, so tests that restart a namespace change it.
    pub(super) fn new(seed: Option<u64>) -> Result<Self, String> {
        let mut secret = [0; 24];
        match seed {
            Some(seed) => StdRng::seed_from_u64(seed).fill_bytes(&mut secret),
            None => SysRng.try_fill_bytes(&mut secret).map_err(|error| error.to_string())?,
        }
        Ok(Self { secret })
    }

    /// The generator of one partition; different partitions get unrelated streams.
    pub(super) fn partition(&self, partition: PartitionId) -> StdRng {
        let mut seed = [0; 32];
        let (secret, id) = seed.split_at_mut(self.secret.len());
        secret.copy_from_slice(&self.secret);
        id.copy_from_slice(&partition.0.to_le_bytes());
        StdRng::from_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_partition_and_repeat_by_seed() {
        let source = RandomSource::new(Some(7)).unwrap();
        let first = source.partition(PartitionId(1)).next_u64();
        assert_ne!(first, source.partition(PartitionId(2)).next_u64());
        assert_eq!(first, RandomSource::new(Some(7)).unwrap().partition(PartitionId(1)).next_u64());
        assert_ne!(first, RandomSource::new(None).unwrap().partition(PartitionId(1)).next_u64());
    }
}
