//! Buffers of the readers, reused once no value in them is referenced: new memory costs a process more than reading
//! into it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};

/// Block sizes are multiples of this, which makes reuse more likely. A smaller read gets memory of its own, because its
/// values would keep a whole block alive.
const BLOCK_STEP_BYTES: usize = 64 << 10;
/// Most bytes of blocks kept for reuse.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// A block is not used for a read of less than one part in this many of it.
const SPARSE_RATIO: usize = 4;

/// The pool of blocks; see the module.
#[derive(Debug, Default)]
pub(super) struct ReadBuffers {
    /// All blocks, those filled first at the front. Values are slices of them.
    lent: Mutex<VecDeque<Bytes>>,
}

impl ReadBuffers {
    /// Returns `len` bytes written by `fill`. It must overwrite all bytes, since the buffer may contain other values.
    ///
    /// # Errors
    /// Those of `fill`.
    pub(super) fn filled<E>(
        &self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Bytes, E> {
        if len < BLOCK_STEP_BYTES {
            let mut bytes = vec![0; len];
            fill(&mut bytes)?;
            return Ok(Bytes::from(bytes));
        }
        let mut block =
            self.take(len).unwrap_or_else(|| BytesMut::zeroed(len.next_multiple_of(BLOCK_STEP_BYTES)));
        let result = block.get_mut(..len).map_or(Ok(()), fill);
        let block = self.lend(block.freeze());
        result.map(|()| block.slice(..len))
    }

    /// Releases the memory as soon as no value in it is referenced.
    pub(super) fn clear(&self) {
        *self.lock() = VecDeque::new();
    }

    /// An unreferenced block that is suitable for a read of `len` bytes.
    fn take(&self, len: usize) -> Option<BytesMut> {
        let mut lent = self.lock();
        let suits = |block: &Bytes| (len..=len.saturating_mul(SPARSE_RATIO)).contains(&block.len());
        let place = lent.iter().position(|block| suits(block) && block.is_unique())?;
        lent.remove(place)?.try_into_mut().ok()
    }

    /// Adds a block to the pool, and drops the oldest ones beyond the limit.
    fn lend(&self, block: Bytes) -> Bytes {
        let mut lent = self.lock();
        lent.push_back(block.clone());
        let mut bytes: usize = lent.iter().map(Bytes::len).sum();
        while bytes > KEPT_BYTES_MAX
            && let Some(oldest) = lent.pop_front()
        {
            bytes -= oldest.len();
        }
        block
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Bytes>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn read(buffers: &ReadBuffers, len: usize, octet: u8) -> Bytes {
        let filled = buffers.filled(len, |bytes| {
            bytes.fill(octet);
            Ok::<(), Infallible>(())
        });
        filled.unwrap()
    }

    #[test]
    fn a_block_is_reused_only_when_no_value_of_it_is_referenced() {
        let buffers = ReadBuffers::default();
        let first = read(&buffers, 100_000, 1);
        let (place, value) = (first.as_ptr(), first.slice(99_000..));
        drop(first);
        let second = read(&buffers, 110_000, 2);
        assert_ne!(second.as_ptr(), place);
        assert_eq!(value[..], [1; 1000]);
        drop(value);
        let third = read(&buffers, 120_000, 3);
        assert_eq!(third.as_ptr(), place);
        assert_eq!((third.len(), second.len()), (120_000, 110_000));
        assert!(third.iter().all(|octet| *octet == 3) && second.iter().all(|octet| *octet == 2));
    }

    #[test]
    fn a_short_read_keeps_no_block_and_takes_no_large_one() {
        let buffers = ReadBuffers::default();
        assert_eq!(read(&buffers, 1000, 1)[..], [1; 1000]);
        assert!(buffers.lock().is_empty());
        let large = read(&buffers, 1 << 20, 2).as_ptr();
        assert_ne!(read(&buffers, 70_000, 3).as_ptr(), large);
        assert_eq!(read(&buffers, 900_000, 4).as_ptr(), large);
    }

    #[test]
    fn kept_buffers_are_bounded_and_can_be_released() {
        let buffers = ReadBuffers::default();
        let held: Vec<Bytes> = (0..40).map(|octet| read(&buffers, 1 << 20, octet)).collect();
        let remembered: usize = buffers.lock().iter().map(Bytes::len).sum();
        assert_eq!(remembered, KEPT_BYTES_MAX);
        assert!(held.iter().zip(0..).all(|(block, octet)| block.iter().all(|found| *found == octet)));
        buffers.clear();
        assert!(buffers.lock().is_empty() && held.iter().all(Bytes::is_unique));
    }

    #[test]
    fn a_failed_read_hands_out_nothing_and_loses_no_block() {
        let buffers = ReadBuffers::default();
        assert_eq!(buffers.filled(100_000, |_| Err("broken")), Err("broken"));
        let place = buffers.lock().front().map(|block| block.as_ptr());
        assert_eq!(Some(read(&buffers, 100_000, 7).as_ptr()), place);
    }
}
