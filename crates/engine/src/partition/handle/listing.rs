//! `List`: pages of the receivers, locks and sessions of a queue. Reads only; each page visits a bounded number of entries.

use std::sync::Arc;

use super::super::queue::Queue;
use super::super::sessions::{Session, Sessions};
use super::super::step::Step;
use crate::{
    Listed, ListedRow, Listing, LockToken, QueuePath, Refusal, Reply, RequestId, SequenceNumber, SubQueue,
    Timestamp,
};

/// Maximum number of entries visited for one page.
const LOOKED_AT_MAX: usize = 1_000;

impl Step<'_> {
    pub(in crate::partition) fn list(
        &mut self,
        request: Option<RequestId>,
        source: QueuePath,
        listing: Listing,
        top: usize,
    ) {
        self.count_visits(LOOKED_AT_MAX);
        let listed = match self.state().queue(source.queue) {
            None => Err(Refusal::EntityDeleted),
            Some(queue) => Ok(self.listed(queue, source, listing, top.clamp(1, LOOKED_AT_MAX))),
        };
        self.reply(request, Reply::Listed(listed));
    }

    fn listed(&self, queue: &Queue, source: QueuePath, listing: Listing, top: usize) -> Listed {
        match listing {
            Listing::Receivers(after) => receivers(queue, source.sub_queue, after, top),
            Listing::Locks(after) => self.locks(source, after, top),
            Listing::SessionLocks(after) => match sessions_of(queue, source) {
                Some(sessions) => self.session_locks(queue, sessions, after, top),
                None => Listed { rows: Vec::new(), next: None },
            },
            Listing::Session(id) => {
                let found = sessions_of(queue, source).and_then(|sessions| sessions.get(&id));
                Listed {
                    rows: found.map(|session| self.session_row(session)).into_iter().collect(),
                    next: None,
                }
            }
            Listing::Sessions(after) => match sessions_of(queue, source) {
                Some(sessions) => self.session_rows(sessions, after.as_deref(), top),
                None => Listed { rows: Vec::new(), next: None },
            },
        }
    }

    fn locks(
        &self,
        source: QueuePath,
        after: Option<(Timestamp, SequenceNumber, LockToken)>,
        top: usize,
    ) -> Listed {
        let (mut rows, mut last, mut looked_at) = (Vec::new(), None, 0);
        for (at, held) in self.state().locks.after(after) {
            if rows.len() >= top || looked_at >= LOOKED_AT_MAX {
                return Listed { rows, next: last.map(|at| Listing::Locks(Some(at))) };
            }
            looked_at += 1;
            last = Some(at);
            if (held.queue, held.sub_queue) == (source.queue, source.sub_queue) {
                let record = self.state().record(held.queue, held.sub_queue, held.number);
                let number = record.map_or(held.number, |record| record.partition().shown(held.number));
                let (_, _, token) = at;
                rows.push(ListedRow::Lock {
                    number,
                    token,
                    until: held.until,
                    session: None,
                    receiver: held.receiver,
                });
            }
        }
        Listed { rows, next: None }
    }

    fn session_locks(
        &self,
        queue: &Queue,
        sessions: &Sessions,
        after: Option<(Arc<str>, SequenceNumber)>,
        top: usize,
    ) -> Listed {
        let messages = queue.messages.get(SubQueue::Main);
        let (mut rows, mut last) = (Vec::new(), None);
        let from = after.as_ref().map(|(key, _)| &**key);
        for (looked_at, session) in sessions.from(from).enumerate() {
            if looked_at >= LOOKED_AT_MAX {
                return Listed { rows, next: last.map(|at| Listing::SessionLocks(Some(at))) };
            }
            let key = session.id.key();
            let behind = after.as_ref().filter(|(known, _)| known == key).map(|(_, number)| *number);
            let holder = session.holder(self.now);
            for (number, token) in session.in_flight_after(behind) {
                if rows.len() >= top {
                    return Listed { rows, next: last.map(|at| Listing::SessionLocks(Some(at))) };
                }
                let shown = messages.get(number).map_or(number, |record| record.partition().shown(number));
                rows.push(ListedRow::Lock {
                    number: shown,
                    token,
                    until: holder.map_or(Timestamp::default(), |holder| holder.until),
                    session: Some(Arc::clone(session.id.text())),
                    receiver: holder.map(|holder| holder.receiver),
                });
                last = Some((Arc::clone(key), number));
            }
            last = Some(
                last.filter(|(known, _)| known == key).unwrap_or((Arc::clone(key), SequenceNumber(u64::MAX))),
            );
        }
        Listed { rows, next: None }
    }

    fn session_rows(&self, sessions: &Sessions, after: Option<&str>, top: usize) -> Listed {
        let mut rows = Vec::new();
        let mut last = None;
        let is_behind = |key: &Arc<str>| after.is_none_or(|after| &**key > after);
        for session in sessions.from(after).filter(|session| is_behind(session.id.key())) {
            if rows.len() >= top {
                return Listed { rows, next: last.map(|key| Listing::Sessions(Some(key))) };
            }
            rows.push(self.session_row(session));
            last = Some(Arc::clone(session.id.key()));
        }
        Listed { rows, next: None }
    }

    fn session_row(&self, session: &Session) -> ListedRow {
        ListedRow::Session {
            id: Arc::clone(session.id.text()),
            messages: session.active(),
            holder: session.holder(self.now).map(|holder| (holder.receiver, holder.until)),
            state: session.state().map(|state| state.bytes.clone()),
        }
    }
}

/// The sessions of the main queue; messages of other sub-queues don't belong to sessions.
fn sessions_of(queue: &Queue, source: QueuePath) -> Option<&Sessions> {
    queue.sessions.as_deref().filter(|_| source.sub_queue == SubQueue::Main)
}

fn receivers(queue: &Queue, sub_queue: SubQueue, after: Option<crate::ReceiverId>, top: usize) -> Listed {
    let (mut rows, mut last) = (Vec::new(), None);
    for (looked_at, (id, receiver)) in queue.receivers.after(after).enumerate() {
        if rows.len() >= top || looked_at >= LOOKED_AT_MAX {
            return Listed { rows, next: last.map(|id| Listing::Receivers(Some(id))) };
        }
        last = Some(id);
        if receiver.options.source.sub_queue != sub_queue {
            continue;
        }
        let session = queue.sessions.as_deref().and_then(|sessions| sessions.held_by(id));
        rows.push(ListedRow::Receiver {
            id,
            mode: receiver.options.mode,
            selects: queue.receivers.selections.has(id),
            session: session.map(|(session, _)| Arc::clone(session.id.text())),
            credit: receiver.credit(),
        });
    }
    Listed { rows, next: None }
}
