//! The additional cost of a topic over a queue: reading the properties for rules, and writing copies changed by
//! actions.
//!
//! `cargo bench -p peeklock-message --bench copies`.

#![allow(missing_docs, clippy::unwrap_used)] // reason: a benchmark may panic

use std::hint::black_box;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, criterion_group, criterion_main};
use peeklock_engine::{
    MessageView, PropertyChanges, PropertyValue, QueueId, Received, SequenceNumber, TextProperty, Timestamp,
};
use peeklock_message::delivery::{DeliveryFormat, Encoder, Origin};
use peeklock_message::submission::{RequiredProperties, read_message};
use peeklock_wire::Value;
use peeklock_wire::message::{
    Header, MessageProperties, encode_application_properties, encode_body_value, encode_message_annotations,
};

/// A message of 1 KB as encoded by the SDKs, with `properties` application properties, every other one a number.
fn message(properties: u8) -> Bytes {
    let mut output = BytesMut::new();
    Header::default().encode(&mut output);
    encode_message_annotations(
        &[(Value::symbol("x-opt-partition-key"), Value::String("eu".into()))],
        &mut output,
    );
    MessageProperties {
        message_id: Value::String("0123456789abcdef0123456789abcdef".into()),
        subject: Some("order".into()),
        correlation_id: Value::String("c".into()),
        content_type: Some("application/json".into()),
        ..MessageProperties::default()
    }
    .encode(&mut output);
    let value = |number: u8| match number % 2 {
        0 => Value::Int(number.into()),
        _ => Value::String("north".into()),
    };
    let entries: Vec<(Value, Value)> = (0..properties)
        .map(|number| (Value::String(format!("property{number}").into()), value(number)))
        .collect();
    encode_application_properties(&entries, &mut output);
    encode_body_value(&Value::Binary(vec![0; 1024].into()), &mut output);
    output.freeze()
}

fn reading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read");
    for properties in [2, 10] {
        let sent = message(properties);
        for (name, rule_properties) in [("queue", false), ("topic", true)] {
            let wanted = RequiredProperties { rule_properties, ..RequiredProperties::default() };
            group.bench_function(format!("{name}/{properties}"), |bencher| {
                bencher.iter(|| read_message(black_box(&sent), wanted, &mut || 1).unwrap());
            });
        }
    }
    group.finish();
}

fn received(changes: Option<PropertyChanges>) -> Received {
    let view = MessageView {
        enqueued_at: Timestamp(1000),
        changes: changes.map(Arc::new),
        ..MessageView::new(QueueId(1), SequenceNumber(5))
    };
    Received { view, content: message(10), lock: None }
}

fn writing(criterion: &mut Criterion) {
    let mut named = PropertyChanges::default();
    named.set_user("RuleName", Some(PropertyValue::Text("important".into())));
    let mut relabelled = named.clone();
    relabelled.set_text(TextProperty::Label, Some("urgent".into()));
    let mut group = criterion.benchmark_group("write");
    for (name, changes) in [("unchanged", None), ("named", Some(named)), ("relabelled", Some(relabelled))] {
        let (received, mut encoder) = (received(changes), Encoder::default());
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                encoder.encode(black_box(&received), DeliveryFormat::Link, Origin::default()).unwrap()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, reading, writing);
criterion_main!(benches);
