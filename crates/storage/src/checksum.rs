//! CRC-32C (Castagnoli), the checksum of everything in a log.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of `bytes`.
pub(crate) fn of(bytes: &[u8]) -> u32 {
    low(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes))
}

/// The checksum of a concatenation: `before` is the checksum of the first part, `bytes` is the second part.
pub(crate) fn append(before: u32, bytes: &[u8]) -> u32 {
    // The library returns the inverted register.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!before));
    digest.update(bytes);
    low(digest.finalize())
}

/// The lower half, which holds the whole 32-bit checksum.
#[expect(clippy::cast_possible_truncation, reason = "the upper half is 0")]
const fn low(checksum: u64) -> u32 {
    checksum as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bit by bit, by the polynomial of RFC 3720, section 12.1.
    fn by_definition(bytes: &[u8]) -> u32 {
        let step = |crc: u32| (crc >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(crc & 1));
        !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
    }

    #[test]
    fn the_examples_of_rfc_3720_come_out() {
        // Test vectors of section B.4, whose bytes are in wire order.
        assert_eq!(of(&[0; 32]), 0x8a91_36aa);
        assert_eq!(of(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(of(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
        assert_eq!(of(b"123456789"), 0xe306_9283);
        assert_eq!(of(b""), 0);
    }

    proptest! {
        /// The library uses different code for different lengths and alignments.
        #[test]
        fn every_length_agrees_with_the_definition(
            bytes in prop::collection::vec(any::<u8>(), 0..3000),
            skipped in 0_usize..64,
            cut in any::<prop::sample::Index>(),
        ) {
            let bytes = bytes.get(skipped..).unwrap_or_default();
            let expected = by_definition(bytes);
            prop_assert_eq!(of(bytes), expected);
            let (front, back) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(append(of(front), back), expected);
            prop_assert_eq!(append(0, bytes), expected);
        }
    }
}
