//! Messages checked and read in one pass.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::arbitrary;
use crate::Value;
use crate::exercise;
use crate::message::*;

const BODY: &[u8] = b"\x00\x53\x75\xa0\x01x";
const TEXT_ID: &[u8] = b"\x00\x53\x73\xc0\x0b\x03\xa1\x01m\x40\xa1\x04away";

fn message(sections: &[&[u8]]) -> Bytes {
    Bytes::from(sections.concat())
}

fn section(encode: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut output = BytesMut::new();
    encode(&mut output);
    output.freeze()
}

/// The summary that one pass reads of a usual message.
fn usual(message: &Bytes) -> Option<Summary<'_>> {
    let mut summary = Summary::default();
    summary.read_usual(message).then_some(summary)
}

#[test]
fn messages_of_the_sdks_are_read_in_one_walk() {
    let header = section(|output| Header { ttl_ms: Some(5), ..Header::default() }.encode(output));
    let key = ("x-opt-partition-key".into(), Value::from("k"));
    let annotations = section(|output| encode_message_annotations(&[key], output));
    let application = section(|output| encode_application_properties(&[("n".into(), Value::Int(7))], output));
    let footer = b"\x00\x53\x78\xc1\x01\x00";
    let whole = message(&[&header, &annotations, TEXT_ID, &application, BODY, BODY, footer]);
    let summary = usual(&whole).unwrap();
    assert_eq!(summary.header.ttl_ms, Some(5));
    let properties = summary.properties;
    assert_eq!((properties.message_id, properties.to), (IdView::String("m"), Some("away")));
    assert_eq!(whole[summary.places.message_annotations.clone()], annotations);
    assert_eq!(whole[summary.places.application_properties.clone()], application);
    assert_eq!(whole[summary.places.body.clone()], [BODY, BODY, footer].concat());
    assert_eq!(whole[summary.places.footer.clone()], footer[..]);

    let bare = message(&[BODY]);
    let summary = usual(&bare).unwrap();
    assert_eq!((summary.properties, summary.places.body), (PropertiesView::default(), 0..BODY.len()));
    for (id, view) in [
        (&b"\x44"[..], IdView::ULong(0)),
        (b"\x53\x09", IdView::ULong(9)),
        (b"\x98\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01", IdView::Uuid([1; 16])),
        (b"\xa0\x02\xff\x00", IdView::Binary(&[0xff, 0])),
        (b"\x40", IdView::Absent),
    ] {
        let head = [0x00, 0x53, 0x73, 0xc0, u8::try_from(id.len()).unwrap() + 1, 1];
        let message = message(&[&head, id, BODY]);
        assert_eq!(usual(&message).unwrap().properties.message_id, view);
    }
}

#[test]
fn messages_that_need_changes_or_a_second_look_take_the_long_way() {
    let decimal = [("d".into(), Value::Decimal32([0; 4]))];
    let described = [("d".into(), Value::described(Value::ULong(1), Value::Int(1)))];
    let annotations = |entries: &[(Value, Value)]| section(|out| encode_message_annotations(entries, out));
    let application = |entries: &[(Value, Value)]| section(|out| encode_application_properties(entries, out));
    for unusual in [
        message(&[TEXT_ID, BODY, b"\x00\x53\x71\xc1\x01\x00"]),
        message(&[b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x73\x45", BODY]),
        message(&[b"\x00\x53\x74\xc1\x06\x02\xa3\x01h\x54\x01", BODY]),
        message(&[b"\x00\x53\x73\xc0\x03\x01\x54\x01", BODY]),
        message(&[b"\x00\x53\x70\xc0\x07\x06\x40\x40\x40\x40\x40\x41", BODY]),
        message(&[&annotations(&decimal), BODY]),
        message(&[&annotations(&described), BODY]),
        message(&[&application(&decimal), BODY]),
        message(&[&application(&described), BODY]),
    ] {
        assert_eq!(usual(&unusual), None, "{unusual:?}");
        let (kept, sections) = Sections::split_canonical(&unusual).unwrap();
        let summary = Summary::of_checked(&kept).unwrap();
        assert_eq!(sections.view_properties(), Ok(summary.properties));
        assert_eq!(kept.slice(summary.places.body), sections.body);
    }
}

#[test]
fn mistakes_within_header_and_properties_are_seen() {
    for section in [
        &b"\x00\x53\x70\xc0\x03\x01\x56\x02"[..], // a boolean that is neither
        b"\x00\x53\x70\xc0\x04\x01\x41\x40",      // a size beyond the data
        b"\x00\x53\x70\xc0\x03\x01\x41\x41",      // a size larger than the contents
        b"\x00\x53\x70\xc0\x01\x02",              // fewer fields than counted
        b"\x00\x53\x70\xc1\x01\x00",              // a map
        b"\x00\x53\x73\xc0\x04\x01\xa1\x01\xff",  // an id that is not UTF-8
        b"\x00\x53\x73\xc0\x06\x03\x40\x40\xa1\x01\xff", // an address that is not UTF-8
        b"\x00\x53\x73\xc0\x08\x01\xc1\x05\x04\x41\x41\x41\x41", // an id that is a map with a key twice
        b"\x00\x53\x73\xd0\x00\x00\x00\x05\xff\xff\xff\xff\x40", // four thousand million fields
    ] {
        let message = message(&[section, BODY]);
        assert_eq!(usual(&message), None, "{section:02x?}");
        Sections::split(&message).unwrap_err();
    }
}

#[test]
fn more_fields_than_a_section_has_are_bounded() {
    let list = |fields: u32| {
        let size = (fields + 4).to_be_bytes();
        let nulls = vec![0x40; usize::try_from(fields).unwrap()];
        message(&[b"\x00\x53\x73\xd0", &size, &fields.to_be_bytes(), &nulls, BODY])
    };
    assert_eq!(usual(&list(14)).unwrap().properties, PropertiesView::default());
    for (fields, is_sound) in [(200, true), (Value::ELEMENTS_MAX, true), (Value::ELEMENTS_MAX + 1, false)] {
        assert_eq!(usual(&list(fields)), None);
        assert_eq!(Sections::split(&list(fields)).is_ok(), is_sound);
    }
}

proptest! {
    #[test]
    fn one_walk_reads_the_same_as_the_steps(
        header in arbitrary::header(),
        annotations in arbitrary::entries(),
        properties in arbitrary::properties(),
        change in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let mut output = BytesMut::new();
        header.encode(&mut output);
        encode_message_annotations(&annotations, &mut output);
        properties.encode(&mut output);
        output.extend_from_slice(BODY);
        if let Some((at, octet)) = change {
            let at = at.index(output.len());
            output[at] = octet;
        }
        exercise::message_sections(&output);
    }
}
