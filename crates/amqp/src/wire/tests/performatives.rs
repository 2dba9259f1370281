//! Performatives: round trips, leniency, full-length lists.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::arbitrary;
use crate::wire::frame::*;
use crate::wire::performative::*;

fn body(performative: &Performative) -> Bytes {
    let mut output = BytesMut::new();
    encode_frame(1, performative, 0, &mut output);
    output.freeze().slice(8..)
}

fn decode(bytes: &[u8]) -> Performative {
    decode_body(Bytes::copy_from_slice(bytes)).unwrap().unwrap().0
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(performative in arbitrary::performative()) {
        let (decoded, payload) = decode_body(body(&performative)).unwrap().unwrap();
        prop_assert_eq!(decoded, performative);
        prop_assert!(payload.is_empty());
    }

    #[test]
    fn sasl_decoding_undoes_encoding(frame in arbitrary::sasl_frame()) {
        let mut output = BytesMut::new();
        encode_sasl(&frame, &mut output);
        prop_assert_eq!(FrameHeader::decode(output[..8].try_into().unwrap()).unwrap().size as usize, output.len());
        prop_assert_eq!(decode_sasl(output.freeze().slice(8..)).unwrap(), frame);
    }
}
