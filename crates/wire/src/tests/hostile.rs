//! Hostile input: an error, in bounded time, memory and stack.

use bytes::{Bytes, BytesMut};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::golden;
use crate::frame::decode_body;
use crate::message::Sections;
use crate::{Value, exercise};

/// Runs `test` on a stack that unbounded recursion would overflow.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(256 * 1024).spawn(test).unwrap().join().unwrap();
}

/// `depth` compounds around a null: constructor and 32-bit head each, or constructor and descriptor.
fn nested(kind: Nested, depth: usize) -> Vec<u8> {
    let mut bytes = vec![0x40];
    for _ in 0..depth {
        let length = u32::try_from(bytes.len()).unwrap();
        let mut outer = match kind {
            Nested::List => [&[0xd0][..], &(length + 4).to_be_bytes(), &1_u32.to_be_bytes()].concat(),
            Nested::Map => [&[0xd1][..], &(length + 5).to_be_bytes(), &2_u32.to_be_bytes(), &[0x43]].concat(),
            Nested::Described => vec![0x00, 0x53, 0x01],
        };
        outer.append(&mut bytes);
        bytes = outer;
    }
    bytes
}

/// Array in array: the constructor byte is in the outer array's head.
fn nested_arrays(depth: usize) -> Vec<u8> {
    let mut contents = vec![0x40];
    let mut count = 1_u32;
    for _ in 1..depth {
        let size = u32::try_from(contents.len() + 4).unwrap();
        contents = [&[0xf0][..], &size.to_be_bytes(), &count.to_be_bytes(), &contents].concat();
        count = 1;
    }
    let size = u32::try_from(contents.len() + 4).unwrap();
    [&[0xf0][..], &size.to_be_bytes(), &count.to_be_bytes(), &contents].concat()
}

#[derive(Clone, Copy, Debug)]
enum Nested {
    List,
    Map,
    Described,
}

fn decode(bytes: Vec<u8>) -> Result<Value, crate::DecodeError> {
    Value::decode(&mut Bytes::from(bytes))
}

fn section(code: u8, value: &[u8]) -> Bytes {
    [&[0x00, 0x53, code][..], value].concat().into()
}

#[test]
fn nesting_up_to_32_is_read_and_deeper_is_refused() {
    for kind in [Nested::List, Nested::Map, Nested::Described] {
        decode(nested(kind, 32)).unwrap();
        Sections::split(&section(0x77, &nested(kind, 32))).unwrap();
        for depth in [33, 2_500] {
            let error = decode(nested(kind, depth)).unwrap_err();
            assert!(error.reason().contains("deeper"), "{kind:?}: {error}");
            Sections::split(&section(0x77, &nested(kind, depth))).unwrap_err();
        }
    }
    decode(nested_arrays(32)).unwrap();
    decode(nested_arrays(33)).unwrap_err();
    Sections::split(&section(0x77, &nested_arrays(33))).unwrap_err();
}

/// A map 2 500 deep in 7.5 KB: list8/map8 cannot nest so deep, described values can, with three bytes per level.
#[test]
fn nesting_2500_and_100_000_deep_costs_no_stack() {
    on_a_small_stack(|| {
        for depth in [2_500, 100_000] {
            for bytes in [nested(Nested::Described, depth), vec![0x00; depth], [0xf0, 0, 0, 0].repeat(depth)]
            {
                decode(bytes.clone()).unwrap_err();
                let body = section(0x77, &bytes);
                Sections::split(&body).unwrap_err();
                // Trusted splitting skips without recursion, and returns sections or an error.
                let _ = Sections::split_trusted(&body);
                let _ = decode_body(bytes.into());
            }
        }
        for bytes in [nested(Nested::List, 2_500), nested(Nested::Map, 2_500), nested_arrays(2_500)] {
            decode(bytes.clone()).unwrap_err();
            Sections::split(&section(0x77, &bytes)).unwrap_err();
            Sections::split(&section(0x72, &bytes)).unwrap_err();
        }
    });
}

/// This is decoded before any authentication: the properties of an open.
#[test]
fn nesting_inside_a_performative_is_refused() {
    on_a_small_stack(|| {
        let properties = nested(Nested::Map, 2_500);
        let size = u32::try_from(4 + 3 + 8 + properties.len()).unwrap();
        let fields = [&[0xa1, 1, b'c'][..], &[0x40; 8], &properties].concat();
        let open =
            [&[0x00, 0x53, 0x10, 0xd0][..], &size.to_be_bytes(), &10_u32.to_be_bytes(), &fields].concat();
        decode_body(open.into()).unwrap_err();
        for state in [0x34_u8, 0x25] {
            // A disposition whose state is described by described by described …
            let state = [&[0x00, 0x53, state, 0x00][..], &[0x53, 0x34, 0x00].repeat(60)].concat();
            let list =
                [&[0xc0, u8::try_from(state.len() + 5).unwrap(), 5, 0x41, 0x43, 0x40, 0x42][..], &state]
                    .concat();
            decode_body([&[0x00, 0x53, 0x15][..], &list].concat().into()).unwrap_err();
        }
    });
}

#[test]
fn counts_and_sizes_beyond_the_input_are_refused() {
    for code in [0xd0_u8, 0xd1, 0xf0] {
        for count in [u32::MAX, u32::MAX - 1, 1 << 31, 6] {
            let bytes = [&[code, 0, 0, 0, 5][..], &count.to_be_bytes(), &[0x50]].concat();
            decode(bytes.clone()).unwrap_err();
            Sections::split(&section(0x77, &bytes)).unwrap_err();
        }
    }
    for code in [0xb0_u8, 0xb1, 0xb3, 0xd0, 0xd1, 0xf0] {
        let bytes = vec![code, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        decode(bytes.clone()).unwrap_err();
        Sections::split_trusted(&section(0x77, &bytes)).unwrap_err();
    }
}

/// The count is the only limit: 2^32 nulls in ten bytes.
#[test]
fn arrays_of_elements_without_bytes_are_bounded() {
    let array = |count: u32, code: u8| [&[0xf0, 0, 0, 0, 5][..], &count.to_be_bytes(), &[code]].concat();
    for code in 0x40..=0x45 {
        decode(array(Value::ZERO_WIDTH_ELEMENTS_MAX, code)).unwrap();
        for count in [Value::ZERO_WIDTH_ELEMENTS_MAX + 1, 1 << 24, u32::MAX] {
            decode(array(count, code)).unwrap_err();
            Sections::split(&section(0x77, &array(count, code))).unwrap_err();
        }
    }
    // Many small ones count together: five arrays of 255 nulls.
    let arrays =
        |count: u8| [&[0xc0, count * 4 + 1, count][..], &[0xe0, 2, 255, 0x40].repeat(count.into())].concat();
    decode(arrays(4)).unwrap();
    decode(arrays(5)).unwrap_err();
}

#[test]
fn elements_that_would_be_decoded_are_bounded_but_bodies_are_not() {
    let elements = Value::ELEMENTS_MAX + 2;
    let contents = vec![0x40; elements as usize];
    let compound =
        |code: u8| [&[code][..], &(elements + 4).to_be_bytes(), &elements.to_be_bytes(), &contents].concat();
    decode(compound(0xd0)).unwrap_err();
    Sections::split(&section(0x74, &compound(0xd1))).unwrap_err();
    Sections::split(&section(0x76, &compound(0xd0))).unwrap();
}

/// Every element of an array of described values gets its own copy of the descriptor, so its length counts.
#[test]
fn descriptors_in_arrays_weigh_by_their_length() {
    let name = [b'd'; 200];
    let head = [&[0x00, 0xa3, 200][..], &name, &[0x50]].concat();
    let array = |count: usize| {
        let size = u32::try_from(4 + head.len() + count).unwrap();
        let count_bytes = u32::try_from(count).unwrap().to_be_bytes();
        [&[0xf0][..], &size.to_be_bytes(), &count_bytes, &head, &vec![7; count]].concat()
    };
    assert_eq!(decode(array(1_000)).unwrap().as_elements().unwrap().len(), 1_000);
    decode(array(60_000)).unwrap_err();
}

#[test]
fn every_prefix_of_real_frames_is_survived() {
    for (_, frame) in golden::all() {
        for end in 0..frame.len() {
            exercise::frame(&frame[..end]);
            exercise::performative(&frame[8.min(end)..end]);
            exercise::message_sections(&frame[..end]);
        }
    }
}

/// Fixed, so that CI tests the same inputs each time; fuzzing (see `fuzz/`) searches further.
const SEED: u64 = 0x0005_eed0_fa3c_9d17;
const MUTATIONS: u32 = 60_000;

#[test]
fn mutated_frames_and_messages_are_survived() {
    println!("seed {SEED:#x}");
    let mut random = StdRng::seed_from_u64(SEED);
    let seeds: Vec<Bytes> = golden::all().map(|(_, bytes)| bytes).collect();
    for _ in 0..MUTATIONS {
        let mut input = BytesMut::from(&seeds[random.random_range(0..seeds.len())][..]);
        for _ in 0..random.random_range(1..=4) {
            mutate(&mut input, &mut random);
        }
        exercise::frame(&input);
        exercise::performative(input.get(8..).unwrap_or_default());
        exercise::message_sections(&input);
        exercise::value(input.get(random.random_range(0..20)..).unwrap_or_default());
    }
}

/// Flips, truncates or inserts bytes, or writes an extreme size.
fn mutate(input: &mut BytesMut, random: &mut StdRng) {
    let at = random.random_range(0..=input.len());
    match random.random_range(0..6) {
        0 => input.truncate(at),
        1 => {
            let tail = input.split_off(at);
            input.extend((0..random.random_range(1..9)).map(|_| random.random::<u8>()));
            input.unsplit(tail);
        }
        2 => {
            let extremes = [[0xff; 4], [0, 0, 0, 0], [0x7f, 0xff, 0xff, 0xff], [0, 0, 1, 0]];
            let extreme = extremes[random.random_range(0..extremes.len())];
            input.iter_mut().skip(at).zip(extreme).for_each(|(octet, planted)| *octet = planted);
        }
        3 => {
            let constructors = [0x00, 0x40, 0x45, 0x53, 0x80, 0xa1, 0xb0, 0xc0, 0xc1, 0xd0, 0xd1, 0xe0, 0xf0];
            let planted = constructors[random.random_range(0..constructors.len())];
            input.iter_mut().skip(at).take(1).for_each(|octet| *octet = planted);
        }
        _ => input.iter_mut().skip(at).take(1).for_each(|octet| *octet ^= 1 << random.random_range(0..8)),
    }
}
