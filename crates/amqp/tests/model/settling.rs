//! Settlements by the client.

use std::ops::RangeInclusive;

use peeklock_amqp::wire::performative::{DeliveryState, Disposition, Performative, Role};

use super::client::Client;
use super::messages::Verdict;

impl Client<'_> {
    /// A delivery without a verdict, chosen by a number.
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
            delivery.verdict = Some((verdict, holds));
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
