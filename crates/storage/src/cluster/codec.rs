//! Encoding of numbers and byte strings in records.

use bytes::Bytes;

use crate::{Key, PartitionId, Space};

/// Longest encoding of a number, in bytes of seven bits each.
const VARINT_BYTES_MAX: u32 = 10;

/// Appends a number in LEB128: seven bits a byte, the lowest first, the top bit set on all but the last.
pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// How many bytes [`put_varint`] appends.
pub(super) const fn varint_len(number: u64) -> usize {
    let bits = 64 - (number | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Appends a partition id and a number in that partition.
pub(super) fn put_place(out: &mut Vec<u8>, partition: PartitionId, number: u64) {
    put_varint(out, partition.0);
    put_varint(out, number);
}

/// Appends a key.
pub(super) fn put_key(out: &mut Vec<u8>, key: Key) {
    out.push(key.space as u8);
    put_place(out, key.partition, key.number);
}

/// Reads from the front. Every method returns `None` if the bytes end early or are invalid.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes not read yet.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    pub(super) fn u32_le(&mut self) -> Option<u32> {
        let (first, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*first))
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for at in 0..VARINT_BYTES_MAX {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            let shifted = bits << (7 * at);
            if shifted >> (7 * at) != bits {
                return None;
            }
            number |= shifted;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Reads a number that must fit into 32 bits.
    pub(super) fn varint32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    /// Reads `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    /// Reads a length and that many bytes, as a slice of `whole`, the buffer that this decoder reads.
    pub(super) fn value(&mut self, whole: &Bytes) -> Option<Bytes> {
        let len = usize::try_from(self.varint()?).ok()?;
        let taken = self.take(len)?;
        Some(whole.slice_ref(taken))
    }

    pub(super) fn space(&mut self) -> Option<Space> {
        space(self.u8()?)
    }

    /// Reads a key without its space, written by [`put_place`].
    pub(super) fn key_in(&mut self, space: Space) -> Option<Key> {
        Some(Key::new(space, PartitionId(self.varint()?), self.varint()?))
    }

    /// Reads a key written by [`put_key`].
    pub(super) fn key(&mut self) -> Option<Key> {
        let space = self.space()?;
        self.key_in(space)
    }
}

/// The space with this number.
pub(super) const fn space(number: u8) -> Option<Space> {
    match number {
        0 => Some(Space::Meta),
        1 => Some(Space::Head),
        2 => Some(Space::Body),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_is_read_as_it_was_written(number: u64, shift in 0..64_u32) {
            let number = number >> shift;
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            prop_assert_eq!(bytes.len(), varint_len(number));
            let mut decoder = Decoder::new(&bytes);
            prop_assert_eq!(decoder.varint(), Some(number));
            prop_assert!(decoder.rest().is_empty());
        }

        #[test]
        fn no_bytes_make_a_decoder_panic(bytes: Vec<u8>) {
            let whole = Bytes::from(bytes);
            let mut decoder = Decoder::new(&whole);
            while decoder.key().is_some() || decoder.value(&whole).is_some() {}
        }
    }

    #[test]
    fn a_number_beyond_64_bits_is_refused() {
        assert_eq!(Decoder::new(&[0xff; 10]).varint(), None);
        let mut most = Vec::new();
        put_varint(&mut most, u64::MAX);
        assert_eq!(Decoder::new(&most).varint(), Some(u64::MAX));
    }
}
