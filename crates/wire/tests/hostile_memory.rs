//! Decoding hostile input allocates in proportion to the input, measured by a counting allocator.

#![allow(unsafe_code, clippy::unwrap_used)] // an allocator is unsafe by nature; helpers of a test may unwrap

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use peeklock_wire::Value;
use peeklock_wire::frame::decode_body;
use peeklock_wire::message::Sections;

struct Counting;

thread_local! {
    static LIVE_BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // Ending threads may free memory after their thread-locals are dropped.
    let _ = LIVE_BYTES.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK_BYTES.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: forwards to the system allocator; counting touches thread-local cells only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The maximum number of bytes allocated at any time during `run`.
fn peak_bytes(run: impl FnOnce()) -> isize {
    let before = LIVE_BYTES.get();
    PEAK_BYTES.set(before);
    run();
    PEAK_BYTES.get() - before
}

fn decode_everything(input: &Bytes) {
    let _ = Value::decode(&mut input.clone());
    let _ = decode_body(input.clone());
    if let Ok(sections) = Sections::split(input) {
        let _ = sections.body_value();
        let _ = Sections::decode_map(&sections.message_annotations);
    }
}

/// The largest value of one element type that the decoder accepts: `code`, 32-bit size and count, contents.
fn compound(code: u8, count: u32, contents: &[u8]) -> Bytes {
    let size = u32::try_from(contents.len() + 4).unwrap();
    [&[code][..], &size.to_be_bytes(), &count.to_be_bytes(), contents].concat().into()
}

/// A small input may announce any size; almost nothing is allocated for it.
#[test]
fn promises_of_small_inputs_cost_little() {
    let array_of_nulls = compound(0xf0, 1_024, &[0x40]);
    let sections = |body: &Bytes| Bytes::from([&[0x00, 0x53, 0x77][..], body].concat());
    for promise in [
        compound(0xd0, u32::MAX, &[0x40; 5]),
        compound(0xd1, u32::MAX - 1, &[0x40; 5]),
        compound(0xf0, u32::MAX, &[0x40]),
        compound(0xf0, u32::MAX, &[0x81, 0, 0, 0, 0, 0, 0, 0, 0]),
        Bytes::from_static(&[0xb0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3]),
        Bytes::from_static(&[0x00, 0x53, 0x10, 0xd0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff]),
        array_of_nulls,
    ] {
        for input in [sections(&promise), promise] {
            let peak = peak_bytes(|| decode_everything(&input));
            assert!(peak < 64 * 1024, "{peak} bytes for {input:02x?}");
        }
    }
}

/// The worst ratio: elements of one byte that become values of 40 bytes, or of 120 with a descriptor each.
#[test]
fn the_largest_decodable_values_are_bounded() {
    const MIB: isize = 1024 * 1024;
    let elements = Value::ELEMENTS_MAX;
    let one_byte_each = vec![0x45; elements as usize];
    let mut described = vec![0x00, 0x53, 0x07, 0x50];
    described.resize(4 + elements as usize / 2, 0);
    for (input, is_read) in [
        (compound(0xd0, elements, &one_byte_each), true),
        (compound(0xd1, elements, &one_byte_each), true),
        (compound(0xf0, elements / 2, &described), true),
        (compound(0xd0, elements + 1, &[&one_byte_each[..], &[0x40]].concat()), false),
        (compound(0xf0, elements - 1, &[&[0x00, 0x53, 0x07, 0x50][..], &one_byte_each].concat()), false),
    ] {
        assert_eq!(Value::decode(&mut input.clone()).is_ok(), is_read);
        let peak = peak_bytes(|| decode_everything(&input));
        assert!(peak < 8 * MIB, "{peak} bytes for {} bytes of input", input.len());
    }
}

/// Checking and splitting a message allocates nothing at all, however large and nested it is.
#[test]
fn splitting_a_message_allocates_nothing() {
    let list = compound(0xd0, 100_000, &[0x40; 100_000]);
    let message = Bytes::from([&[0x00, 0x53, 0x70, 0x45, 0x00, 0x53, 0x77][..], &list].concat());
    let slice = message.slice(..); // promotes the buffer to a shared one, once
    assert_eq!(peak_bytes(|| drop(Sections::split(&message).unwrap())), 0);
    assert_eq!(peak_bytes(|| drop(Sections::split_trusted(&message).unwrap())), 0);
    drop(slice);
}
