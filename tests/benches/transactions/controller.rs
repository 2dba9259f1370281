//! A transaction client with minimal encoding work.

use std::collections::VecDeque;

use peeklock_tests::client::{Client, disposition, flow, transactional};
use peeklock_tests::codec::{self, Value, code};
use peeklock_tests::wire::{DISPOSITION, TRANSFER, Wire, delivery_id, range};

/// Number of messages sent in a transaction, and number of messages completed.
pub(crate) const OPERATIONS: u32 = 10;

const COORDINATOR: u32 = 0;
const SENDER: u32 = 1;
const RECEIVER: u32 = 2;

/// One connection with a link to the coordinator, a sender and a receiver.
pub(crate) struct Controller<'a> {
    wire: Wire<'a>,
    message: Vec<u8>,
    next_delivery: u32,
    /// Deliveries received and not completed yet.
    received: VecDeque<u32>,
    delivery_count: u32,
}

impl<'a> Controller<'a> {
    pub(crate) fn attach(client: &'a mut Client, queue: &str) -> Self {
        client.attach_coordinator(COORDINATOR).unwrap().unwrap();
        client.attach_sender(SENDER, queue).unwrap().unwrap();
        client.attach_receiver(RECEIVER, queue, 2 * OPERATIONS).unwrap().unwrap();
        Self {
            wire: Wire::new(client.stream()),
            message: codec::data_message(&[b'x'; 1024]),
            next_delivery: 0,
            received: VecDeque::new(),
            delivery_count: 0,
        }
    }

    /// Declares a transaction, sends and completes, commits, and waits for the confirmation.
    pub(crate) fn transact(&mut self) {
        let declare = Value::composite(code::DECLARE, vec![Value::Null]);
        let declared = self.control(declare);
        let id = match declared.field(0) {
            Value::Binary(id) if declared.code() == Some(code::DECLARED) => id.clone(),
            _ => panic!("no transaction is declared: {declared:?}"),
        };
        while self.received.len() < OPERATIONS as usize {
            self.read(None);
        }
        for _ in 0..OPERATIONS {
            let message = std::mem::take(&mut self.message);
            self.transfer(SENDER, Some(transactional(&id, None)), &message);
            self.message = message;
            let delivery = self.received.pop_front().unwrap();
            let accepted = Value::composite(code::ACCEPTED, Vec::new());
            let state = transactional(&id, Some(accepted));
            let settlement = disposition(true, delivery, delivery, false, state);
            self.wire.put(&codec::frame(0, &settlement, &[]));
        }
        self.wire.put(&codec::frame(
            0,
            &flow(RECEIVER, self.delivery_count, 2 * OPERATIONS, false, false),
            &[],
        ));
        let commit = Value::composite(code::DISCHARGE, vec![Value::Binary(id), Value::Bool(false)]);
        assert_eq!(self.control(commit).code(), Some(code::ACCEPTED));
    }

    /// Sends a value to the coordinator and waits for the outcome.
    fn control(&mut self, value: Value) -> Value {
        let delivery = self.next_delivery;
        self.transfer(COORDINATOR, None, &codec::section(code::AMQP_VALUE, value));
        self.wire.flush();
        loop {
            if let Some(outcome) = self.read(Some(delivery)) {
                return outcome;
            }
        }
    }

    fn transfer(&mut self, handle: u32, state: Option<Value>, message: &[u8]) {
        let id = self.next_delivery;
        self.next_delivery += 1;
        let fields = vec![
            Value::Uint(handle),
            Value::Uint(id),
            Value::Binary(id.to_be_bytes().to_vec()),
            Value::Uint(0),
            Value::Bool(false),
            Value::Bool(false),
            Value::Null,
            state.unwrap_or(Value::Null),
        ];
        self.wire.put(&codec::frame(0, &Value::composite(code::TRANSFER, fields), message));
    }

    /// Reads once; returns the outcome of the client's delivery, if it has arrived.
    fn read(&mut self, awaited: Option<u32>) -> Option<Value> {
        let (received, delivery_count) = (&mut self.received, &mut self.delivery_count);
        let mut outcome = None;
        self.wire.read_frames(|code, mut frame| match code {
            TRANSFER => {
                received.push_back(delivery_id(frame).expect("deliveries of one frame"));
                *delivery_count += 1;
            }
            DISPOSITION if is_of_receiver(frame) => {
                let (first, last) = range(frame);
                if awaited.is_some_and(|delivery| (first..=last).contains(&delivery)) {
                    let Some(Value::List(fields)) = Value::decode(&mut frame) else {
                        panic!("a disposition")
                    };
                    outcome = fields.into_iter().nth(4);
                }
            }
            _ => {}
        });
        outcome
    }
}

/// Whether a disposition is for deliveries of the client: its role is the receiver's.
fn is_of_receiver(list: &[u8]) -> bool {
    list[if list[0] == 0xC0 { 3 } else { 9 }] == 0x41
}
