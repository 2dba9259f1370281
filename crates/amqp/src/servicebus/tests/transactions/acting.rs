//! Actions of a client with transactions, and answers of the engine.

use bytes::Bytes;
use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, Refusal, SequenceNumber, SettleFailure};
use smallvec::SmallVec;

use super::super::entities::Work;
use super::super::harness::{Harness, message, plain_attach};
use crate::endpoint::{Event, IncomingId, LinkId, Outgoing};
use crate::wire::Value;
use crate::wire::performative::{Attach, DeliveryState, Role, Target};
use crate::wire::transaction::Control;

/// An attach as .NET's transaction controller sends it.
pub(super) fn coordinator_attach(name: &str) -> Attach {
    Attach {
        target: Some(Target::Coordinator(Vec::new())),
        ..plain_attach(name, Role::Sender, name, "nowhere")
    }
}

pub(super) fn in_transaction(txn_id: &Bytes, outcome: Option<DeliveryState>) -> DeliveryState {
    DeliveryState::Transactional { txn_id: txn_id.clone(), outcome: outcome.map(Box::new) }
}

/// The condition of a state's error; for a transactional state, of its outcome.
pub(super) fn condition(state: &DeliveryState) -> String {
    match state {
        DeliveryState::Rejected(Some(error)) => error.condition.to_string(),
        DeliveryState::Transactional { outcome: Some(outcome), .. } => condition(outcome),
        other => panic!("{other:?} is no refusal"),
    }
}

impl Harness {
    /// A new AMQP session for the links that follow.
    pub(super) fn on_a_session_of_its_own(&mut self) {
        self.session = self.client.begin().unwrap();
    }

    pub(super) fn coordinator(&mut self) -> LinkId {
        let name = self.next_link_name();
        let link = self.attach(coordinator_attach(&name));
        assert!(self.refusal().is_none(), "accepted");
        link
    }

    /// Sends a message to the coordinator and returns the outcome, if it comes at once.
    pub(super) fn control(&mut self, coordinator: LinkId, control: &Control) -> Option<DeliveryState> {
        self.send(coordinator, false, 0, control.encode());
        self.outcome()
    }

    pub(super) fn declare(&mut self, coordinator: LinkId) -> Bytes {
        match self.control(coordinator, &Control::Declare { global_id: Value::Null }) {
            Some(DeliveryState::Declared { txn_id }) => txn_id,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn discharge(
        &mut self,
        coordinator: LinkId,
        txn_id: &Bytes,
        fail: bool,
    ) -> Option<DeliveryState> {
        self.control(coordinator, &Control::Discharge { txn_id: txn_id.clone(), fail })
    }

    /// Requests the commit; returns its tag and its parts.
    pub(super) fn commit(&mut self, coordinator: LinkId, txn_id: &Bytes) -> (u64, Vec<Work>) {
        assert_eq!(self.discharge(coordinator, txn_id, false), None, "not before it is durable");
        let mut commits = self.commits();
        assert_eq!(commits.len(), 1, "{commits:?}");
        commits.remove(0)
    }

    pub(super) fn committed(&mut self, tag: u64, result: Result<(), Refusal>) {
        self.answer(Some(tag), Response::Done(result));
    }

    /// Sends a message in a transaction.
    pub(super) fn send_work(&mut self, link: LinkId, txn_id: &Bytes, text: &str) {
        self.send_work_of(link, txn_id, message(text));
    }

    pub(super) fn send_work_of(&mut self, link: LinkId, txn_id: &Bytes, payload: Bytes) {
        let payload = [payload].into_iter().collect();
        let outgoing = Outgoing { tag: Some([7; 16]), settled: false, message_format: 0, payload };
        self.client.send_with_state(link, outgoing, in_transaction(txn_id, None)).unwrap();
        self.pump();
    }

    /// The only command that the engine got.
    pub(super) fn asked(&mut self) -> (Option<u64>, Command) {
        match self.command() {
            (tag, Command::Provisional(command)) => (tag, *command),
            other => panic!("{other:?}"),
        }
    }

    /// Lets the engine answer that the provisional command would succeed.
    pub(super) fn agree(&mut self) -> Command {
        let (tag, command) = self.asked();
        self.answer(tag, Response::Provisional(Ok(SmallVec::new())));
        command
    }

    /// [`Self::agree`] with sequence numbers for scheduled messages.
    pub(super) fn agree_with(&mut self, numbers: &[u64]) -> Command {
        let (tag, command) = self.asked();
        let numbers = numbers.iter().copied().map(SequenceNumber).collect();
        self.answer(tag, Response::Provisional(Ok(numbers)));
        command
    }

    /// Lets the engine refuse the provisional command.
    pub(super) fn object(&mut self, refusal: Refusal) {
        let (tag, command) = self.asked();
        self.answer(
            tag,
            match command {
                Command::Settle { .. } => Response::Settled(vec![SettleFailure { index: 0, refusal }]),
                _ => Response::Provisional(Err(refusal)),
            },
        );
    }

    /// Sends a message in a transaction, which is accepted.
    pub(super) fn sent_work(&mut self, link: LinkId, txn_id: &Bytes, text: &str) {
        self.send_work(link, txn_id, text);
        self.agree();
        assert_eq!(self.outcome(), Some(in_transaction(txn_id, Some(DeliveryState::Accepted))));
    }

    /// Sends the client's outcome for a delivery, unsettled as the SDKs do.
    pub(super) fn stand(&mut self, id: IncomingId, state: DeliveryState) {
        self.client.update_incoming(id, state);
        self.pump();
    }

    /// A delivery received under the lock of that number.
    pub(super) fn received(
        &mut self,
        link: LinkId,
        receiver: peeklock_engine::ReceiverId,
        number: u64,
    ) -> IncomingId {
        self.client.set_credit(link, 10, false);
        self.pump();
        self.commands();
        self.deliver(receiver, number);
        let (id, ..) = self.messages().remove(0);
        self.commands();
        id
    }

    /// Sends an outcome for a delivery in a transaction; the answer is not settled.
    pub(super) fn settled_work(
        &mut self,
        id: IncomingId,
        txn_id: &Bytes,
        outcome: DeliveryState,
    ) -> DeliveryState {
        self.stand(id, in_transaction(txn_id, Some(outcome)));
        self.agree();
        self.updated(id)
    }

    /// The broker's state of a delivery, not settled.
    pub(super) fn updated(&mut self, wanted: IncomingId) -> DeliveryState {
        let events = self.events();
        match &events[..] {
            [Event::Updated { id, state }] if *id == wanted => state.clone(),
            _ => panic!("{events:?}"),
        }
    }

    /// The states with which the broker settled its deliveries and our outcomes, in the order of arrival.
    pub(super) fn settled(&mut self) -> Vec<DeliveryState> {
        let events = self.events().into_iter().filter_map(|event| match event {
            Event::Settled { state, .. } | Event::Disposition { state, settled: true, .. } => state,
            _ => None,
        });
        events.collect()
    }
}
