//! Responses of the broker, and their effect on the simulation's knowledge.

use peeklock_engine::runtime::{Output, Response};
use peeklock_engine::{ReceiverId, Refusal};

use super::sessions::StateAsked;
use super::world::{Asked, World};

impl World {
    /// Takes in everything that has arrived; returns how much that was.
    pub(super) fn listen(&mut self) -> usize {
        let mut arrived = 0;
        while let Ok(output) = self.outputs.try_recv() {
            arrived += 1;
            match output {
                Output::Response { tag, response } => {
                    let asked = self.asked.remove(&tag).expect("one answer for each question");
                    self.answered(tag, asked, response);
                }
                Output::Delivery(delivery) => self.delivered(&delivery),
                Output::Examine { receiver, messages } => self.examine(receiver, &messages),
                Output::Drained { .. } => panic!("no drain was requested"),
                Output::ReceiverClosed { receiver, refusal } => self.told_closed(receiver, &refusal),
            }
        }
        arrived
    }

    fn told_closed(&mut self, receiver: ReceiverId, refusal: &Refusal) {
        let Some(reader) = self.receivers.remove(&receiver) else { return };
        let queue = reader.address.queue;
        let expected = match refusal {
            Refusal::SessionLockLost => self.sessions.may_be_lost(receiver, self.now()),
            Refusal::EntityDeleted => self.topic.may_be_deleted(queue) || self.temporary.knows(queue),
            Refusal::EntityDisabled => self.updates.may_close(queue),
            _ => self.was_full || self.reads_fail || self.in_doubt || self.ending,
        };
        assert!(expected, "{receiver:?} was closed for no reason: {refusal}");
        self.sessions.closed(receiver);
        self.closed(&reader);
    }

    fn answered(&mut self, tag: u64, asked: Asked, response: Response) {
        // Requests to a busy topic and transactions have an unknown outcome until a restart.
        let is_settled =
            !matches!(asked, Asked::Send { .. } | Asked::State(_) | Asked::Delete { .. } | Asked::Other);
        self.in_doubt |= is_settled && self.reads_fail && is_busy(&response);
        match (asked, response) {
            (Asked::Send { queue, contents, at, scheduled }, Response::Sent(result)) => {
                self.sent(queue, &contents, (at, scheduled), result);
            }
            (Asked::Publish { contents }, Response::Sent(result)) => self.published(&contents, result),
            (Asked::Settle { held, how, must_fail }, Response::Settled(failures)) => {
                let refusal = failures.into_iter().next().map(|failure| failure.refusal);
                assert!(!must_fail || refusal.is_some(), "{} was settled after its lock ended", held.content);
                self.settled(held, how, refusal.as_ref());
            }
            (Asked::Take { taken, mode }, Response::Received(result)) => self.taken(taken, mode, result),
            (Asked::Change, Response::Done(result)) => self.topic.changed(tag, result, self.in_doubt),
            (Asked::Rules { queue }, Response::Rules(result)) => {
                self.topic.listed(queue, result, self.in_doubt);
            }
            (Asked::Accept { receiver }, Response::Opened(result)) => self.accepted(receiver, result),
            (Asked::State(StateAsked::Set { session, value }), Response::Done(result)) => {
                self.sessions.state_set(&session, value, result);
            }
            (Asked::State(StateAsked::Get { session }), Response::SessionState(result)) => {
                self.sessions.state_read(&session, result);
            }
            (Asked::Renew { receiver }, Response::SessionRenewed(result)) => {
                self.sessions.renewed(receiver, result);
            }
            (Asked::DeadLetter { queue, contents }, Response::Done(result)) => {
                self.dead_lettered(queue, &contents, result);
            }
            (Asked::Undefer { taken }, Response::Done(result)) => self.undeferred(taken, result),
            (Asked::Commit(work), Response::Done(result)) => self.committed(work, result),
            (Asked::Delete { queue }, Response::Deleted(_)) => self.deleted(queue),
            (Asked::Other, _) => {}
            (_, response) => panic!("unexpected answer {response:?}"),
        }
    }
}

/// Whether the response is that of an entity that can't be reloaded at present.
fn is_busy(response: &Response) -> bool {
    let refusal = match response {
        Response::Sent(result) => result.as_ref().err(),
        Response::Done(result) => result.as_ref().err(),
        Response::Rules(result) => result.as_ref().err(),
        _ => None,
    };
    refusal == Some(&Refusal::Unavailable)
}
