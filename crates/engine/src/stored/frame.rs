//! The frame around the fields of every record: the first byte and the length.

use prost::Message;

/// The first byte of a record with tagged fields. Smaller values are versions of positional records.
const TAGGED: u8 = 0x10;

/// Whether a record has tagged fields. All other records are passed to the readers of earlier versions, which refuse unknown
/// ones.
pub(super) fn is_tagged(bytes: &[u8]) -> bool {
    bytes.first() == Some(&TAGGED)
}

/// Appends a record.
#[allow(clippy::expect_used)] // a vector has room for all that there is memory for
pub(super) fn append(record: &impl Message, to: &mut Vec<u8>) {
    to.push(TAGGED);
    record.encode_length_delimited(to).expect("a vector grows");
}

/// Reads a record, which must extend to the end of the bytes.
///
/// # Errors
/// The reason why they can't be decoded.
pub(super) fn read<T: Message + Default>(bytes: &[u8]) -> Result<T, String> {
    let mut fields = match bytes.split_first() {
        Some((&TAGGED, rest)) => rest,
        Some((version, _)) => return Err(format!("format version {version} is unknown")),
        None => return Err("the record is empty".to_owned()),
    };
    let length = prost::decode_length_delimiter(&mut fields).map_err(|error| error.to_string())?;
    match fields.len().checked_sub(length) {
        Some(0) => T::decode(fields).map_err(|error| error.to_string()),
        Some(more) => Err(format!("{more} bytes too many")),
        None => Err(format!("{} of {length} bytes are there", fields.len())),
    }
}

/// The value of a required field.
///
/// # Errors
/// The name of the field, if it is missing.
pub(super) fn required<T>(value: Option<T>, field: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("it has no {field}"))
}

/// The 128 bits of a field.
///
/// # Errors
/// The length, if it is not 16 bytes.
pub(super) fn bits_128(bytes: &[u8]) -> Result<u128, String> {
    let bytes = bytes.try_into().map_err(|_| format!("{} bytes in place of 16", bytes.len()))?;
    Ok(u128::from_be_bytes(bytes))
}

/// Maps the values of an enumeration to numbers in the store; `0` is the value of a missing field.
macro_rules! numbered {
    ($kind:ident, $number_of:ident, $from_number:ident, $name:literal: $($number:literal $value:ident),+ $(,)?) => {
        /// The value's number in the store.
        pub(super) const fn $number_of(value: $kind) -> u32 {
            match value { $($kind::$value => $number,)+ }
        }

        /// The value with this number in the store.
        pub(super) fn $from_number(number: u32) -> Result<$kind, String> {
            match number {
                $($number => Ok($kind::$value),)+
                unknown => Err(format!(concat!("the ", $name, " {} is unknown"), unknown)),
            }
        }
    };
}
pub(super) use numbered;

#[cfg(test)]
pub(super) mod testing {
    use std::fmt::Debug;

    use super::*;

    /// Checks that a reader refuses every prefix of a record, trailing bytes and an unknown first byte, that it skips unknown
    /// fields, and that it never panics whichever bit is flipped.
    pub(crate) fn check_tolerance<T: Debug + PartialEq>(
        good: &[u8],
        read: impl Fn(&[u8]) -> Result<T, String>,
    ) {
        let expected = read(good).unwrap();
        for end in 0..good.len() {
            assert!(read(&good[..end]).is_err(), "cut at {end}");
        }
        let longer = [good, &[0]].concat();
        assert!(read(&longer).unwrap_err().contains("1 bytes too many"));
        for first in [0, 9, 0x11, 0xff] {
            let newer = [&[first], &good[1..]].concat();
            assert!(read(&newer).unwrap_err().contains(&format!("version {first}")));
        }
        assert_eq!(read(&with_unknown_fields(good)).unwrap(), expected);
        for position in 0..good.len() {
            for bit in 0..8 {
                let mut damaged = good.to_vec();
                damaged[position] ^= 1 << bit;
                let _ = read(&damaged);
            }
        }
    }

    /// The record with fields of a later version: a number, a fixed number and a message.
    fn with_unknown_fields(good: &[u8]) -> Vec<u8> {
        let mut fields = &good[1..];
        prost::decode_length_delimiter(&mut fields).unwrap();
        // Tag 1000 as a varint, 1001 as eight bytes, 1002 with a length.
        let unknown = b"\xc0\x3e\x05\xc9\x3e12345678\xd2\x3e\x03abc";
        let fields = [fields, unknown].concat();
        let mut record = vec![TAGGED];
        prost::encode_length_delimiter(fields.len(), &mut record).unwrap();
        record.extend(fields);
        record
    }
}
