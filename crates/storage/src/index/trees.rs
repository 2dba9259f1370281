//! The trees of all partitions.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;

use rustc_hash::FxHashMap;

use super::chunk::Chunk;
use crate::{PartitionId, Space};

/// The live keys of one space of one partition.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Chunks by number / [`super::CHUNK_KEYS`].
    pub(super) chunks: BTreeMap<u64, Chunk>,
    /// One past the highest number in any record on disk, 0 for none: keys from here on have no older version. The last
    /// number if the partition had been removed as a whole before: then any key may have one.
    pub(super) numbers_end: u64,
}

impl Tree {
    /// The last chunk, if it has this number. That is the common case, because numbers mostly increase.
    pub(super) fn last_chunk(&mut self, number: u64) -> Option<&mut Chunk> {
        self.chunks.last_entry().filter(|last| *last.key() == number).map(OccupiedEntry::into_mut)
    }

    /// Whether a key of it was ever noted.
    const fn is_used(&self) -> bool {
        self.numbers_end > 0
    }
}

/// The trees of a partition.
#[derive(Debug)]
struct Partition {
    id: PartitionId,
    trees: [Tree; Space::ALL.len()],
}

impl Partition {
    fn spaces(&self) -> impl Iterator<Item = (Space, &Tree)> {
        Space::ALL.into_iter().zip(&self.trees)
    }
}

/// All trees, by partition. Most look-ups concern the same partition as the one before, which needs no hash.
#[derive(Debug, Default)]
pub(super) struct Trees {
    partitions: Vec<Partition>,
    /// Their places in the list.
    places: FxHashMap<PartitionId, usize>,
    /// The place of the last look-up.
    last: Cell<usize>,
}

impl Trees {
    fn place(&self, id: PartitionId) -> Option<usize> {
        let last = self.last.get();
        if self.partitions.get(last).is_some_and(|partition| partition.id == id) {
            return Some(last);
        }
        let place = *self.places.get(&id)?;
        self.last.set(place);
        Some(place)
    }

    /// The tree, unless the partition is unknown.
    pub(super) fn get(&self, space: Space, id: PartitionId) -> Option<&Tree> {
        self.partitions.get(self.place(id)?)?.trees.get(space as usize)
    }

    pub(super) fn get_mut(&mut self, space: Space, id: PartitionId) -> Option<&mut Tree> {
        let place = self.place(id)?;
        self.partitions.get_mut(place)?.trees.get_mut(space as usize)
    }

    /// The tree, added if the partition is unknown: there always is one.
    pub(super) fn get_or_add(&mut self, space: Space, id: PartitionId) -> Option<&mut Tree> {
        let place = self.place(id).unwrap_or_else(|| self.add(id));
        self.partitions.get_mut(place)?.trees.get_mut(space as usize)
    }

    #[cold] // rare, and a look-up is shorter without it
    fn add(&mut self, id: PartitionId) -> usize {
        let place = self.partitions.len();
        self.places.insert(id, place);
        self.partitions.push(Partition { id, trees: Default::default() });
        place
    }

    /// Takes out a tree, and forgets the partition if it has no other.
    pub(super) fn take(&mut self, space: Space, id: PartitionId) -> Option<Tree> {
        let place = self.place(id)?;
        let partition = self.partitions.get_mut(place)?;
        let taken = partition.trees.get_mut(space as usize).map(std::mem::take);
        if !partition.trees.iter().any(Tree::is_used) {
            self.partitions.swap_remove(place);
            self.places.remove(&id);
            if let Some(moved) = self.partitions.get(place) {
                self.places.insert(moved.id, place);
            }
        }
        taken
    }

    /// Adds the trees of `other`, which must be of other spaces or partitions.
    pub(super) fn absorb(&mut self, other: Self) {
        for Partition { id, trees } in other.partitions {
            for (space, tree) in Space::ALL.into_iter().zip(trees).filter(|(_, tree)| tree.is_used()) {
                if let Some(place) = self.get_or_add(space, id) {
                    *place = tree;
                }
            }
        }
    }

    /// All trees with live keys.
    pub(super) fn filled(&self) -> impl Iterator<Item = (Space, PartitionId)> + '_ {
        self.partitions.iter().flat_map(|partition| {
            let filled = partition.spaces().filter(|(_, tree)| !tree.chunks.is_empty());
            filled.map(|(space, _)| (space, partition.id))
        })
    }

    /// Number of partitions.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.partitions.len()
    }
}
