//! Settlements by the client.

use std::ops::RangeInclusive;

use peeklock_amqp::wire::performative::{DeliveryState, Disposition, Performative, Role};

use super::client::Client;
use super::link::Expected;
use super::messages::Verdict;
use super::transacting::in_transaction;

impl Client<'_> {
    /// A delivery that can be settled, chosen by a number.
    pub(crate) fn unsettled(&self, session: usize, number: u8) -> Option<u32> {
        let open = self.sessions[session].unsettled.iter().filter(|(_, delivery)| delivery.is_open());
        let open: Vec<u32> = open.map(|(&id, _)| id).collect();
        (!open.is_empty()).then(|| open[usize::from(number) % open.len()])
    }

    pub(crate) fn settle(&mut self, number: u8, (first, count): (u8, u8), verdict: Verdict, settled: bool) {
        let Some(key) = self.pick_session(number) else { return };
        let Some(first) = self.unsettled(key, first) else { return };
        let unsettled = &mut self.sessions[key].unsettled;
        let mut last = first;
        for id in first..first.saturating_add(u32::from(count)) {
            let Some(delivery) = unsettled.get_mut(&id).filter(|d| d.is_open()) else { break };
            let holds = self.messages.settle(delivery.message, delivery.number, verdict);
            delivery.verdicts.push_back(Expected { verdict, work: None, is_accepted: holds });
            last = id;
        }
        if settled {
            unsettled.retain(|id, _| !(first..=last).contains(id));
        }
        self.say_disposition(key, first..=last, settled, Some(verdict.state()));
    }

    /// Settles a delivery without an outcome.
    pub(crate) fn forget(&mut self, number: u8, first: u8) {
        let Some(key) = self.pick_session(number) else { return };
        let Some(first) = self.unsettled(key, first) else { return };
        if let Some(delivery) = self.sessions[key].unsettled.remove(&first) {
            self.messages.settle(delivery.message, delivery.number, Verdict::Release);
        }
        self.say_disposition(key, first..=first, true, None);
    }

    /// Settles a delivery whose outcome is part of an open transaction, with its state or without: it stays part of it.
    pub(crate) fn settle_staged(&mut self, number: u8, delivery: u8, has_state: bool) {
        let Some(key) = self.pick_session(number) else { return };
        let staged: Vec<_> = self.sessions[key]
            .unsettled
            .iter()
            .filter_map(|(id, delivery)| self.staged_verdict(delivery).map(|verdict| (*id, verdict)))
            .collect();
        if staged.is_empty() {
            return;
        }
        let (id, verdict) = staged[usize::from(delivery) % staged.len()];
        let Some(delivery) = self.sessions[key].unsettled.remove(&id) else { return };
        let transaction = &mut self.transactions[delivery.work.expect("a staged delivery")];
        transaction.settled_by_client.push((delivery.message, delivery.number));
        let txn_id = transaction.id.clone().expect("an open transaction");
        let state = has_state.then(|| in_transaction(&txn_id, Some(verdict.state())));
        self.say_disposition(key, id..=id, true, state);
    }

    pub(crate) fn say_disposition(
        &mut self,
        session: usize,
        ids: RangeInclusive<u32>,
        settled: bool,
        state: Option<DeliveryState>,
    ) {
        let (first, last, role) = (*ids.start(), Some(*ids.end()), Role::Receiver);
        let disposition = Disposition { role, first, last, settled, state, batchable: false };
        self.pipe.say(self.sessions[session].channel, Performative::Disposition(disposition), b"");
    }
}
