//! Writers for primitives, lists and maps, each in its shortest form.

use bytes::{BufMut, BytesMut};

use super::code::{descriptor, format};
use super::{Fields, Str, Value};

pub(super) fn null(output: &mut BytesMut) {
    output.put_u8(format::NULL);
}

pub(super) fn boolean(truth: bool, output: &mut BytesMut) {
    output.put_u8(boolean_code(truth));
}

pub(super) const fn boolean_code(truth: bool) -> u8 {
    if truth { format::TRUE } else { format::FALSE }
}

pub(super) fn ubyte(number: u8, output: &mut BytesMut) {
    output.put_slice(&[format::UBYTE, number]);
}

pub(super) fn ushort(number: u16, output: &mut BytesMut) {
    let [a, b] = number.to_be_bytes();
    output.put_slice(&[format::USHORT, a, b]);
}

#[inline]
pub(super) fn uint(number: u32, output: &mut BytesMut) {
    match number.to_be_bytes() {
        [0, 0, 0, 0] => output.put_u8(format::UINT_0),
        [0, 0, 0, small] => output.put_slice(&[format::SMALL_UINT, small]),
        [a, b, c, d] => output.put_slice(&[format::UINT, a, b, c, d]),
    }
}

pub(super) fn ulong(number: u64, output: &mut BytesMut) {
    match u8::try_from(number) {
        Ok(0) => output.put_u8(format::ULONG_0),
        Ok(small) => output.put_slice(&[format::SMALL_ULONG, small]),
        Err(_) => eight(format::ULONG, number.to_be_bytes(), output),
    }
}

pub(super) fn int(number: i32, output: &mut BytesMut) {
    match i8::try_from(number) {
        Ok(small) => small_signed(format::SMALL_INT, small, output),
        Err(_) => wide(format::INT, number.to_be_bytes(), output),
    }
}

#[inline]
pub(super) fn long(number: i64, output: &mut BytesMut) {
    match i8::try_from(number) {
        Ok(small) => small_signed(format::SMALL_LONG, small, output),
        Err(_) => eight(format::LONG, number.to_be_bytes(), output),
    }
}

#[inline]
pub(super) fn timestamp(timestamp_ms: i64, output: &mut BytesMut) {
    eight(format::TIMESTAMP, timestamp_ms.to_be_bytes(), output);
}

fn small_signed(code: u8, number: i8, output: &mut BytesMut) {
    let [octet] = number.to_be_bytes();
    output.put_slice(&[code, octet]);
}

/// A constructor and eight bytes of contents, in one step: times and numbers are in every delivery.
#[inline]
fn eight(code: u8, [a, b, c, d, e, f, g, h]: [u8; 8], output: &mut BytesMut) {
    output.put_slice(&[code, a, b, c, d, e, f, g, h]);
}

/// A constructor and its contents.
#[inline]
pub(super) fn wide<const N: usize>(code: u8, contents: [u8; N], output: &mut BytesMut) {
    output.put_u8(code);
    output.put_slice(&contents);
}

#[inline]
pub(super) fn binary(contents: &[u8], output: &mut BytesMut) {
    variable(format::BINARY_8, format::BINARY_32, contents, output);
}

pub(super) fn string(text: &str, output: &mut BytesMut) {
    variable(format::STRING_8, format::STRING_32, text.as_bytes(), output);
}

#[inline]
pub(super) fn symbol(text: &str, output: &mut BytesMut) {
    variable(format::SYMBOL_8, format::SYMBOL_32, text.as_bytes(), output);
}

#[inline]
fn variable(small: u8, large: u8, contents: &[u8], output: &mut BytesMut) {
    match u8::try_from(contents.len()) {
        Ok(size) => output.put_slice(&[small, size]),
        Err(_) => {
            output.put_u8(large);
            output.put_u32(length_32(contents.len()));
        }
    }
    output.put_slice(contents);
}

/// Writes the value with `write`, or null.
#[inline]
pub(super) fn optional<T>(value: Option<T>, write: impl FnOnce(T, &mut BytesMut), output: &mut BytesMut) {
    match value {
        Some(value) => write(value, output),
        None => null(output),
    }
}

/// A standard descriptor, as smallulong: Python reads no other form.
pub(super) fn described(descriptor: u8, output: &mut BytesMut) {
    output.put_slice(&[format::DESCRIBED, format::SMALL_ULONG, descriptor]);
}

/// A described list of `count` fields, which `write` writes.
#[inline]
pub(super) fn composite(descriptor: u8, count: u8, output: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let start = open_described(descriptor, output);
    write(output);
    close_compound(format::LIST_8, format::LIST_32, start, count.into(), output);
}

/// A list, map or array whose size is known only after its contents are written.
#[inline]
pub(super) fn compound(
    small: u8,
    large: u8,
    count: usize,
    output: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut),
) {
    let start = open_compound(output);
    write(output);
    close_compound(small, large, start, count, output);
}

/// A standard descriptor, and space for the head of a compound; its contents follow.
#[inline]
pub(super) fn open_described(descriptor: u8, output: &mut BytesMut) -> usize {
    output.put_slice(&[format::DESCRIBED, format::SMALL_ULONG, descriptor, 0, 0, 0]);
    output.len() - SMALL_HEAD_BYTES
}

/// Reserves space for the head of a compound; its contents follow.
#[inline]
pub(super) fn open_compound(output: &mut BytesMut) -> usize {
    let start = output.len();
    output.put_slice(&[0; SMALL_HEAD_BYTES]);
    start
}

/// Writes the head of the compound that began at `start`, in the large form if necessary.
#[inline]
pub(super) fn close_compound(small: u8, large: u8, start: usize, count: usize, output: &mut BytesMut) {
    let size = output.len() - start - 2;
    match (u8::try_from(size), u8::try_from(count)) {
        (Ok(size), Ok(count)) => {
            if let Some(head) = output.get_mut(start..start + SMALL_HEAD_BYTES) {
                head.copy_from_slice(&[small, size, count]);
            }
        }
        _ => widen(large, start, count, output),
    }
}

const SMALL_HEAD_BYTES: usize = 3;
const LARGE_HEAD_BYTES: usize = 9;

/// Turns the three bytes of a small compound's head into the nine of a large one's.
#[cold]
fn widen(large: u8, start: usize, count: usize, output: &mut BytesMut) {
    let contents_end = output.len();
    output.put_bytes(0, LARGE_HEAD_BYTES - SMALL_HEAD_BYTES);
    output.copy_within(start + SMALL_HEAD_BYTES..contents_end, start + LARGE_HEAD_BYTES);
    let size = output.len() - start - 5;
    let mut head = output.get_mut(start..start + LARGE_HEAD_BYTES).unwrap_or_default();
    head.put_u8(large);
    head.put_u32(length_32(size));
    head.put_u32(length_32(count));
}

/// A list, map or array as an array's element: size and count of four bytes, no constructor.
pub(super) fn compound_element(count: usize, output: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let start = output.len();
    output.put_u32(0);
    output.put_u32(length_32(count));
    write(output);
    let size = length_32(output.len() - start - 4);
    if let Some(head) = output.get_mut(start..start + 4) {
        head.copy_from_slice(&size.to_be_bytes());
    }
}

/// Sizes are 32 bits wide on the wire; the limits on frame and message size prevent larger values.
pub(super) fn length_32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// A map with symbol keys; null when empty.
pub(super) fn fields(entries: &Fields, output: &mut BytesMut) {
    if entries.is_empty() {
        return null(output);
    }
    compound(format::MAP_8, format::MAP_32, entries.len() * 2, output, |output| {
        for (key, value) in entries {
            symbol(key, output);
            value.encode(output);
        }
    });
}

/// A map without entries, where null would have another meaning.
pub(super) fn empty_map(output: &mut BytesMut) {
    compound(format::MAP_8, format::MAP_32, 0, output, |_| {});
}

/// Symbols as an array; null when empty.
pub(super) fn symbols(names: &[Str], output: &mut BytesMut) {
    if names.is_empty() { null(output) } else { symbol_array(names, output) }
}

/// Symbols as an array, even an empty one.
pub(super) fn symbol_array(names: &[Str], output: &mut BytesMut) {
    compound(format::ARRAY_8, format::ARRAY_32, names.len(), output, |output| {
        let long = names.iter().any(|name| name.len() > u8::MAX.into());
        output.put_u8(if long { format::SYMBOL_32 } else { format::SYMBOL_8 });
        for name in names {
            variable_element(long, name.as_bytes(), output);
        }
    });
}

/// A binary, string or symbol as an array's element.
pub(super) fn variable_element(long: bool, contents: &[u8], output: &mut BytesMut) {
    match u8::try_from(contents.len()) {
        Ok(size) if !long => output.put_u8(size),
        _ => output.put_u32(length_32(contents.len())),
    }
    output.put_slice(contents);
}

/// A section or composite whose contents are a map.
pub(super) fn described_map(
    descriptor: u8,
    entries: &[(Value, Value)],
    output: &mut BytesMut,
    write_key: impl Fn(&Value, &mut BytesMut),
) {
    let start = open_described(descriptor, output);
    for (key, value) in entries {
        write_key(key, output);
        value.encode(output);
    }
    close_compound(format::MAP_8, format::MAP_32, start, entries.len() * 2, output);
}

/// An outcome or another list without fields.
pub(super) fn empty_composite(code: u8, output: &mut BytesMut) {
    debug_assert!(matches!(code, descriptor::ACCEPTED | descriptor::RELEASED));
    output.put_slice(&[format::DESCRIBED, format::SMALL_ULONG, code, format::LIST_0]);
}
