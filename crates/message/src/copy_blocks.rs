//! Memory for copies of messages that arrive together: one block for many of them, instead of one for each.

use bytes::{Bytes, BytesMut};

/// Largest block in bytes, unless a message is larger: a block is kept as long as one of its messages.
const BLOCK_BYTES_MAX: usize = 64 * 1024;

/// The allocator; see the module. Empty, it uses no memory; each block is twice as large as the previous one, so that
/// few messages use little.
#[derive(Debug, Default)]
pub struct CopyBlocks {
    block: BytesMut,
    /// Size of the last block.
    block_bytes: usize,
}

impl CopyBlocks {
    /// Returns the bytes that `write` appends, which should be at most `bytes`.
    pub fn write(&mut self, bytes: usize, write: impl FnOnce(&mut BytesMut)) -> Bytes {
        if self.block.capacity() < bytes {
            self.block_bytes = (2 * self.block_bytes).min(BLOCK_BYTES_MAX).max(bytes);
            self.block = BytesMut::with_capacity(self.block_bytes);
        }
        write(&mut self.block);
        self.block.split().freeze()
    }

    /// Releases the rest of the block.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(blocks: &mut CopyBlocks, bytes: usize, octet: u8) -> Bytes {
        blocks.write(bytes, |block| block.resize(bytes, octet))
    }

    #[test]
    fn many_copies_share_a_block_and_one_takes_no_more_than_it_needs() {
        let mut blocks = CopyBlocks::default();
        let first = fill(&mut blocks, 1000, 0);
        assert_eq!(blocks.block.capacity(), 0);
        let copies: Vec<Bytes> = (1..200_u8).map(|octet| fill(&mut blocks, 1000, octet)).collect();
        let follows = |pair: &&[Bytes]| pair[0].as_ptr_range().end == pair[1].as_ptr();
        assert!(copies.windows(2).filter(follows).count() > 180);
        assert!(copies.iter().zip(1..).all(|(copy, octet)| copy[..] == [octet; 1000]));
        assert_eq!(first[..], [0; 1000]);
        blocks.clear();
        assert_eq!(blocks.block.capacity(), 0);
    }

    #[test]
    fn a_large_message_and_one_that_takes_more_than_was_said_have_room() {
        let mut blocks = CopyBlocks::default();
        let large = fill(&mut blocks, 3 * BLOCK_BYTES_MAX, 7);
        let longer = blocks.write(10, |block| block.resize(5_000, 8));
        assert_eq!(large.len(), 3 * BLOCK_BYTES_MAX);
        assert_eq!(longer[..], [8; 5_000]);
    }
}
