//! Values: every format code, round trips, leniency.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::arbitrary;
use crate::{DecodeError, Value};

pub(super) fn decode(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut input = Bytes::copy_from_slice(bytes);
    let value = Value::decode(&mut input)?;
    assert!(input.is_empty(), "{} bytes left", input.len());
    Ok(value)
}

fn encoded(value: &Value) -> Vec<u8> {
    value.to_bytes().to_vec()
}

/// Checks that `bytes` decode to `value`, and that `value` encodes to `bytes`.
#[track_caller]
fn canonical(bytes: &[u8], value: &Value) {
    assert_eq!(&decode(bytes).unwrap(), value);
    assert_eq!(encoded(value), bytes);
}

#[test]
fn every_fixed_width_code() {
    canonical(&[0x40], &Value::Null);
    canonical(&[0x41], &Value::Bool(true));
    canonical(&[0x42], &Value::Bool(false));
    canonical(&[0x43], &Value::UInt(0));
    canonical(&[0x44], &Value::ULong(0));
    canonical(&[0x45], &Value::List(vec![]));
    canonical(&[0x50, 0xff], &Value::UByte(255));
    canonical(&[0x51, 0xff], &Value::Byte(-1));
    canonical(&[0x52, 0xff], &Value::UInt(255));
    canonical(&[0x53, 0x01], &Value::ULong(1));
    canonical(&[0x54, 0x80], &Value::Int(-128));
    canonical(&[0x55, 0x7f], &Value::Long(127));
    canonical(&[0x60, 1, 0], &Value::UShort(256));
    canonical(&[0x61, 0xff, 0xfe], &Value::Short(-2));
    canonical(&[0x70, 0, 0, 1, 0], &Value::UInt(256));
    canonical(&[0x71, 0, 0, 0, 0x80], &Value::Int(128));
    canonical(&[0x72, 0x3f, 0x80, 0, 0], &Value::Float(1.0));
    canonical(&[0x73, 0, 1, 0xf6, 0], &Value::Char('😀'));
    canonical(&[0x74, 1, 2, 3, 4], &Value::Decimal32([1, 2, 3, 4]));
    canonical(&[0x80, 0, 0, 0, 0, 0, 0, 1, 0], &Value::ULong(256));
    canonical(&[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], &Value::Long(-129));
    canonical(&[0x82, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0], &Value::Double(1.0));
    canonical(&[0x83, 0, 0, 0, 0, 0, 0, 0, 5], &Value::Timestamp(5));
    canonical(&[0x84, 1, 2, 3, 4, 5, 6, 7, 8], &Value::Decimal64([1, 2, 3, 4, 5, 6, 7, 8]));
    let sixteen = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    canonical(&[&[0x94][..], &sixteen].concat(), &Value::Decimal128(sixteen));
    canonical(&[&[0x98][..], &sixteen].concat(), &Value::Uuid(sixteen));
}

#[test]
fn every_variable_width_code() {
    canonical(b"\xa0\x02ab", &Value::Binary("ab".into()));
    canonical(
        "\u{e9}"
            .as_bytes()
            .iter()
            .fold(vec![0xa1, 2], |mut all, &byte| {
                all.push(byte);
                all
            })
            .as_slice(),
        &"é".into(),
    );
    canonical(b"\xa3\x01x", &Value::symbol("x"));
    let long = "y".repeat(256);
    let sized = |code| [&[code, 0, 0, 1, 0], long.as_bytes()].concat();
    canonical(&sized(0xb0), &Value::Binary(long.clone().into()));
    canonical(&sized(0xb1), &Value::from(long.as_str()));
    canonical(&sized(0xb3), &Value::symbol(&long));
}

#[test]
fn every_compound_code() {
    canonical(&[0xc0, 3, 2, 0x41, 0x42], &Value::List(vec![Value::Bool(true), Value::Bool(false)]));
    canonical(&[0xc1, 1, 0], &Value::Map(vec![]));
    canonical(&[0xc1, 3, 2, 0x43, 0x40], &Value::Map(vec![(Value::UInt(0), Value::Null)]));
    canonical(&[0xe0, 4, 2, 0x50, 1, 2], &Value::Array(vec![Value::UByte(1), Value::UByte(2)]));
    let many = Value::List(vec![Value::Null; 256]);
    canonical(&[&[0xd0, 0, 0, 1, 4, 0, 0, 1, 0][..], &[0x40; 256]].concat(), &many);
    let map = Value::Map(vec![(Value::Null, Value::Null); 128]);
    canonical(&[&[0xd1, 0, 0, 1, 4, 0, 0, 1, 0][..], &[0x40; 256]].concat(), &map);
    let array = Value::Array(vec![Value::UByte(9); 256]);
    canonical(&[&[0xf0, 0, 0, 1, 5, 0, 0, 1, 0, 0x50][..], &[9; 256]].concat(), &array);
}

#[test]
fn wide_forms_of_small_numbers_are_read() {
    assert_eq!(decode(&[0x56, 1]).unwrap(), Value::Bool(true));
    assert_eq!(decode(&[0x70, 0, 0, 0, 0]).unwrap(), Value::UInt(0));
    assert_eq!(decode(&[0x80, 0, 0, 0, 0, 0, 0, 0, 3]).unwrap(), Value::ULong(3));
    assert_eq!(decode(&[0x71, 0, 0, 0, 1]).unwrap(), Value::Int(1));
    assert_eq!(decode(&[0x81, 0, 0, 0, 0, 0, 0, 0, 1]).unwrap(), Value::Long(1));
    assert_eq!(decode(&[0xd0, 0, 0, 0, 4, 0, 0, 0, 0]).unwrap(), Value::List(vec![]));
    assert_eq!(decode(&[0xb1, 0, 0, 0, 1, b'a']).unwrap(), "a".into());
    assert_eq!(decode(&[0xf0, 0, 0, 0, 5, 0, 0, 0, 0, 0x81]).unwrap(), Value::Array(vec![]));
    assert_eq!(decode(&[0xe0, 1, 0]).unwrap(), Value::Array(vec![]), "as serde_amqp writes it");
}

#[test]
fn codes_that_do_not_exist_are_refused() {
    let known = (0..=255).filter(|&code: &u8| crate::code::format::is_known(code)).count();
    assert_eq!(known, 40);
    for code in 0..=255_u8 {
        if !crate::code::format::is_known(code) {
            let mut input = Bytes::from([vec![code], vec![0; 64]].concat());
            Value::decode(&mut input).unwrap_err();
        }
    }
}

#[test]
fn malformed_contents_are_refused() {
    for bytes in [
        &[0x56, 2][..],                  // boolean
        &[0x73, 0, 0, 0xd8, 0],          // surrogate
        &[0x73, 0xff, 0, 0, 0],          // beyond Unicode
        &[0xa1, 1, 0xff],                // not UTF-8
        &[0xc1, 2, 1, 0x40],             // a key without value
        &[0xc0, 3, 1, 0x40, 0x40],       // size larger than the contents
        &[0xc0, 1, 1],                   // count larger than the contents
        &[0x00, 0x40, 0x40],             // null as descriptor
        &[0x00, 0x00, 0x43, 0x43, 0x43], // a described descriptor
        &[],
    ] {
        decode(bytes).unwrap_err();
    }
}

/// Go asserts `[]int64`, .NET `DateTime[]`: arrays have one full-width constructor whatever the elements.
#[test]
fn arrays_are_typed_and_of_full_width() {
    assert_eq!(
        encoded(&Value::array_of_longs(&[1, -1])),
        [0xe0, 18, 2, 0x81, 0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255]
    );
    assert_eq!(encoded(&Value::array_of_timestamps(&[7])), [0xe0, 10, 1, 0x83, 0, 0, 0, 0, 0, 0, 0, 7]);
    assert_eq!(encoded(&Value::array_of_longs(&[])), [0xe0, 2, 0, 0x81]);
    let uuids = Value::Array(vec![Value::Uuid([1; 16]), Value::Uuid([2; 16])]);
    assert_eq!(encoded(&uuids), [&[0xe0, 34, 2, 0x98][..], &[1; 16], &[2; 16]].concat());
    let flags = Value::Array(vec![Value::Bool(true), Value::Bool(false)]);
    assert_eq!(encoded(&flags), [0xe0, 4, 2, 0x56, 1, 0]);
    let thousand: Vec<i64> = (0..1000).collect();
    let array = Value::array_of_longs(&thousand);
    assert_eq!(encoded(&array)[..10], [0xf0, 0, 0, 0x1f, 0x45, 0, 0, 3, 0xe8, 0x81]);
    assert_eq!(decode(&encoded(&array)).unwrap(), array);
}

#[test]
fn an_array_takes_the_wide_constructor_when_one_text_is_long() {
    let long = "z".repeat(300);
    let array = Value::Array(vec![Value::symbol("a"), Value::symbol(&long), Value::symbol("b")]);
    assert_eq!(encoded(&array)[9], 0xb3);
    assert_eq!(decode(&encoded(&array)).unwrap(), array);
    let described = |text: &str| Value::described(Value::symbol("d"), text.into());
    let array = Value::Array(vec![described("a"), described(&long), described("b")]);
    assert_eq!(decode(&encoded(&array)).unwrap(), array);
}

#[test]
fn a_mixed_array_is_written_as_a_list() {
    let elements = vec![Value::Int(1), "a".into()];
    assert_eq!(decode(&encoded(&Value::Array(elements.clone()))).unwrap(), Value::List(elements.clone()));
    let nested = Value::Array(vec![Value::Array(elements.clone()), Value::Array(vec![Value::Int(1)])]);
    let lists = Value::List(vec![Value::List(elements), Value::Array(vec![Value::Int(1)])]);
    assert_eq!(decode(&encoded(&nested)).unwrap(), lists);
}

/// .NET's application properties (amqp-netlite and azure-amqp: descriptor symbol, value long or string).
#[test]
fn described_values_round_trip() {
    for (name, value) in [
        ("com.microsoft:timespan", Value::Long(36_000_000_000)),
        ("com.microsoft:uri", "https://example.com/".into()),
        ("com.microsoft:datetime-offset", Value::Long(638_000_000_000_000_000)),
    ] {
        let described = Value::described(Value::symbol(name), value);
        assert_eq!(decode(&encoded(&described)).unwrap(), described);
    }
}

#[test]
fn binaries_are_slices_of_the_input() {
    let source = Bytes::from_static(b"\xa0\x03abc!");
    let mut input = source.clone();
    let Value::Binary(binary) = Value::decode(&mut input).unwrap() else { panic!("not a binary") };
    assert_eq!(binary.as_ptr(), source[2..].as_ptr());
    assert_eq!(input, "!");
}

#[test]
fn accessors_are_lenient_about_width_and_kind_of_text() {
    assert_eq!(Value::UByte(3).as_i64(), Some(3));
    assert_eq!(Value::ULong(u64::MAX).as_i64(), None);
    let map = Value::Map(vec![(Value::symbol("a"), Value::Int(1)), ("b".into(), Value::Int(2))]);
    assert_eq!(map.get("a").and_then(Value::as_i64), Some(1));
    assert_eq!(map.get("b").and_then(Value::as_i64), Some(2));
    assert_eq!(map.get("c"), None);
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(value in arbitrary::value(), tail in any::<[u8; 3]>()) {
        let mut output = BytesMut::new();
        value.encode(&mut output);
        output.extend_from_slice(&tail);
        let mut input = output.freeze();
        prop_assert_eq!(Value::decode(&mut input).unwrap(), value);
        prop_assert_eq!(&input[..], &tail[..]);
    }

    #[test]
    fn every_proper_prefix_is_refused(value in arbitrary::value(), cut in any::<prop::sample::Index>()) {
        let bytes = value.to_bytes();
        let mut prefix = bytes.slice(..cut.index(bytes.len()));
        prop_assert!(Value::decode(&mut prefix).is_err());
    }
}
