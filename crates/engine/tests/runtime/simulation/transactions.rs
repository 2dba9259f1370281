//! Transactions over queues and subscriptions: each takes effect completely or not at all, whenever the broker ends.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use peeklock_engine::{Command, NewMessage, QueueId, Refusal, Settlement};

use super::steps::Place;
use super::world::{Address, Asked, QUEUES, World};

/// The operations of one transaction.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) sent: Vec<(QueueId, String)>,
    pub(super) completed: Vec<(QueueId, String)>,
}

impl World {
    /// Sends to queues and completes some locked messages, in one transaction.
    pub(super) fn transact(&mut self, to: &[usize], completes: usize) {
        let mut transaction = self.broker.namespace.begin_transaction();
        let mut work = Work::default();
        for index in to {
            let Some(address) = self.find(Place::Queue(*index)) else { return };
            let content = self.new_content("");
            let message =
                NewMessage { content: Bytes::copy_from_slice(content.as_bytes()), ..NewMessage::default() };
            let messages = [message].into_iter().collect();
            transaction.add(&address.partition, Command::Send { messages });
            self.auditor(address.queue).sending(&content);
            // Sequence numbers are assigned at the commit, after those of sends that were requested later.
            let sent = self.sent;
            self.auditor(address.queue).order_unknown(sent);
            work.sent.push((address.queue, content));
        }
        for _ in 0..completes {
            let Some(which) = self.locks.iter().position(|held| held.session.is_none()) else { break };
            let held = self.locks.swap_remove(which);
            let Address { partition, queue } = held.address;
            let tokens = [held.token].into_iter().collect();
            transaction.add(&partition, Command::Settle { queue, tokens, settlement: Settlement::Complete });
            self.auditor(queue).leaving(&held.content);
            work.completed.push((queue, held.content));
        }
        let tag = self.ask(Asked::Commit(work));
        transaction.commit(self.mailbox(), tag);
    }

    pub(super) fn committed(&mut self, work: Work, result: Result<(), Refusal>) {
        match result {
            Ok(()) => self.happened(work),
            Err(Refusal::Unavailable) if self.in_doubt => self.doubtful.push(work),
            Err(Refusal::Unavailable) => panic!("a transaction met an entity that is not available"),
            Err(_) => self.did_not_happen(work),
        }
    }

    fn happened(&mut self, work: Work) {
        for (queue, content) in work.sent {
            self.auditor(queue).accepted(&content, None);
        }
        for (queue, content) in work.completed {
            self.auditor(queue).left_for_good(&content);
        }
    }

    fn did_not_happen(&mut self, work: Work) {
        for (queue, content) in work.sent {
            self.auditor(queue).refused(&content);
        }
        for (queue, content) in work.completed {
            self.auditor(queue).did_not_leave(&content);
        }
    }

    /// Determines after a restart the outcome of transactions that were not answered.
    pub(super) async fn resolve_transactions(&mut self) {
        let doubtful = std::mem::take(&mut self.doubtful);
        if doubtful.is_empty() {
            return;
        }
        let mut found: BTreeMap<QueueId, BTreeSet<String>> = BTreeMap::new();
        let queues = (0..QUEUES.len()).map(Place::Queue);
        let subscriptions = (0..super::topic::SUBSCRIPTIONS.len()).map(Place::Subscription);
        let others = [Place::Sessions, Place::Temporary];
        for place in queues.chain(subscriptions).chain(others) {
            let Some(address) = self.find(place) else { continue };
            self.slow.release().await;
            self.listen();
            let there = self.browse(&address).await;
            found.insert(address.queue, there.into_iter().map(|((content, _), _)| content).collect());
        }
        // `browse` has read those responses from the mailbox itself.
        self.asked.retain(|_, asked| !matches!(asked, Asked::Other));
        for work in doubtful {
            // A message corrupted on the disk may be present without being returned.
            let is_there = |(queue, content): &(QueueId, String)| {
                let is_rotten = self.auditors.get(queue).is_some_and(|auditor| auditor.is_rotten(content));
                found.get(queue).filter(|_| !is_rotten).map(|all| all.contains(content))
            };
            // A message that may have been removed otherwise proves nothing.
            let tells = |(queue, content): &&(QueueId, String)| {
                self.auditors.get(queue).is_some_and(|auditor| auditor.left_at_most_once(content))
            };
            let sent: BTreeSet<bool> = work.sent.iter().filter_map(is_there).collect();
            let left = work.completed.iter().filter(tells).filter_map(is_there);
            let left: BTreeSet<bool> = left.map(|there| !there).collect();
            let signs = &sent | &left;
            assert!(signs.len() <= 1, "half of a transaction happened: {work:#?} of {found:#?}");
            match signs.first() {
                Some(true) => self.happened(work),
                Some(false) => self.did_not_happen(work),
                None => work.sent.iter().for_each(|(queue, content)| self.auditor(*queue).refused(content)),
            }
        }
    }
}
