//! The client's side of transactions (AMQP part 4): the link to the coordinator, and operations with a transactional
//! state.

use std::io;

use super::management::request_message;
use super::{Client, attach, disposition, transfer};
use crate::codec::{self, Value, code};

/// The state of an operation in a transaction, with the outcome of a settlement.
pub fn transactional(transaction: &[u8], outcome: Option<Value>) -> Value {
    let fields = vec![Value::Binary(transaction.to_vec()), outcome.unwrap_or(Value::Null)];
    Value::composite(code::TRANSACTIONAL_STATE, fields)
}

/// A transfer performative of one frame with a state; more frames may follow.
fn transfer_in(handle: u32, id: u32, format: u32, more: bool, state: Value) -> Value {
    let Value::Described(descriptor, fields) = transfer(handle, id, format, more) else { unreachable!() };
    let Value::List(mut fields) = *fields else { unreachable!() };
    fields.extend([Value::Null, state]);
    Value::Described(descriptor, Box::new(Value::List(fields)))
}

impl Client {
    /// Attaches a link to the transaction coordinator; returns the error of the detach when refused.
    pub fn attach_coordinator(&mut self, handle: u32) -> io::Result<Result<(), Value>> {
        let target = Value::composite(code::COORDINATOR, vec![Value::Null]);
        self.say(&attach(handle, &format!("sender-{handle}"), false, Value::Null, target))?;
        self.attached(handle)
    }

    /// Sends a value to the coordinator and waits for the outcome.
    pub fn control(&mut self, handle: u32, value: Value) -> io::Result<Value> {
        self.send(handle, &codec::section(code::AMQP_VALUE, value))
    }

    /// Declares a transaction and returns its id.
    ///
    /// # Panics
    /// When it is refused.
    pub fn declare(&mut self, handle: u32) -> io::Result<Vec<u8>> {
        let outcome = self.control(handle, Value::composite(code::DECLARE, vec![Value::Null]))?;
        match outcome.field(0) {
            Value::Binary(id) if outcome.code() == Some(code::DECLARED) => Ok(id.clone()),
            _ => panic!("no transaction is declared: {outcome:?}"),
        }
    }

    /// Ends a transaction; returns the outcome.
    pub fn discharge(&mut self, handle: u32, transaction: &[u8], fail: bool) -> io::Result<Value> {
        let id = self.discharge_later(handle, transaction, fail)?;
        self.outcome(id, true)
    }

    /// Sends the discharge of a transaction, without waiting; returns the delivery id.
    pub fn discharge_later(&mut self, handle: u32, transaction: &[u8], fail: bool) -> io::Result<u32> {
        let fields = vec![Value::Binary(transaction.to_vec()), Value::Bool(fail)];
        let message = codec::section(code::AMQP_VALUE, Value::composite(code::DISCHARGE, fields));
        self.transfer(handle, &message, 0)
    }

    /// Writes one frame of a delivery with this state, without waiting; returns its delivery id. Without `more` it is
    /// the last frame.
    pub fn transfer_in(
        &mut self,
        handle: u32,
        message: &[u8],
        format: u32,
        more: bool,
        state: Value,
    ) -> io::Result<u32> {
        let id = self.next_delivery;
        self.next_delivery = id.wrapping_add(u32::from(!more));
        self.write(&codec::frame(0, &transfer_in(handle, id, format, more, state), message))?;
        Ok(id)
    }

    /// Sends a message in a transaction; returns the outcome.
    pub fn send_in(&mut self, handle: u32, message: &[u8], transaction: &[u8]) -> io::Result<Value> {
        let id = self.transfer_in(handle, message, 0, false, transactional(transaction, None))?;
        self.outcome(id, true)
    }

    /// Settles a delivery in a transaction; returns the state of the provisional answer.
    pub fn settle_in(&mut self, delivery: u32, transaction: &[u8], outcome: Value) -> io::Result<Value> {
        let state = transactional(transaction, Some(outcome));
        self.say(&disposition(true, delivery, delivery, false, state))?;
        self.provisional(delivery)
    }

    /// Waits for a provisional (unsettled) answer to a settlement; returns its state.
    pub fn provisional(&mut self, delivery: u32) -> io::Result<Value> {
        self.wait(|frame| {
            let ours = frame.is(code::DISPOSITION) && *frame.field(0) == Value::Bool(false);
            let covered =
                frame.field(1).integer()?..=frame.field(2).integer().or(frame.field(1).integer())?;
            let provisional = ours && *frame.field(3) != Value::Bool(true);
            (provisional && covered.contains(&i64::from(delivery))).then(|| frame.field(4).clone())
        })
    }

    /// Sends a management request in a transaction; returns status code and body of the answer.
    pub fn request_in(
        &mut self,
        handle: u32,
        operation: &str,
        body: Value,
        transaction: &[u8],
    ) -> io::Result<(i64, Value)> {
        let message = request_message(handle, operation, body);
        self.send_in(handle, &message, transaction)?;
        self.answer(handle)
    }
}
