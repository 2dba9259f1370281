//! Performatives and SASL frames: theirs reads our encoding with equal fields, and ours reads theirs.

use bytes::{Bytes, BytesMut};
use fe2o3_amqp_types::performatives as theirs;
use fe2o3_amqp_types::sasl as their_sasl;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::arbitrary;
use super::{Tame, their_value};
use crate::frame::*;
use crate::performative::*;
use crate::{Fields, Str, Value};

impl Tame for Performative {
    fn tame(&mut self) {
        match self {
            Self::Open(open) => {
                // Their types do not distinguish a default from an absent field.
                open.max_frame_size.get_or_insert(u32::MAX);
                open.channel_max.get_or_insert(u16::MAX);
                open.properties.tame();
            }
            Self::Begin(begin) => {
                begin.handle_max.get_or_insert(u32::MAX);
                begin.properties.tame();
            }
            Self::Attach(attach) => {
                attach.source.iter_mut().for_each(Tame::tame);
                if let Some(Target::Node(target)) = &mut attach.target {
                    target.tame();
                }
                if let Some(Target::Coordinator(capabilities)) = &mut attach.target {
                    *capabilities = vec!["amqp:local-transactions".into()];
                }
                attach.properties.tame();
            }
            Self::Flow(flow) => flow.properties.tame(),
            Self::Transfer(transfer) => transfer.state.iter_mut().for_each(|state| state.tame()),
            Self::Disposition(disposition) => disposition.state.iter_mut().for_each(Tame::tame),
            Self::Detach(Detach { error, .. }) | Self::End(error) | Self::Close(error) => {
                error.iter_mut().for_each(Tame::tame);
            }
        }
    }
}

impl Tame for Error {
    fn tame(&mut self) {
        self.info.tame();
    }
}

impl Tame for Terminus {
    fn tame(&mut self) {
        self.durable %= 3;
        self.expiry_policy =
            Some(["link-detach", "session-end", "never"][self.timeout_s as usize % 3].into());
        self.distribution_mode = self.distribution_mode.take().map(|_| "copy".into());
        self.default_outcome = Value::Null;
        self.dynamic_node_properties.tame();
        self.filter.tame();
    }
}

impl Tame for DeliveryState {
    fn tame(&mut self) {
        match self {
            Self::Rejected(Some(error)) => error.tame(),
            Self::Modified { message_annotations, .. } => message_annotations.tame(),
            Self::Transactional { outcome: Some(outcome), .. } => match &mut **outcome {
                Self::Received { .. } => **outcome = Self::Released,
                state => state.tame(),
            },
            _ => {}
        }
    }
}

/// Checks their decoding of our encoding, and decodes their encoding of that.
fn there_and_back<T: DeserializeOwned + Serialize>(performative: &Performative, check: impl Fn(&T)) {
    let mut output = BytesMut::new();
    encode_frame(0, performative, 0, &mut output);
    let their: T = serde_amqp::from_slice(&output[8..]).unwrap();
    check(&their);
    let bytes = Bytes::from(serde_amqp::to_vec(&their).unwrap());
    let (mut back, _) = decode_body(bytes).unwrap().unwrap();
    back.tame();
    assert_eq!(&back, performative);
}

fn same_fields(theirs: Option<&fe2o3_amqp_types::definitions::Fields>, ours: &Fields) {
    let entries: Vec<_> = theirs.into_iter().flatten().map(|(key, value)| (&*key.0, value.clone())).collect();
    let expected: Vec<_> = ours.iter().map(|(key, value)| (&**key, their_value(value))).collect();
    assert_eq!(entries, expected);
}

fn same_symbols(
    theirs: Option<&serde_amqp::primitives::Array<serde_amqp::primitives::Symbol>>,
    ours: &[Str],
) {
    let names: Vec<_> = theirs.into_iter().flat_map(|array| &array.0).map(|symbol| &*symbol.0).collect();
    let expected: Vec<_> = ours.iter().map(|name| &**name).collect();
    assert_eq!(names, expected);
}

fn check_transfer(their: &theirs::Transfer, ours: &Transfer) {
    assert_eq!(their.handle.0, ours.handle);
    assert_eq!(their.delivery_id, ours.delivery_id);
    assert_eq!(their.delivery_tag.as_ref().map(|tag| &tag[..]), ours.delivery_tag.as_deref());
    assert_eq!(their.message_format, ours.message_format);
    assert_eq!(their.settled, ours.settled);
    assert_eq!(their.more, ours.more);
    assert_eq!(their.state.is_some(), ours.state.is_some());
    assert_eq!((their.resume, their.aborted, their.batchable), (ours.resume, ours.aborted, ours.batchable));
}

fn check_flow(their: &theirs::Flow, ours: &Flow) {
    assert_eq!(their.next_incoming_id, ours.next_incoming_id);
    assert_eq!(their.incoming_window, ours.incoming_window);
    assert_eq!(their.next_outgoing_id, ours.next_outgoing_id);
    assert_eq!(their.outgoing_window, ours.outgoing_window);
    assert_eq!(their.handle.as_ref().map(|handle| handle.0), ours.handle);
    assert_eq!(their.delivery_count, ours.delivery_count);
    assert_eq!(their.link_credit, ours.link_credit);
    assert_eq!(their.available, ours.available);
    assert_eq!((their.drain, their.echo), (ours.drain, ours.echo));
    same_fields(their.properties.as_ref(), &ours.properties);
}

fn check_disposition(their: &theirs::Disposition, ours: &Disposition) {
    assert_eq!(bool::from(&their.role), ours.role == Role::Receiver);
    assert_eq!((their.first, their.last), (ours.first, ours.last));
    assert_eq!((their.settled, their.batchable), (ours.settled, ours.batchable));
    assert_eq!(their.state.is_some(), ours.state.is_some());
}

fn check_open(their: &theirs::Open, ours: &Open) {
    assert_eq!(*their.container_id, *ours.container_id);
    assert_eq!(their.hostname.as_deref(), ours.hostname.as_deref());
    assert_eq!(Some(their.max_frame_size.0), ours.max_frame_size);
    assert_eq!(Some(their.channel_max.0), ours.channel_max);
    assert_eq!(their.idle_time_out, ours.idle_time_out_ms);
    same_symbols(their.offered_capabilities.as_ref(), &ours.offered_capabilities);
    same_symbols(their.desired_capabilities.as_ref(), &ours.desired_capabilities);
    same_fields(their.properties.as_ref(), &ours.properties);
}

fn check_begin(their: &theirs::Begin, ours: &Begin) {
    assert_eq!(their.remote_channel, ours.remote_channel);
    assert_eq!(their.next_outgoing_id, ours.next_outgoing_id);
    assert_eq!(their.incoming_window, ours.incoming_window);
    assert_eq!(their.outgoing_window, ours.outgoing_window);
    assert_eq!(Some(their.handle_max.0), ours.handle_max);
    same_fields(their.properties.as_ref(), &ours.properties);
}

fn check_attach(their: &theirs::Attach, ours: &Attach) {
    assert_eq!(*their.name, *ours.name);
    assert_eq!(their.handle.0, ours.handle);
    assert_eq!(bool::from(&their.role), ours.role == Role::Receiver);
    assert_eq!(u8::from(&their.snd_settle_mode), ours.snd_settle_mode as u8);
    assert_eq!(u8::from(&their.rcv_settle_mode), ours.rcv_settle_mode as u8);
    assert_eq!(their.initial_delivery_count, ours.initial_delivery_count);
    assert_eq!(their.max_message_size, ours.max_message_size);
    assert_eq!(their.unsettled.is_some(), ours.resumes);
    assert_eq!(
        (their.source.is_some(), their.target.is_some()),
        (ours.source.is_some(), ours.target.is_some())
    );
    if let (Some(their), Some(ours)) = (&their.source, &ours.source) {
        assert_eq!(their.address.as_deref(), ours.address.as_deref());
        assert_eq!((their.timeout, their.dynamic), (ours.timeout_s, ours.dynamic));
        same_fields(their.filter.as_ref(), &ours.filter);
        same_symbols(their.outcomes.as_ref(), &ours.outcomes);
        same_symbols(their.capabilities.as_ref(), &ours.capabilities);
    }
    same_fields(their.properties.as_ref(), &ours.properties);
}

proptest! {
    #[test]
    fn performatives_agree(mut performative in arbitrary::performative()) {
        performative.tame();
        let checked = &performative;
        match checked {
            Performative::Open(ours) => there_and_back(checked, |their| check_open(their, ours)),
            Performative::Begin(ours) => there_and_back(checked, |their| check_begin(their, ours)),
            Performative::Attach(ours) => there_and_back(checked, |their| check_attach(their, ours)),
            Performative::Flow(ours) => there_and_back(checked, |their| check_flow(their, ours)),
            Performative::Transfer(ours) => there_and_back(checked, |their| check_transfer(their, ours)),
            Performative::Disposition(ours) => {
                there_and_back(checked, |their| check_disposition(their, ours));
            }
            Performative::Detach(ours) => there_and_back(checked, |their: &theirs::Detach| {
                assert_eq!((their.handle.0, their.closed), (ours.handle, ours.closed));
            }),
            Performative::End(ours) => there_and_back(checked, |their: &theirs::End| {
                assert_eq!(their.error.is_some(), ours.is_some());
            }),
            Performative::Close(ours) => there_and_back(checked, |their: &theirs::Close| {
                assert_eq!(their.error.is_some(), ours.is_some());
            }),
        }
    }

    #[test]
    fn sasl_frames_agree(frame in arbitrary::sasl_frame()) {
        match &frame {
            SaslFrame::Mechanisms(names) if names.is_empty() => {} // an array they cannot read
            SaslFrame::Mechanisms(_) => sasl_there_and_back::<their_sasl::SaslMechanisms>(&frame),
            SaslFrame::Init { .. } => sasl_there_and_back::<their_sasl::SaslInit>(&frame),
            SaslFrame::Challenge(_) => sasl_there_and_back::<their_sasl::SaslChallenge>(&frame),
            SaslFrame::Response(_) => sasl_there_and_back::<their_sasl::SaslResponse>(&frame),
            SaslFrame::Outcome { .. } => sasl_there_and_back::<their_sasl::SaslOutcome>(&frame),
        }
    }
}

fn sasl_there_and_back<T: DeserializeOwned + Serialize>(frame: &SaslFrame) {
    let mut output = BytesMut::new();
    encode_sasl(frame, &mut output);
    let their: T = serde_amqp::from_slice(&output[8..]).unwrap();
    assert_eq!(&decode_sasl(Bytes::from(serde_amqp::to_vec(&their).unwrap())).unwrap(), frame);
}
