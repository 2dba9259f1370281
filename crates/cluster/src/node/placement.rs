//! Assignment of shards to nodes.

use std::collections::{BTreeMap, BTreeSet};

use peeklock_storage::ShardId;

use crate::NodeName;

/// The rule that assigns shards to the live nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The current holder keeps the shard.
    Kept,
    /// Shards are distributed evenly, with a difference of at most one; the assignment depends only on the names of the
    /// nodes.
    Spread,
}

/// Distributes the shards over nodes by rendezvous hashing: each shard goes to the node with the highest score among
/// those that have not reached their share. So a node that joins or leaves moves little more than its own share.
pub(super) fn spread(shards: u32, nodes: &BTreeSet<&NodeName>) -> BTreeMap<ShardId, NodeName> {
    let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX).max(1);
    let (part, mut larger_parts) = (shards / count, shards % count);
    let mut loads: BTreeMap<&NodeName, u32> = nodes.iter().map(|node| (*node, 0)).collect();
    let mut placed = BTreeMap::new();
    for shard in (0..shards).map(ShardId) {
        let has_room = |load: u32| load < part || (load == part && larger_parts > 0);
        let able = loads.iter_mut().filter(|(_, load)| has_room(**load));
        let Some((node, load)) = able.max_by_key(|(node, _)| score(node, shard)) else { break };
        *load += 1;
        if *load > part {
            larger_parts -= 1;
        }
        placed.insert(shard, (*node).clone());
    }
    placed
}

/// FNV-1a over shard and name with a finalizer, since the last bytes of FNV's input hardly affect its high bits. All
/// nodes must compute the same number, in every release: never change it.
fn score(node: &NodeName, shard: ShardId) -> u64 {
    let bytes = shard.0.to_le_bytes().into_iter().chain(node.0.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> NodeName {
        NodeName(name.to_owned())
    }

    fn dealt(shards: u32, names: &[&str]) -> BTreeMap<ShardId, NodeName> {
        let names: Vec<NodeName> = names.iter().map(|one| name(one)).collect();
        spread(shards, &names.iter().collect())
    }

    #[test]
    fn every_shard_has_a_node_and_parts_differ_by_one_at_most() {
        for shards in 0..40 {
            for count in 1..6 {
                let names = ["a", "b", "c", "d", "e"];
                let placed = dealt(shards, &names[..count]);
                assert_eq!(placed.len(), shards as usize);
                let load = |node: &&str| placed.values().filter(|of| of.0 == **node).count();
                let loads: Vec<usize> = names[..count].iter().map(load).collect();
                let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
                assert!(most - least <= 1, "{shards} over {count}: {loads:?}");
            }
        }
    }

    #[test]
    fn a_node_that_goes_leaves_most_shards_of_the_others_where_they_are() {
        let (before, after) = (dealt(300, &["a", "b", "c"]), dealt(300, &["a", "b"]));
        let moved = before.iter().filter(|(shard, of)| of.0 != "c" && after[*shard] != **of).count();
        assert!(moved < 60, "{moved} of 200 moved though their nodes stayed");
        assert_eq!(before, dealt(300, &["c", "b", "a"]), "the order in which nodes are seen does not matter");
    }

    #[test]
    fn the_dealing_of_this_release_is_that_of_every_release() {
        let placed = dealt(8, &["alpha", "beta"]);
        let of: Vec<&str> = placed.values().map(|node| node.0.as_str()).collect();
        assert_eq!(of, ["alpha", "beta", "beta", "alpha", "alpha", "beta", "beta", "alpha"]);
    }

    #[test]
    fn without_nodes_nothing_is_dealt() {
        assert!(spread(4, &BTreeSet::new()).is_empty());
    }
}
