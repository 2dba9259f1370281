//! A file's bytes: those that count, those that were synced, and the way between.

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

    /// Keeps of each unsynced change all, nothing, or some part, down to single bytes.
    pub(super) fn crash(&mut self, dice: &mut Dice) {
        for change in std::mem::take(&mut self.unsynced) {
            let kept = match (dice.below(4), change) {
                (0, _) => continue,
                (1, change) => change,
                (_, Change::SetLen(len)) => Change::SetLen(len),
                (_, Change::Write(offset, bytes)) => {
                    let len = bytes.len() as u64;
                    let start = if dice.below(2) == 0 { 0 } else { dice.below(len + 1) };
                    let end = start + dice.below(len - start + 1);
                    let range = usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
                    Change::Write(offset + start, bytes.get(range).unwrap_or_default().to_vec())
                }
            };
            kept.apply(&mut self.synced);
        }
        self.bytes = self.synced.clone();
    }
}

/// SplitMix64: a seed picks every loss of a crash.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }
}
