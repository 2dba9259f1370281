//! Every size and alignment, compared with the standard library.

#![allow(clippy::indexing_slicing)] // reason: a failed test may panic

use super::*;

/// Covers every path, with each loop running several times. Miri, which is slow, tries only some sizes.
const SIZES: std::ops::RangeInclusive<usize> = 0..=420;
const STEP: usize = if cfg!(miri) { 19 } else { 1 };
const ALIGNMENTS: std::ops::Range<usize> = 0..16;
/// Bytes around the target that must not change.
const MARGIN: usize = 40;

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| u8::try_from((at * 7 + at / 251) % 256).unwrap()).collect()
}

#[test]
fn places_apart_are_copied_at_every_size_and_alignment() {
    let source = bytes(1_000);
    let large = if cfg!(miri) { vec![4_095] } else { vec![4_095, 4_096, 65_537, 1_000_003] };
    for size in SIZES.step_by(STEP).chain(large) {
        let source = if size > source.len() - 16 { &bytes(size + 16) } else { &source };
        for from in ALIGNMENTS.step_by(if size > 420 { 5 } else { 1 }) {
            for to in ALIGNMENTS {
                let mut target = vec![0xEE; MARGIN + 16 + size + MARGIN];
                // SAFETY: both have room for `size` bytes from there on, and are separate allocations.
                unsafe { copy_apart(target.as_mut_ptr().add(MARGIN + to), source.as_ptr().add(from), size) };
                let (before, rest) = target.split_at(MARGIN + to);
                let (copied, after) = rest.split_at(size);
                assert!(copied == &source[from..from + size], "{size} bytes from {from} to {to}");
                assert!(
                    before.iter().chain(after).all(|byte| *byte == 0xEE),
                    "{size} bytes from {from} to {to}"
                );
            }
        }
    }
}

#[test]
fn places_that_overlap_are_copied_at_every_size_and_distance() {
    let distances = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 129, 200, 300, 419];
    let distances = distances.into_iter().step_by(if cfg!(miri) { 6 } else { 1 });
    for size in SIZES.step_by(STEP).chain([1_000, 4_099]) {
        for distance in distances.clone() {
            for offset in ALIGNMENTS.step_by(3) {
                for (from, to) in [(offset, offset + distance), (offset + distance, offset)] {
                    let mut expected = bytes(size + 500);
                    let mut moved = expected.clone();
                    expected.copy_within(from..from + size, to);
                    let start = moved.as_mut_ptr();
                    // SAFETY: the allocation has room for both areas.
                    unsafe { copy(start.add(to), start.add(from), size) };
                    assert!(moved == expected, "{size} bytes from {from} to {to}");
                }
            }
        }
    }
}
