//! Strategies for all types of the codec. Floats are finite, so that equality means identity.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::maps;
use crate::message::{Header, MessageProperties};
use crate::performative::*;
use crate::{Fields, Str, Value};

pub(super) fn text() -> impl Strategy<Value = Str> {
    // Texts beyond the one-byte size are rare but included.
    prop_oneof![20 => ".{0,12}", 1 => "[a-z]{250,260}"].prop_map(Into::into)
}

pub(super) fn symbol() -> impl Strategy<Value = Str> {
    prop_oneof![20 => "[a-z:.-]{0,24}", 1 => "[a-z]{250,260}"].prop_map(Into::into)
}

pub(super) fn binary() -> impl Strategy<Value = Bytes> {
    prop_oneof![20 => vec(any::<u8>(), 0..20), 1 => vec(any::<u8>(), 250..260)].prop_map(Into::into)
}

fn finite_f32() -> impl Strategy<Value = f32> {
    any::<f32>().prop_filter("NaN is unequal to itself", |number| !number.is_nan())
}

fn finite_f64() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("NaN is unequal to itself", |number| !number.is_nan())
}

/// One strategy per primitive type.
fn primitives() -> Vec<BoxedStrategy<Value>> {
    vec![
        Just(Value::Null).boxed(),
        any::<bool>().prop_map(Value::Bool).boxed(),
        any::<u8>().prop_map(Value::UByte).boxed(),
        any::<u16>().prop_map(Value::UShort).boxed(),
        small_or_any(0..300_u32, any::<u32>()).prop_map(Value::UInt).boxed(),
        small_or_any(0..300_u64, any::<u64>()).prop_map(Value::ULong).boxed(),
        any::<i8>().prop_map(Value::Byte).boxed(),
        any::<i16>().prop_map(Value::Short).boxed(),
        small_or_any(-200..200, any::<i32>()).prop_map(Value::Int).boxed(),
        small_or_any(-200..200_i64, any::<i64>()).prop_map(Value::Long).boxed(),
        finite_f32().prop_map(Value::Float).boxed(),
        finite_f64().prop_map(Value::Double).boxed(),
        any::<[u8; 4]>().prop_map(Value::Decimal32).boxed(),
        any::<[u8; 8]>().prop_map(Value::Decimal64).boxed(),
        any::<[u8; 16]>().prop_map(Value::Decimal128).boxed(),
        any::<char>().prop_map(Value::Char).boxed(),
        any::<i64>().prop_map(Value::Timestamp).boxed(),
        any::<[u8; 16]>().prop_map(Value::Uuid).boxed(),
        binary().prop_map(Value::Binary).boxed(),
        text().prop_map(Value::String).boxed(),
        symbol().prop_map(Value::Symbol).boxed(),
    ]
}

fn small_or_any<T: std::fmt::Debug + 'static>(
    small: impl Strategy<Value = T> + 'static,
    all: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = T> {
    prop_oneof![small, all]
}

pub(super) fn primitive() -> BoxedStrategy<Value> {
    proptest::strategy::Union::new(primitives()).boxed()
}

fn descriptor() -> BoxedStrategy<Value> {
    prop_oneof![any::<u64>().prop_map(Value::ULong), symbol().prop_map(Value::Symbol)].boxed()
}

/// Arrays of one element type, described elements, arrays of lists and arrays of arrays among them.
fn array() -> BoxedStrategy<Value> {
    let plain = proptest::strategy::Union::new(primitives().into_iter().map(|element| vec(element, 0..6)));
    let described =
        (descriptor(), vec(text().prop_map(Value::String), 0..4)).prop_map(|(descriptor, values)| {
            values.into_iter().map(|value| Value::described(descriptor.clone(), value)).collect()
        });
    let lists = vec(vec(primitive(), 0..4).prop_map(Value::List), 0..4);
    let arrays = vec(vec(any::<i64>().prop_map(Value::Long), 0..4).prop_map(Value::Array), 0..4);
    prop_oneof![4 => plain, 1 => described, 1 => lists, 1 => arrays].prop_map(Value::Array).boxed()
}

pub(super) fn value() -> BoxedStrategy<Value> {
    prop_oneof![8 => primitive(), 2 => array()]
        .prop_recursive(4, 24, 5, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..5).prop_map(Value::List),
                vec((inner.clone(), inner.clone()), 0..4).prop_map(maps::distinct).prop_map(Value::Map),
                (descriptor(), inner).prop_map(|(descriptor, value)| Value::described(descriptor, value)),
            ]
        })
        .boxed()
}

pub(super) fn fields() -> BoxedStrategy<Fields> {
    vec((symbol(), value()), 0..4).boxed()
}

pub(super) fn entries() -> impl Strategy<Value = Vec<(Value, Value)>> {
    vec((symbol().prop_map(Value::Symbol), value()), 0..5).prop_map(maps::distinct)
}

fn symbols() -> impl Strategy<Value = Vec<Str>> {
    vec(symbol(), 0..3)
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0_u32..300, any::<u32>()]
}

fn error() -> BoxedStrategy<Error> {
    (symbol(), option::of(text()), fields())
        .prop_map(|(condition, description, info)| Error { condition, description, info })
        .boxed()
}

fn outcome() -> BoxedStrategy<DeliveryState> {
    prop_oneof![
        (number(), any::<u64>()).prop_map(|(section_number, section_offset)| DeliveryState::Received {
            section_number,
            section_offset
        }),
        Just(DeliveryState::Accepted),
        Just(DeliveryState::Released),
        option::of(error()).prop_map(DeliveryState::Rejected),
        (any::<bool>(), any::<bool>(), fields()).prop_map(
            |(delivery_failed, undeliverable_here, message_annotations)| DeliveryState::Modified {
                delivery_failed,
                undeliverable_here,
                message_annotations,
            }
        ),
    ]
    .boxed()
}

pub(super) fn state() -> BoxedStrategy<DeliveryState> {
    prop_oneof![
        6 => outcome(),
        1 => txn_id().prop_map(|txn_id| DeliveryState::Declared { txn_id }),
        1 => (txn_id(), option::of(outcome())).prop_map(|(txn_id, outcome)| {
            DeliveryState::Transactional { txn_id, outcome: outcome.map(Box::new) }
        }),
    ]
    .boxed()
}

pub(super) fn txn_id() -> BoxedStrategy<Bytes> {
    proptest::collection::vec(any::<u8>(), 0..=32).prop_map(Bytes::from).boxed()
}

fn target() -> BoxedStrategy<Terminus> {
    ((option::of(text()), number(), option::of(symbol()), number(), any::<bool>()), (fields(), symbols()))
        .prop_map(|((address, durable, expiry_policy, timeout_s, dynamic), (properties, capabilities))| {
            Terminus {
                address,
                durable,
                expiry_policy,
                timeout_s,
                dynamic,
                dynamic_node_properties: properties,
                capabilities,
                ..Terminus::default()
            }
        })
        .boxed()
}

fn source() -> BoxedStrategy<Terminus> {
    (target(), option::of(symbol()), fields(), value(), symbols())
        .prop_map(|(target, distribution_mode, filter, default_outcome, outcomes)| Terminus {
            distribution_mode,
            filter,
            default_outcome,
            outcomes,
            ..target
        })
        .boxed()
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![Just(Role::Sender), Just(Role::Receiver)]
}

fn receiver_settle_mode() -> impl Strategy<Value = ReceiverSettleMode> {
    prop_oneof![Just(ReceiverSettleMode::First), Just(ReceiverSettleMode::Second)]
}

fn attach() -> BoxedStrategy<Attach> {
    use SenderSettleMode::{Mixed, Settled, Unsettled};
    let modes = prop_oneof![Just(Unsettled), Just(Settled), Just(Mixed)];
    let targets = prop_oneof![target().prop_map(Target::Node), symbols().prop_map(Target::Coordinator),];
    (
        (text(), number(), role(), modes, receiver_settle_mode()),
        (option::of(source()), option::of(targets), option::of(number()), option::of(any::<u64>())),
        (any::<bool>(), symbols(), symbols(), fields()),
    )
        .prop_map(
            |(
                (name, handle, role, snd, rcv),
                (source, target, count, size),
                (resumes, offered, desired, properties),
            )| {
                Attach {
                    name,
                    handle,
                    role,
                    snd_settle_mode: snd,
                    rcv_settle_mode: rcv,
                    source,
                    target,
                    resumes,
                    initial_delivery_count: count,
                    max_message_size: size,
                    offered_capabilities: offered,
                    desired_capabilities: desired,
                    properties,
                }
            },
        )
        .boxed()
}

pub(super) fn transfer() -> BoxedStrategy<Transfer> {
    let tag = vec(any::<u8>(), 0..=40).prop_map(Tag::from_vec);
    (
        (number(), option::of(number()), option::of(tag), option::of(number()), option::of(any::<bool>())),
        (any::<bool>(), option::of(receiver_settle_mode()), option::of(state())),
        (any::<bool>(), any::<bool>(), any::<bool>()),
    )
        .prop_map(
            |((handle, id, tag, format, settled), (more, mode, state), (resume, aborted, batchable))| {
                Transfer {
                    handle,
                    delivery_id: id,
                    delivery_tag: tag,
                    message_format: format,
                    settled,
                    more,
                    rcv_settle_mode: mode,
                    state: state.map(Box::new),
                    resume,
                    aborted,
                    batchable,
                }
            },
        )
        .boxed()
}

fn flow() -> BoxedStrategy<Flow> {
    (
        (option::of(number()), number(), number(), number()),
        (option::of(number()), option::of(number()), option::of(number()), option::of(number())),
        (any::<bool>(), any::<bool>(), fields()),
    )
        .prop_map(|((next_in, in_window, next_out, out_window), (handle, count, credit, available), rest)| {
            Flow {
                next_incoming_id: next_in,
                incoming_window: in_window,
                next_outgoing_id: next_out,
                outgoing_window: out_window,
                handle,
                delivery_count: count,
                link_credit: credit,
                available,
                drain: rest.0,
                echo: rest.1,
                properties: rest.2,
            }
        })
        .boxed()
}

fn open() -> BoxedStrategy<Open> {
    (
        (text(), option::of(text()), option::of(number()), option::of(any::<u16>()), option::of(number())),
        (symbols(), symbols(), fields()),
    )
        .prop_map(|((id, hostname, frame, channel, idle), (offered, desired, properties))| Open {
            container_id: id,
            hostname,
            max_frame_size: frame,
            channel_max: channel,
            idle_time_out_ms: idle,
            offered_capabilities: offered,
            desired_capabilities: desired,
            properties,
        })
        .boxed()
}

fn begin() -> BoxedStrategy<Begin> {
    (option::of(any::<u16>()), number(), number(), number(), option::of(number()), fields())
        .prop_map(
            |(remote_channel, next_outgoing_id, incoming_window, outgoing_window, handle_max, properties)| {
                Begin {
                    remote_channel,
                    next_outgoing_id,
                    incoming_window,
                    outgoing_window,
                    handle_max,
                    properties,
                }
            },
        )
        .boxed()
}

pub(super) fn performative() -> BoxedStrategy<Performative> {
    prop_oneof![
        open().prop_map(Performative::Open),
        begin().prop_map(Performative::Begin),
        attach().prop_map(|attach| Performative::Attach(Box::new(attach))),
        flow().prop_map(Performative::Flow),
        transfer().prop_map(Performative::Transfer),
        (role(), number(), option::of(number()), any::<bool>(), option::of(state()), any::<bool>()).prop_map(
            |(role, first, last, settled, state, batchable)| Performative::Disposition(Disposition {
                role,
                first,
                last,
                settled,
                state,
                batchable
            })
        ),
        (number(), any::<bool>(), option::of(error()))
            .prop_map(|(handle, closed, error)| Performative::Detach(Detach { handle, closed, error })),
        option::of(error()).prop_map(Performative::End),
        option::of(error()).prop_map(Performative::Close),
    ]
    .boxed()
}

pub(super) fn sasl_frame() -> impl Strategy<Value = SaslFrame> {
    prop_oneof![
        symbols().prop_map(SaslFrame::Mechanisms),
        (symbol(), option::of(binary()), option::of(text())).prop_map(
            |(mechanism, initial_response, hostname)| SaslFrame::Init {
                mechanism,
                initial_response,
                hostname
            }
        ),
        binary().prop_map(SaslFrame::Challenge),
        binary().prop_map(SaslFrame::Response),
        (0_u8..5, option::of(binary()))
            .prop_map(|(code, additional_data)| SaslFrame::Outcome { code, additional_data }),
    ]
}

pub(super) fn header() -> impl Strategy<Value = Header> {
    let flag = || option::of(any::<bool>());
    (flag(), option::of(any::<u8>()), option::of(number()), flag(), option::of(number())).prop_map(
        |(durable, priority, ttl_ms, first_acquirer, delivery_count)| Header {
            durable,
            priority,
            ttl_ms,
            first_acquirer,
            delivery_count,
        },
    )
}

pub(super) fn properties() -> BoxedStrategy<MessageProperties> {
    let time = || option::of(any::<i64>());
    (
        (primitive(), option::of(binary()), option::of(text()), option::of(text()), option::of(text())),
        (primitive(), option::of(symbol()), option::of(symbol()), time(), time()),
        (option::of(text()), option::of(number()), option::of(text())),
    )
        .prop_map(|(first, second, third)| MessageProperties {
            message_id: first.0,
            user_id: first.1,
            to: first.2,
            subject: first.3,
            reply_to: first.4,
            correlation_id: second.0,
            content_type: second.1,
            content_encoding: second.2,
            absolute_expiry_time_ms: second.3,
            creation_time_ms: second.4,
            group_id: third.0,
            group_sequence: third.1,
            reply_to_group_id: third.2,
        })
        .boxed()
}
