//! Frames of a client with transactions.

use bytes::Bytes;
use peeklock_amqp::wire::Value;
use peeklock_amqp::wire::performative::{Attach, DeliveryState, Performative, Role, Target, Terminus};
use peeklock_amqp::wire::performative::{ReceiverSettleMode, SenderSettleMode};
use peeklock_amqp::wire::transaction::Control;

use super::{Link, Script, Seen};

/// No address: the coordinator.
const COORDINATOR: usize = usize::MAX;

impl Script<'_> {
    /// Declares a transaction, or discharges the one declared last, or an unknown one.
    pub(super) fn control(&mut self, channel: u16, seen: &Seen) {
        let control = match self.byte() % 8 {
            0..=3 => Control::Declare { global_id: Value::Null },
            4 => Control::Declare { global_id: self.value(2) },
            5 | 6 => Control::Discharge { txn_id: seen.txn_id.clone(), fail: self.flag() },
            _ => {
                let txn_id = Bytes::copy_from_slice(self.raw());
                Control::Discharge { txn_id: txn_id.slice(..txn_id.len().min(32)), fail: self.flag() }
            }
        };
        self.coordinator(channel);
        self.transfer(channel, &[COORDINATOR], &control.encode());
    }

    /// A link to the coordinator, attached if necessary.
    fn coordinator(&mut self, channel: u16) {
        let session = self.session(channel);
        if session.links.iter().any(|link| link.node == COORDINATOR) {
            return;
        }
        let link = Link { handle: session.next_handle, role: Role::Sender, node: COORDINATOR };
        session.next_handle += 1;
        session.links.push(link);
        let attach = Attach {
            name: format!("coordinator {channel} {}", link.handle).into(),
            handle: link.handle,
            role: Role::Sender,
            snd_settle_mode: SenderSettleMode::Mixed,
            rcv_settle_mode: ReceiverSettleMode::First,
            source: Some(Terminus::default()),
            target: Some(Target::Coordinator(Vec::new())),
            resumes: false,
            initial_delivery_count: Some(0),
            max_message_size: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Vec::new(),
        };
        self.put(channel, &Performative::Attach(Box::new(attach)), b"");
    }

    /// The state for an operation in the transaction declared last.
    pub(super) fn work(seen: &Seen, outcome: Option<DeliveryState>) -> DeliveryState {
        let outcome = outcome.filter(|state| !matches!(state, DeliveryState::Transactional { .. }));
        DeliveryState::Transactional { txn_id: seen.txn_id.clone(), outcome: outcome.map(Box::new) }
    }
}
