//! Requests to management nodes.

use std::io;

use super::{Client, sequence_number};
use crate::codec::{self, Value, code};

impl Client {
    /// Attaches the pair of links to `entity/$management`, with the handles `handle` and `handle + 1`.
    pub fn attach_management(&mut self, handle: u32, entity: &str) -> io::Result<()> {
        let node = format!("{entity}/$management");
        self.attach_sender(handle, &node)?.expect("$management takes requests");
        self.attach_receiver(handle + 1, &node, 1_000)?.expect("$management sends answers");
        Ok(())
    }

    /// Sends a request on links attached by [`Self::attach_management`]; returns status code and body of the answer, or
    /// an error when the request message itself is refused.
    pub fn request(&mut self, handle: u32, operation: &str, body: Value) -> io::Result<(i64, Value)> {
        let message = request_message(handle, operation, body);
        let outcome = self.send(handle, &message)?;
        if outcome.code() != Some(code::ACCEPTED) {
            return Err(io::Error::other(format!("the request got the outcome {outcome:?}")));
        }
        self.answer(handle)
    }

    /// Status code and body of the next answer.
    pub(super) fn answer(&mut self, handle: u32) -> io::Result<(i64, Value)> {
        let answer = codec::sections(&self.receive(handle + 1)?.message);
        let section = |code| answer.iter().find(|section| section.code() == Some(code)).map(Value::inner);
        let status = section(code::APPLICATION_PROPERTIES).and_then(|map| map.get("statusCode")).unwrap();
        Ok((status.integer().unwrap(), section(code::AMQP_VALUE).cloned().unwrap_or(Value::Null)))
    }

    /// Browses the whole entity; returns the encoded messages.
    pub fn browse(&mut self, handle: u32) -> io::Result<Vec<Vec<u8>>> {
        let mut found: Vec<Vec<u8>> = Vec::new();
        loop {
            let from = found.last().map_or(1, |message| sequence_number(message) + 1);
            let body = Value::Map(vec![
                (Value::string("from-sequence-number"), Value::Long(from)),
                (Value::string("message-count"), Value::Int(1_000)),
            ]);
            let (status, answer) = self.request(handle, "com.microsoft:peek-message", body)?;
            if status == 204 {
                return Ok(found);
            }
            assert_eq!(status, 200);
            let Some(Value::List(messages)) = answer.get("messages") else {
                panic!("no messages in {answer:?}")
            };
            found.extend(messages.iter().map(|entry| match entry.get("message") {
                Some(Value::Binary(message)) => message.clone(),
                other => panic!("no message but {other:?}"),
            }));
        }
    }
}

/// A request to a management node, whose answer arrives on the link `handle + 1`.
pub(super) fn request_message(handle: u32, operation: &str, body: Value) -> Vec<u8> {
    let reply_to = Value::string(format!("receiver-{}", handle + 1));
    let properties = vec![Value::Ulong(1), Value::Null, Value::Null, Value::Null, reply_to];
    let application = vec![(Value::string("operation"), Value::string(operation))];
    [
        Value::composite(code::PROPERTIES, properties).encode(),
        codec::section(code::APPLICATION_PROPERTIES, Value::Map(application)),
        codec::section(code::AMQP_VALUE, body),
    ]
    .concat()
}
