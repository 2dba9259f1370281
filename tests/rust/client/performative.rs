//! Performatives with the minimum of fields, or with errors for tests.

use crate::codec::{Value, code};

/// An open performative with the minimum of fields.
pub fn open() -> Value {
    Value::composite(
        code::OPEN,
        vec![Value::string("plain"), Value::string("localhost"), Value::Uint(1 << 20)],
    )
}

/// A begin performative with large windows.
pub fn begin() -> Value {
    Value::composite(
        code::BEGIN,
        vec![
            Value::Null,
            Value::Uint(0),
            Value::Uint(i32::MAX.unsigned_abs()),
            Value::Uint(i32::MAX.unsigned_abs()),
        ],
    )
}

/// A source or target with an address.
pub fn terminus(code: u64, address: &str) -> Value {
    Value::composite(code, vec![Value::string(address)])
}

/// A source with a filter for a session name.
pub fn session_source(address: &str, session: &str) -> Value {
    let filter = vec![(Value::symbol("com.microsoft:session-filter"), Value::string(session))];
    let mut fields = vec![Value::string(address)];
    fields.resize(7, Value::Null);
    fields.push(Value::Map(filter));
    Value::composite(code::SOURCE, fields)
}

/// An attach performative: unsettled, and with rcv-settle-mode second for a receiver.
pub fn attach(handle: u32, name: &str, is_receiver: bool, source: Value, target: Value) -> Value {
    let source = if source == Value::Null { terminus(code::SOURCE, name) } else { source };
    Value::composite(
        code::ATTACH,
        vec![
            Value::string(name),
            Value::Uint(handle),
            Value::Bool(is_receiver),
            Value::Ubyte(0),
            Value::Ubyte(u8::from(is_receiver)),
            source,
            target,
            Value::Null,
            Value::Bool(false),
            if is_receiver { Value::Null } else { Value::Uint(0) },
        ],
    )
}

/// Changes the attach of a receiver to receive-and-delete mode.
pub fn unlocked(mut attach: Value) -> Value {
    if let Value::Described(_, fields) = &mut attach
        && let Value::List(fields) = &mut **fields
    {
        fields[3] = Value::Ubyte(1);
    }
    attach
}

/// A flow performative of a receiving link.
pub fn flow(handle: u32, delivery_count: u32, credit: u32, drain: bool, echo: bool) -> Value {
    Value::composite(
        code::FLOW,
        vec![
            Value::Uint(delivery_count),
            Value::Uint(i32::MAX.unsigned_abs()),
            Value::Uint(0),
            Value::Uint(i32::MAX.unsigned_abs()),
            Value::Uint(handle),
            Value::Uint(delivery_count),
            Value::Uint(credit),
            Value::Null,
            Value::Bool(drain),
            Value::Bool(echo),
        ],
    )
}

/// A transfer performative of an unsettled delivery whose tag is its id.
pub fn transfer(handle: u32, id: u32, format: u32, more: bool) -> Value {
    Value::composite(
        code::TRANSFER,
        vec![
            Value::Uint(handle),
            Value::Uint(id),
            Value::Binary(id.to_be_bytes().to_vec()),
            Value::Uint(format),
            Value::Bool(false),
            Value::Bool(more),
        ],
    )
}

/// A disposition performative.
pub fn disposition(is_receiver: bool, first: u32, last: u32, settled: bool, state: Value) -> Value {
    Value::composite(
        code::DISPOSITION,
        vec![Value::Bool(is_receiver), Value::Uint(first), Value::Uint(last), Value::Bool(settled), state],
    )
}
