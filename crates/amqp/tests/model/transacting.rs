//! Transactions of the client: what is sent and settled in them has its effect at the commit, together or not at all.

use bytes::Bytes;
use peeklock_amqp::wire::Value;
use peeklock_amqp::wire::performative::{DeliveryState, Tag, Transfer};
use peeklock_amqp::wire::transaction::Control;

use super::client::Client;
use super::link::{Delivery, Expected, Link, Purpose, Sends, Sent, Side};
use super::messages::{DeliveryNumber, Place, Verdict};

pub(crate) struct Transaction {
    /// The link that declared it.
    coordinator: usize,
    /// Given by the broker.
    pub(crate) id: Option<Bytes>,
    is_open: bool,
    /// Whether its coordinator link has ended before it was discharged.
    is_lost: bool,
    /// Whether some of its work was refused: it can only be rolled back.
    has_failed: bool,
    sent: Vec<u32>,
    settled: Vec<(u32, DeliveryNumber, Verdict)>,
    /// Deliveries of these that the client has settled: abandoned if the transaction is rolled back.
    pub(crate) settled_by_client: Vec<(u32, DeliveryNumber)>,
}

impl Transaction {
    /// Whether work that was valid may be refused, because it was not answered before the transaction had failed.
    pub(crate) fn may_refuse(&self) -> bool {
        self.is_lost || self.has_failed
    }
}

pub(crate) fn in_transaction(id: &Bytes, outcome: Option<DeliveryState>) -> DeliveryState {
    DeliveryState::Transactional { txn_id: id.clone(), outcome: outcome.map(Box::new) }
}

impl Client<'_> {
    pub(crate) fn attach_coordinator(&mut self, number: u8) {
        let Some(session) = self.pick_session(number) else { return };
        let side = Sends { delivery_count: 0, credit: 0, is_doomed: false, coordinates: true, partial: None };
        if let Some(key) = self.add_link(session, Side::Sends(side), None) {
            self.say_attach(key, false, "client");
        }
    }

    /// An open transaction whose id is known, chosen by a number. If there is none, one is declared, or a link for that
    /// attached, for later steps.
    pub(crate) fn pick_transaction(&mut self, number: u8) -> Option<(usize, Bytes)> {
        let open = self.transactions.iter().enumerate().filter(|(_, transaction)| transaction.is_open);
        let open: Vec<_> =
            open.filter_map(|(key, transaction)| Some((key, transaction.id.clone()?))).collect();
        if open.is_empty() {
            self.declare(number);
            return None;
        }
        Some(open[usize::from(number) % open.len()].clone())
    }

    pub(crate) fn declare(&mut self, number: u8) {
        let has_credit = |link: &mut Link| link.coordinates().is_some_and(|side| side.credit > 0);
        let Some(coordinator) = self.pick_link(number, has_credit) else {
            if self.pick_link(number, |link| link.coordinates().is_some()).is_none() {
                self.attach_coordinator(number);
            }
            return;
        };
        let (sent, settled, settled_by_client) = Default::default();
        let transaction = Transaction {
            coordinator,
            id: None,
            is_open: true,
            is_lost: false,
            has_failed: false,
            sent,
            settled,
            settled_by_client,
        };
        let purpose = Purpose::Declare(self.transactions.len());
        self.transactions.push(transaction);
        let sent = Sent { link: coordinator, messages: Vec::new(), is_valid: true, purpose };
        self.control(sent, &Control::Declare { global_id: Value::Null });
    }

    pub(crate) fn discharge(&mut self, number: u8, fail: bool) {
        let Some((number, txn_id)) = self.pick_transaction(number) else { return };
        let coordinator = self.transactions[number].coordinator;
        if self.links[coordinator].coordinates().is_none_or(|side| side.credit == 0) {
            return;
        }
        let transaction = &self.transactions[number];
        let holds = |(message, delivery, _): &(u32, _, _)| self.messages.holds(*message, *delivery);
        let is_sound = !transaction.has_failed && transaction.settled.iter().all(holds);
        let messages = if is_sound && !fail { self.commit(number) } else { Vec::new() };
        self.end_transaction(number);
        let is_valid = fail || is_sound;
        let sent = Sent { link: coordinator, messages, is_valid, purpose: Purpose::Discharge };
        self.control(sent, &Control::Discharge { txn_id, fail });
    }

    /// Carries out a transaction; returns its messages, which may be delivered from now on.
    fn commit(&mut self, number: usize) -> Vec<u32> {
        let transaction = &mut self.transactions[number];
        let messages = std::mem::take(&mut transaction.sent);
        for &id in &messages {
            self.messages.set(id, Place::Sent);
        }
        for (message, delivery, verdict) in std::mem::take(&mut transaction.settled) {
            self.messages.settle(message, delivery, verdict);
        }
        // The broker settles these deliveries before it answers the discharge.
        for session in &mut self.sessions {
            for delivery in session.unsettled.values_mut().filter(|delivery| delivery.work == Some(number)) {
                delivery.is_committed = true;
            }
        }
        messages
    }

    /// What was sent and not committed is gone; deliveries can be settled again.
    fn end_transaction(&mut self, number: usize) {
        let transaction = &mut self.transactions[number];
        transaction.is_open = false;
        for id in std::mem::take(&mut transaction.sent) {
            self.messages.set(id, Place::Gone);
        }
        // After a commit they hold no lock any more.
        for (message, delivery) in std::mem::take(&mut transaction.settled_by_client) {
            self.messages.settle(message, delivery, Verdict::Abandon);
        }
        for session in &mut self.sessions {
            for delivery in session.unsettled.values_mut() {
                if delivery.work == Some(number) && !delivery.is_committed {
                    delivery.work = None;
                }
            }
        }
    }

    /// Rolls back the transactions of a coordinator link that ends.
    pub(crate) fn roll_back_of(&mut self, coordinator: usize) {
        for number in 0..self.transactions.len() {
            if self.transactions[number].is_open && self.transactions[number].coordinator == coordinator {
                self.end_transaction(number);
                self.transactions[number].is_lost = true;
            }
        }
    }

    fn control(&mut self, sent: Sent, control: &Control) {
        let key = sent.link;
        let (session, handle) = (self.links[key].session, self.links[key].handle);
        if let Some(side) = self.links[key].coordinates() {
            side.credit -= 1;
            side.delivery_count = side.delivery_count.wrapping_add(1);
        }
        let delivery_id = self.sessions[session].next_delivery_id;
        self.sessions[session].next_delivery_id = delivery_id.wrapping_add(1);
        self.sessions[session].sent.insert(delivery_id, sent);
        let transfer = Transfer {
            handle,
            delivery_id: Some(delivery_id),
            delivery_tag: Some(Tag::from_slice(&delivery_id.to_be_bytes())),
            message_format: Some(0),
            settled: Some(false),
            ..Transfer::default()
        };
        self.say_transfer(session, transfer, &control.encode());
    }

    /// The last frame of messages in a transaction is sent; returns whether they are accepted.
    pub(crate) fn staged(
        &mut self,
        number: usize,
        messages: &[u32],
        is_valid: bool,
        is_ignored: bool,
    ) -> bool {
        let transaction = &mut self.transactions[number];
        let is_accepted = transaction.is_open && !transaction.has_failed && is_valid && !is_ignored;
        transaction.has_failed |= transaction.is_open && !is_valid && !is_ignored;
        for &id in messages {
            self.messages.set(id, if is_accepted { Place::Staged } else { Place::Gone });
        }
        if is_accepted {
            transaction.sent.extend(messages);
        }
        is_accepted
    }

    pub(crate) fn settle_work(&mut self, session: u8, delivery: u8, verdict: Verdict, transaction: u8) {
        let Some(key) = self.pick_session(session) else { return };
        let Some(id) = self.unsettled(key, delivery) else { return };
        let Some((number, txn_id)) = self.pick_transaction(transaction) else { return };
        let Some(delivery) = self.sessions[key].unsettled.get_mut(&id) else { return };
        let transaction = &mut self.transactions[number];
        let holds = self.messages.holds(delivery.message, delivery.number);
        let is_accepted = holds && !transaction.has_failed;
        delivery.work = Some(number);
        // The delivery of a lost lock is settled by the broker; it looks at no lock for work that it refuses anyway.
        delivery.verdicts.push_back(Expected { verdict, work: Some(number), is_accepted });
        if is_accepted {
            transaction.settled.push((delivery.message, delivery.number, verdict));
        }
        transaction.has_failed |= !holds;
        self.say_disposition(key, id..=id, false, Some(in_transaction(&txn_id, Some(verdict.state()))));
    }

    /// The verdict for a delivery in an open transaction that can be committed.
    pub(crate) fn staged_verdict(&self, delivery: &Delivery) -> Option<Verdict> {
        let transaction = &self.transactions[delivery.work?];
        let is_sound = transaction.is_open && !transaction.has_failed;
        let staged = transaction.settled.iter().filter(|_| is_sound);
        let mut verdicts = staged.filter(|(_, number, _)| *number == delivery.number);
        verdicts.next().map(|(_, _, verdict)| *verdict)
    }

    /// The broker answers a settlement in a transaction, or settles it at the commit.
    pub(crate) fn work_answered(
        &mut self,
        (session, id): (usize, u32),
        txn_id: &Bytes,
        outcome: &DeliveryState,
        settled: bool,
    ) {
        let Some(delivery) = self.sessions[session].unsettled.get_mut(&id) else { return };
        let is_error = matches!(outcome, DeliveryState::Rejected(Some(_)));
        let number = self.transactions.iter().position(|transaction| transaction.id.as_ref() == Some(txn_id));
        if settled && !is_error {
            assert!(
                delivery.is_committed && delivery.work == number && delivery.verdicts.is_empty(),
                "{outcome:?} for message {}",
                delivery.message
            );
            self.sessions[session].unsettled.remove(&id);
            return;
        }
        // In a transaction that has failed, a refusal comes at once, perhaps before the answer in another one.
        let answered = delivery.verdicts.iter().position(|expected| expected.work == number);
        let expected = answered.and_then(|position| delivery.verdicts.remove(position));
        let Expected { verdict, is_accepted, .. } = expected.expect("a disposition of ours");
        let may_refuse = self.transactions[number.expect("a transaction of ours")].may_refuse();
        assert!(
            if is_error { !is_accepted || may_refuse } else { is_accepted },
            "{verdict:?} of message {} is answered by {outcome:?}",
            delivery.message
        );
        if is_error {
            delivery.work = delivery.work.filter(|work| Some(*work) != number);
            if settled {
                self.sessions[session].unsettled.remove(&id);
            }
            return;
        }
        assert!(!settled);
        assert_eq!(std::mem::discriminant(outcome), std::mem::discriminant(&verdict.state()));
    }
}
