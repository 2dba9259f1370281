//! Runs the decoders over arbitrary bytes and asserts their properties. The fuzz targets and the seeded mutation test
//! are thin wrappers over these. Not part of the API.

#![allow(clippy::expect_used)] // a violated property must end the run

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::Value;
use super::frame::{FrameHeader, FrameKind, decode_body, decode_sasl, encode_frame, encode_sasl};
use super::message::{Places, Sections, Summary};
use super::read::Reader;
use super::transaction::Control;

/// A frame, header included; longer input is cut, shorter input is an incomplete frame.
pub fn frame(input: &[u8]) {
    let Some((head, _)) = input.split_first_chunk() else { return };
    let Ok(header) = FrameHeader::decode(*head) else { return };
    assert!(header.body_offset >= 8 && header.body_offset <= header.size);
    let (Ok(start), Ok(end)) = (usize::try_from(header.body_offset), usize::try_from(header.size)) else {
        return;
    };
    let Some(body) = input.get(start..end) else { return };
    match header.kind {
        FrameKind::Amqp => performative(body),
        FrameKind::Sasl => sasl(body),
    }
}

/// A frame body: a decoded body can be encoded, and decodes to the same again.
pub fn performative(input: &[u8]) {
    sasl(input);
    let Ok(Some((decoded, payload))) = decode_body(Bytes::copy_from_slice(input)) else { return };
    assert!(input.ends_with(&payload));
    let mut written = BytesMut::new();
    encode_frame(0, &decoded, 0, &mut written);
    let written = written.freeze();
    let (again, _) = decode_body(written.slice(8..)).expect("our own encoding").expect("a performative");
    // Compared encoded, because NaN is unequal to itself.
    let mut rewritten = BytesMut::new();
    encode_frame(0, &again, 0, &mut rewritten);
    assert_eq!(written, rewritten);
    message_sections(&payload);
}

fn sasl(input: &[u8]) {
    if let Ok(decoded) = decode_sasl(Bytes::copy_from_slice(input)) {
        let mut written = BytesMut::new();
        encode_sasl(&decoded, &mut written);
        assert_eq!(decode_sasl(written.freeze().slice(8..)), Ok(decoded));
    }
}

/// A message: one that passes the check can be read by every reader, trusted or not.
pub fn message_sections(input: &[u8]) {
    let message = Bytes::copy_from_slice(input);
    let split = Sections::split(&message);
    let trusted = Sections::split_trusted(&message);
    let mut summary = Summary::default();
    let is_usual = summary.read_usual(&message);
    let Ok(sections) = split else { return assert!(!is_usual, "{message:?}") };
    if is_usual {
        read_in_one_walk(&message, &sections, &summary);
    }
    assert_eq!(trusted.as_ref(), Ok(&sections));
    canonical(&message, &sections);
    let maps = [
        &sections.delivery_annotations,
        &sections.message_annotations,
        &sections.application_properties,
        &sections.footer,
    ];
    for section in maps {
        let decoded = Sections::decode_map(section).expect("a checked map");
        let entries = Sections::map_entries(section).expect("a checked map");
        let entries: Vec<_> = entries.collect::<Result<_, _>>().expect("checked entries");
        assert_eq!(entries.len(), decoded.len());
    }
    let _ = sections.decode_header();
    if let Ok(properties) = sections.decode_properties() {
        let mut written = BytesMut::new();
        properties.encode(&mut written);
    }
    let _ = sections.body_value();
    transaction_control(&message);
    for inner in sections.batch_messages().unwrap_or_default() {
        let _ = Sections::split(&inner);
    }
}

/// The single walk reads the same as the separate steps.
fn read_in_one_walk(message: &Bytes, sections: &Sections, usual: &Summary<'_>) {
    let (kept, _) = Sections::split_canonical(message).expect("a checked message");
    assert_eq!(kept.as_ptr(), message.as_ptr(), "in canonical form");
    assert_eq!(Summary::of_checked(message).as_ref(), Ok(usual));
    assert_eq!(sections.decode_header().as_ref(), Ok(&usual.header));
    assert_eq!(sections.view_properties(), Ok(usual.properties));
    let slice = |place: &Range<usize>| message.slice(place.clone());
    let Places { header, properties, body, footer, .. } = &usual.places;
    assert_eq!((slice(header), slice(properties)), (sections.header.clone(), sections.properties.clone()));
    assert_eq!((slice(body), slice(footer)), (sections.body.clone(), sections.footer.clone()));
    let maps = [
        (&usual.places.delivery_annotations, &sections.delivery_annotations),
        (&usual.places.message_annotations, &sections.message_annotations),
        (&usual.places.application_properties, &sections.application_properties),
        (footer, &sections.footer),
    ];
    for (place, section) in maps {
        assert_eq!(slice(place), section);
        for (_, value) in Sections::decode_map(section).expect("a checked map") {
            assert!(!matches!(value, Value::Decimal32(_) | Value::Decimal64(_) | Value::Decimal128(_)));
        }
    }
}

/// A message for a transaction coordinator: a decoded body can be encoded, and decodes to the same again.
fn transaction_control(message: &Bytes) {
    let Ok(control) = Control::decode(message) else { return };
    let written = control.encode();
    let again = Control::decode(&written).expect("our own encoding");
    // Compared encoded, because NaN is unequal to itself.
    assert_eq!(again.encode(), written);
}

/// The canonical form holds the same sections, without gaps.
fn canonical(message: &Bytes, sections: &Sections) {
    let (kept, parts) = Sections::split_canonical(message).expect("a checked message");
    let joined = [
        &parts.header,
        &parts.delivery_annotations,
        &parts.message_annotations,
        &parts.properties,
        &parts.application_properties,
        &parts.body,
    ];
    assert_eq!(joined.map(|part| &part[..]).concat(), kept);
    assert_eq!(parts.decode_header(), sections.decode_header());
    assert_eq!(parts.body.is_empty(), sections.body.is_empty());
    assert_eq!(Sections::split_canonical(&kept), Ok((kept.clone(), parts)));
}

/// A value: the check and the decoder agree, except about the keys of maps, which only the check examines; and encoding
/// is stable.
pub fn value(input: &[u8]) {
    let source = Bytes::copy_from_slice(input);
    let mut checked = Reader::new(&source);
    let check = checked.check(0);
    let mut rest = source.clone();
    let decoded = Value::decode(&mut rest);
    let Ok(decoded) = decoded else { return assert!(check.is_err(), "checked, but {decoded:?}") };
    match check {
        Ok(()) => assert_eq!(checked.remaining(), rest.len()),
        Err(error) => assert!(error.reason().contains(" key"), "{error} in {decoded:?}"),
    }
    let written = decoded.to_bytes();
    let again = Value::decode(&mut written.clone()).expect("our own encoding");
    assert_eq!(again.to_bytes(), written);
}
