//! Message sections.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::arbitrary;
use crate::wire::message::*;

proptest! {
    #[test]
    fn sections_round_trip(
        header in arbitrary::header(),
        annotations in arbitrary::entries(),
        properties in arbitrary::properties(),
        body in arbitrary::value(),
    ) {
        let mut output = BytesMut::new();
        header.encode(&mut output);
        encode_message_annotations(&annotations, &mut output);
        properties.encode(&mut output);
        encode_body_value(&body, &mut output);
        let message = output.freeze();
        let sections = Sections::split(&message).unwrap();
        prop_assert_eq!(sections.decode_header().unwrap(), header);
        prop_assert_eq!(Sections::decode_map(&sections.message_annotations).unwrap(), annotations);
        prop_assert_eq!(sections.decode_properties().unwrap(), properties);
        prop_assert_eq!(sections.body_value().unwrap(), body);
        prop_assert_eq!(Sections::split_trusted(&message).unwrap(), sections);
        let _ = Bytes::new();
    }
}
