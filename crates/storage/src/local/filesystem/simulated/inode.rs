//! A file's bytes: the visible ones, the synced ones, and the changes in between.

/// The unit that a disk writes atomically.
const SECTOR_BYTES: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Inode {
    pub(super) bytes: Vec<u8>,
    pub(super) synced: Vec<u8>,
    pub(super) unsynced: Vec<Change>,
}

#[derive(Debug)]
pub(super) enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(offset, written) => {
                let start = usize::try_from(*offset).unwrap_or(usize::MAX);
                let end = start + written.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                if let Some(place) = bytes.get_mut(start..end) {
                    place.copy_from_slice(written);
                }
            }
            Self::SetLen(len) => bytes.resize(usize::try_from(*len).unwrap_or(usize::MAX), 0),
        }
    }

    /// The part that reaches the disk in a power cut: all, nothing, a part down to single bytes, or any subset of its
    /// sectors.
    fn torn(self, dice: &mut SeededRandom) -> Vec<Self> {
        match (dice.below(5), self) {
            (0, _) => Vec::new(),
            (1, change) => vec![change],
            (_, Self::SetLen(len)) => vec![Self::SetLen(len)],
            (2, Self::Write(offset, bytes)) => {
                let sectors = sectors(offset, &bytes).into_iter();
                sectors.filter(|_| dice.below(2) == 0).collect()
            }
            (_, Self::Write(offset, bytes)) => {
                let len = bytes.len() as u64;
                let start = if dice.below(2) == 0 { 0 } else { dice.below(len + 1) };
                let end = start + dice.below(len - start + 1);
                let range = usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
                vec![Self::Write(offset + start, bytes.get(range).unwrap_or_default().to_vec())]
            }
        }
    }
}

/// Splits a write into writes to one sector each.
fn sectors(offset: u64, bytes: &[u8]) -> Vec<Change> {
    let mut pieces = Vec::new();
    let mut offset = offset;
    let mut rest = bytes;
    while !rest.is_empty() {
        let left = SECTOR_BYTES - usize::try_from(offset % SECTOR_BYTES as u64).unwrap_or(0);
        let (piece, after) = rest.split_at(left.min(rest.len()));
        pieces.push(Change::Write(offset, piece.to_vec()));
        offset += piece.len() as u64;
        rest = after;
    }
    pieces
}

impl Inode {
    pub(super) fn change(&mut self, change: Change) {
        change.apply(&mut self.bytes);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.synced);
        }
    }

    /// A failed sync as in ext4 and XFS: the pages count as clean, later syncs don't write them again, and they can be
    /// read until the next power cut.
    pub(super) fn lose(&mut self, dice: Option<&mut SeededRandom>) {
        let changes = std::mem::take(&mut self.unsynced);
        if let Some(dice) = dice {
            for change in changes.into_iter().flat_map(|change| change.torn(dice)) {
                change.apply(&mut self.synced);
            }
        }
    }

    /// Drops clean pages from the cache, so that they are read from the disk again.
    pub(super) fn evict(&mut self) {
        self.bytes = self.synced.clone();
        for change in &self.unsynced {
            change.apply(&mut self.bytes);
        }
    }

    /// Keeps a part of each unsynced change, as determined by [`Change::torn`].
    pub(super) fn crash(&mut self, dice: &mut SeededRandom) {
        self.lose(Some(dice));
        self.bytes = self.synced.clone();
    }
}

/// SplitMix64 generator: its seed determines all losses of a crash.
pub(super) struct SeededRandom(pub(super) u64);

impl SeededRandom {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }
}
