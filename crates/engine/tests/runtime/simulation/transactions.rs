//! Transactions over queues and subscriptions: each takes effect completely or not at all, whenever the broker ends.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use peeklock_engine::{Command, NewMessage, QueueId, Refusal};

use super::sessions::session_id;
use super::steps::{How, Place};
use super::world::{Address, Asked, LockedMessage, QUEUES, World};

/// The operations of one transaction.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) sent: Vec<(QueueId, String)>,
    pub(super) completed: Vec<(QueueId, String)>,
    /// Messages that are settled in another way.
    pub(super) settled: Vec<(LockedMessage, How)>,
}

impl World {
    /// Sends to queues and settles some locked messages, in one transaction.
    pub(super) fn transact(&mut self, to: &[Place], delay_ms: Option<u64>, settles: &[How]) {
        let mut transaction = self.broker.namespace.begin_transaction();
        let mut work = Work::default();
        for place in to {
            let Some(address) = self.find(*place) else { return };
            let session = (*place == Place::Sessions).then(|| session_id(0, false));
            let content = self.new_content(&session.as_ref().map_or(String::new(), |id| format!("@{id}")));
            let message = NewMessage {
                content: Bytes::copy_from_slice(content.as_bytes()),
                session_id: session.map(Into::into),
                scheduled_enqueue_time: delay_ms.map(|delay_ms| self.now().plus_ms(delay_ms)),
                ..NewMessage::default()
            };
            let messages = [message].into_iter().collect();
            transaction.add(&address.partition, Command::Send { messages });
            self.auditor(address.queue).sending(&content);
            // Sequence numbers are assigned at the commit, after those of sends that were requested later.
            let sent = self.sent;
            self.auditor(address.queue).order_unknown(sent);
            work.sent.push((address.queue, content));
        }
        for how in settles {
            let Some(which) = self.locks.iter().position(|held| held.session.is_none()) else { break };
            let held = self.locks.swap_remove(which);
            let (tokens, settlement) = ([held.token].into_iter().collect(), self.settlement(*how));
            let Address { partition, queue } = held.address.clone();
            transaction.add(&partition, Command::Settle { queue, tokens, settlement });
            let auditor = self.auditor(queue);
            match how {
                How::Complete => auditor.leaving(&held.content),
                How::Defer | How::DeadLetter => auditor.moving(&held.content),
                How::Abandon | How::Postpone | How::Release => {}
            }
            match how {
                How::Complete => work.completed.push((queue, held.content)),
                how => work.settled.push((held, *how)),
            }
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
        work.settled.into_iter().for_each(|(held, how)| self.settled(held, how, None));
    }

    fn did_not_happen(&mut self, work: Work) {
        for (queue, content) in work.sent {
            self.auditor(queue).refused(&content);
        }
        for (queue, content) in work.completed {
            self.auditor(queue).did_not_leave(&content);
        }
        for (held, how) in work.settled {
            self.settled(held, how, Some(&Refusal::MessageLockLost));
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
        for mut work in doubtful {
            // Their outcome stays unknown, as that of other settlements without an answer.
            work.settled.clear();
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
