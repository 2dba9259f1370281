//! AMQP values and messages as text: one line each, including types, so that two are equal if and only if their texts
//! are.

use std::fmt::Write;

use jiff::Timestamp;

use crate::codec::Value;

/// Length of a binary from which on a repeated byte is written once, with its count.
const REPEATED_BYTES_MIN: usize = 64;

/// Codes, names and fields of the composites that the specification defines.
const COMPOSITES: &[(u64, &str, &str)] = &[
    (
        0x10,
        "open",
        "container-id hostname max-frame-size channel-max idle-time-out outgoing-locales incoming-locales \
         offered-capabilities desired-capabilities properties",
    ),
    (
        0x11,
        "begin",
        "remote-channel next-outgoing-id incoming-window outgoing-window handle-max offered-capabilities \
         desired-capabilities properties",
    ),
    (
        0x12,
        "attach",
        "name handle role snd-settle-mode rcv-settle-mode source target unsettled incomplete-unsettled \
         initial-delivery-count max-message-size offered-capabilities desired-capabilities properties",
    ),
    (
        0x13,
        "flow",
        "next-incoming-id incoming-window next-outgoing-id outgoing-window handle delivery-count link-credit \
         available drain echo properties",
    ),
    (
        0x14,
        "transfer",
        "handle delivery-id delivery-tag message-format settled more rcv-settle-mode state resume aborted \
         batchable",
    ),
    (0x15, "disposition", "role first last settled state batchable"),
    (0x16, "detach", "handle closed error"),
    (0x17, "end", "error"),
    (0x18, "close", "error"),
    (0x1d, "error", "condition description info"),
    (0x23, "received", "section-number section-offset"),
    (0x24, "accepted", ""),
    (0x25, "rejected", "error"),
    (0x26, "released", ""),
    (0x27, "modified", "delivery-failed undeliverable-here message-annotations"),
    (
        0x28,
        "source",
        "address durable expiry-policy timeout dynamic dynamic-node-properties distribution-mode filter \
         default-outcome outcomes capabilities",
    ),
    (0x29, "target", "address durable expiry-policy timeout dynamic dynamic-node-properties capabilities"),
    (0x30, "coordinator", "capabilities"),
    (0x31, "declare", "global-id"),
    (0x32, "discharge", "txn-id fail"),
    (0x33, "declared", "txn-id"),
    (0x34, "transactional-state", "txn-id outcome"),
    (0x40, "sasl-mechanisms", "sasl-server-mechanisms"),
    (0x44, "sasl-outcome", "code additional-data"),
    (0x70, "header", "durable priority ttl first-acquirer delivery-count"),
    (
        0x73,
        "properties",
        "message-id user-id to subject reply-to correlation-id content-type content-encoding \
         absolute-expiry-time creation-time group-id group-sequence reply-to-group-id",
    ),
];

/// Codes and names of a message's sections that are not composites.
const SECTIONS: &[(u64, &str)] = &[
    (0x71, "delivery-annotations"),
    (0x72, "message-annotations"),
    (0x74, "application-properties"),
    (0x75, "data"),
    (0x76, "sequence"),
    (0x77, "value"),
    (0x78, "footer"),
];

/// A value with its type.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(yes) => yes.to_string(),
        Value::Ubyte(number) => format!("{number}:ubyte"),
        Value::Ushort(number) => format!("{number}:ushort"),
        Value::Uint(number) => format!("{number}:uint"),
        Value::Ulong(number) => format!("{number}:ulong"),
        Value::Int(number) => format!("{number}:int"),
        Value::Long(number) => format!("{number}:long"),
        Value::Timestamp(milliseconds) => instant(*milliseconds),
        Value::Uuid(bytes) => format!("uuid'{}'", hyphenated(bytes)),
        Value::Binary(bytes) => binary(bytes),
        Value::String(text) => quoted(text),
        Value::Symbol(text) => format!(":{text}"),
        Value::List(items) => format!("[{}]", joined(items.iter().map(self::value))),
        Value::Map(pairs) => map(pairs),
        Value::Array(items) => format!("array[{}]", joined(items.iter().map(self::value))),
        Value::Described(descriptor, inner) => described(value, descriptor, inner),
        Value::Other(constructor, bytes) => other(*constructor, bytes),
    }
}

/// The present fields of a performative, each as `name=value`, except those in `without`.
pub(super) fn fields(performative: &Value, without: &[&str]) -> Vec<String> {
    let Some((_, names)) = performative.code().and_then(composite) else { return Vec::new() };
    let present = names.split_whitespace().enumerate().filter_map(|(place, name)| {
        let value = performative.field(place);
        let is_shown = *value != Value::Null && !without.contains(&name);
        is_shown.then(|| format!("{name}={}", field(name, value)))
    });
    present.collect()
}

/// The name of a performative.
pub(super) fn name(performative: &Value) -> Option<&'static str> {
    performative.code().and_then(composite).map(|(name, _)| name)
}

/// The sections of a message; `None` when the bytes are not a message.
pub(super) fn message(mut bytes: &[u8]) -> Option<String> {
    let mut texts = Vec::new();
    while !bytes.is_empty() {
        let section = Value::decode(&mut bytes)?;
        let is_known = (0x70..=0x78).contains(&section.code()?);
        texts.push(is_known.then(|| self::value(&section))?);
    }
    (!texts.is_empty()).then(|| texts.join(" "))
}

/// Milliseconds since 1970 as a date, if it is in the calendar's range.
fn instant(milliseconds: i64) -> String {
    match Timestamp::from_millisecond(milliseconds) {
        Ok(instant) if milliseconds > -62_135_596_800_001 => format!("{instant:.3}"),
        _ => format!("{milliseconds}:timestamp"),
    }
}

/// A UUID's usual form.
fn hyphenated(bytes: &[u8; 16]) -> String {
    let hex = hexadecimal(bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

fn composite(code: u64) -> Option<(&'static str, &'static str)> {
    COMPOSITES.iter().find(|(known, ..)| *known == code).map(|(_, name, fields)| (*name, *fields))
}

/// A field's value: the type of a number is known from the field, and ids are never text.
fn field(name: &str, value: &Value) -> String {
    match (name, value) {
        ("role", Value::Bool(is_receiver)) => ["sender", "receiver"][usize::from(*is_receiver)].to_owned(),
        ("snd-settle-mode", Value::Ubyte(mode)) => {
            ["unsettled", "settled", "mixed"].get(usize::from(*mode)).copied().unwrap_or("?").to_owned()
        }
        ("rcv-settle-mode", Value::Ubyte(mode)) => {
            ["first", "second"].get(usize::from(*mode)).copied().unwrap_or("?").to_owned()
        }
        ("delivery-tag" | "txn-id", Value::Binary(bytes)) => format!("x'{}'", hexadecimal(bytes)),
        (_, Value::Ubyte(number)) => number.to_string(),
        (_, Value::Ushort(number)) => number.to_string(),
        (_, Value::Uint(number)) => number.to_string(),
        _ => self::value(value),
    }
}

fn described(whole: &Value, descriptor: &Value, inner: &Value) -> String {
    let code = whole.code();
    if let (Some((name, _)), Value::List(_)) = (code.and_then(composite), inner) {
        return format!("{name}{{{}}}", fields(whole, &[]).join(", "));
    }
    match SECTIONS.iter().find(|(known, _)| Some(*known) == code) {
        Some((_, name)) => format!("{name}({})", value(inner)),
        None => {
            let descriptor = match descriptor {
                Value::Ulong(code) => format!("{code:#x}"),
                other => value(other),
            };
            format!("@{descriptor}({})", value(inner))
        }
    }
}

/// A map, with its keys sorted by text: their order on the wire has no meaning.
fn map(pairs: &[(Value, Value)]) -> String {
    let mut texts: Vec<String> =
        pairs.iter().map(|(key, item)| format!("{}: {}", value(key), value(item))).collect();
    texts.sort();
    format!("{{{}}}", texts.join(", "))
}

/// Text if it is text, a message if it is one, otherwise the bytes.
fn binary(bytes: &[u8]) -> String {
    if let Some(first) = bytes.first()
        && bytes.len() >= REPEATED_BYTES_MIN
        && bytes.iter().all(|byte| byte == first)
    {
        return format!("x'{first:02x}'*{}", bytes.len());
    }
    if let Some(text) = message(bytes) {
        return format!("<{text}>");
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && bytes.iter().all(|byte| (0x20..0x7f).contains(byte)) => {
            format!("b{}", quoted(text))
        }
        _ => format!("x'{}'", hexadecimal(bytes)),
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => write!(out, "\\u{:04x}", u32::from(letter)).unwrap(),
            letter => out.push(letter),
        }
    }
    out + "\""
}

/// Types that the codec keeps as bytes.
fn other(constructor: u8, bytes: &[u8]) -> String {
    match (constructor, bytes) {
        (0x51, [byte]) => format!("{}:byte", byte.cast_signed()),
        (0x61, [a, b]) => format!("{}:short", i16::from_be_bytes([*a, *b])),
        (0x72, [a, b, c, d]) => format!("{:?}:float", f32::from_be_bytes([*a, *b, *c, *d])),
        (0x82, _) if bytes.len() == 8 => {
            format!("{:?}:double", f64::from_be_bytes(bytes.try_into().unwrap()))
        }
        (0x73, [a, b, c, d]) => match char::from_u32(u32::from_be_bytes([*a, *b, *c, *d])) {
            Some(letter) => format!("{}:char", quoted(&letter.to_string())),
            None => format!("x'{}':char", hexadecimal(bytes)),
        },
        (0x94, _) => format!("x'{}':decimal128", hexadecimal(bytes)),
        _ => format!("x'{}':{constructor:#04x}", hexadecimal(bytes)),
    }
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<String>>().join(", ")
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
