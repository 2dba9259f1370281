//! Sections of a message that are composites.

use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::message::{Header, MessageProperties};

pub(in crate::tests) fn header() -> impl Strategy<Value = Header> {
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

pub(in crate::tests) fn properties() -> BoxedStrategy<MessageProperties> {
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
