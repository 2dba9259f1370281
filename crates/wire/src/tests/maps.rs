//! Maps in messages: valid and invalid keys and values.

use bytes::{Bytes, BytesMut};

use crate::Value;
use crate::message::{Sections, encode_body_value};

const DELIVERY_ANNOTATIONS: u8 = 0x71;
const MESSAGE_ANNOTATIONS: u8 = 0x72;
const APPLICATION_PROPERTIES: u8 = 0x74;
const FOOTER: u8 = 0x78;
const ANNOTATIONS: [u8; 3] = [DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, FOOTER];
const MAPS: [u8; 4] = [DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, APPLICATION_PROPERTIES, FOOTER];

/// The entries with valid keys: no nulls, no duplicates.
pub(super) fn distinct(mut entries: Vec<(Value, Value)>) -> Vec<(Value, Value)> {
    let mut seen = std::collections::BTreeSet::new();
    entries.retain(|(key, _)| *key != Value::Null && seen.insert(key.to_bytes()));
    entries
}

const BODY: &[u8] = b"\x00\x53\x77\x40";

/// A section of encoded keys and values.
fn section(code: u8, entries: &[&[u8]]) -> Vec<u8> {
    let contents = entries.concat();
    let count = u8::try_from(entries.len()).unwrap();
    let size = u8::try_from(contents.len() + 1).unwrap();
    [&[0x00, 0x53, code, 0xc1, size, count][..], &contents].concat()
}

fn split(code: u8, entries: &[&[u8]]) -> Result<Sections, crate::DecodeError> {
    Sections::split(&section(code, entries).into())
}

fn body(map: Vec<(Value, Value)>) -> Result<Sections, crate::DecodeError> {
    let mut output = BytesMut::new();
    encode_body_value(&Value::List(vec![Value::Map(map)]), &mut output);
    Sections::split(&output.freeze())
}

/// Java (7.17.20) writes the keys of footers as strings, and expects symbols when it reads them.
#[test]
fn keys_that_are_the_other_kind_of_text_are_kept_as_the_right_one() {
    let (string, symbol, one) = (&b"\xa1\x01k"[..], &b"\xa3\x01k"[..], &b"\x54\x01"[..]);
    for (codes, wrong, right) in
        [(&ANNOTATIONS[..], string, symbol), (&[APPLICATION_PROPERTIES], symbol, string)]
    {
        for code in codes {
            let message = |key| match *code {
                FOOTER => Bytes::from([BODY, &section(FOOTER, &[key, one])].concat()),
                code => Bytes::from([&section(code, &[key, one]), BODY].concat()),
            };
            let (kept, _) = Sections::split_canonical(&message(wrong)).unwrap();
            assert_eq!(kept, message(right), "{code:#x}");
            let (again, _) = Sections::split_canonical(&kept).unwrap();
            assert_eq!(again.as_ptr(), kept.as_ptr(), "not copied");
        }
    }
}

#[test]
fn a_section_is_copied_with_other_values() {
    let sent = Bytes::from(section(FOOTER, &[b"\xa1\x01a", b"\x54\x01", b"\xa3\x01b", b"\x54\x02"]));
    let replace = |encoded: &[u8]| (encoded == b"\x54\x02").then_some(Value::Bool(true));
    let copy = Sections::copy_map(&sent, replace).unwrap();
    assert_eq!(copy, section(FOOTER, &[b"\xa3\x01a", b"\x54\x01", b"\xa3\x01b", b"\x41"]));
}

#[test]
fn keys_of_annotations_are_symbols_or_reserved_numbers_and_those_of_properties_texts() {
    let null = &b"\x40"[..];
    for number in [&b"\x44"[..], b"\x53\x07", b"\x80\x00\x00\x00\x00\x00\x00\x00\x07"] {
        for code in ANNOTATIONS {
            split(code, &[number, null]).unwrap();
        }
        split(APPLICATION_PROPERTIES, &[number, null]).unwrap_err();
    }
    for other in [&b"\x40"[..], b"\x41", b"\x54\x01", b"\xa0\x01k", b"\x45", b"\x00\x53\x01\xa1\x01k"] {
        for code in MAPS {
            split(code, &[other, null]).unwrap_err();
        }
    }
}

#[test]
fn values_of_application_properties_are_simple() {
    let key = &b"\xa1\x01k"[..];
    for compound in [
        &b"\x45"[..],
        b"\xc0\x01\x00",
        b"\xd0\x00\x00\x00\x04\x00\x00\x00\x00",
        b"\xc1\x01\x00",
        b"\xd1\x00\x00\x00\x04\x00\x00\x00\x00",
        b"\xe0\x02\x00\x40",
        b"\x00\x53\x01\x45",
        b"\x00\xa3\x01d\x00\x53\x01\xc1\x01\x00",
    ] {
        split(APPLICATION_PROPERTIES, &[key, compound]).unwrap_err();
        split(MESSAGE_ANNOTATIONS, &[key, compound]).unwrap();
    }
    for simple in [&b"\x40"[..], b"\xa0\x01x", b"\x00\xa3\x16com.microsoft:timespan\x55\x05"] {
        split(APPLICATION_PROPERTIES, &[key, simple]).unwrap();
    }
}

#[test]
fn a_key_that_is_there_twice_is_refused_in_whatever_encoding() {
    let null = &b"\x40"[..];
    for code in MAPS {
        split(code, &[b"\xa1\x01k", null, b"\xa1\x01K", null]).unwrap();
        for again in [&b"\xa1\x01k"[..], b"\xb1\x00\x00\x00\x01k", b"\xa3\x01k", b"\xb3\x00\x00\x00\x01k"] {
            split(code, &[b"\xa1\x01k", null, b"\xa1\x01l", null, again, null]).unwrap_err();
        }
    }
    let twins: [(&[u8], &[u8]); 9] = [
        (b"\x41", b"\x56\x01"),
        (b"\x42", b"\x56\x00"),
        (b"\x43", b"\x52\x00"),
        (b"\x52\x07", b"\x70\x00\x00\x00\x07"),
        (b"\x53\x07", b"\x80\x00\x00\x00\x00\x00\x00\x00\x07"),
        (b"\x54\xff", b"\x71\xff\xff\xff\xff"),
        (b"\x55\x80", b"\x81\xff\xff\xff\xff\xff\xff\xff\x80"),
        (b"\xa0\x01k", b"\xb0\x00\x00\x00\x01k"),
        (b"\x83\x00\x00\x00\x00\x00\x00\x00\x01", b"\x83\x00\x00\x00\x00\x00\x00\x00\x01"),
    ];
    let map = |keys: [&[u8]; 2]| {
        let mut value = section(0x77, &[keys[0], null, keys[1], null]);
        Sections::split(&Bytes::from(std::mem::take(&mut value)))
    };
    for (one, other) in twins {
        map([one, other]).unwrap_err();
    }
    let different: [(&[u8], &[u8]); 5] = [
        (b"\xa1\x01k", b"\xa3\x01k"),
        (b"\x52\x07", b"\x53\x07"),
        (b"\x54\x07", b"\x55\x07"),
        (b"\x54\x80", b"\x71\x00\x00\x00\x80"),
        (b"\xa1\x02T\x01", b"\x54\x01"),
    ];
    for (one, other) in different {
        map([one, other]).unwrap();
    }
}

#[test]
fn keys_are_compared_in_large_maps_and_deep_in_bodies() {
    let entries = |count: i32| (0..count).map(|n| (Value::Int(n), Value::Null)).collect::<Vec<_>>();
    for count in [1, 15, 16, 17, 1000] {
        body(entries(count)).unwrap();
        for repeated in [0, count / 2, count - 1] {
            let mut twice = entries(count);
            twice.push((Value::Int(repeated), Value::Bool(true)));
            body(twice).unwrap_err();
        }
    }
    body(vec![(Value::Null, Value::Bool(true))]).unwrap_err();
}

/// Beyond a limit the keys of a message are not compared: their list would be larger than the message.
#[test]
fn a_map_of_very_many_keys_is_taken_as_it_is() {
    let many = i32::try_from(Value::ELEMENTS_MAX).unwrap();
    body((0..=many).map(|n| (Value::Int(n % 7), Value::Null)).collect()).unwrap();
}
