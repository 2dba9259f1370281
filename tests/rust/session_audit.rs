//! Invariants of a session across crashes of the broker at any time.

use std::collections::VecDeque;

use crate::audit::Name;

/// A journal of one session: the messages delivered to its holder, and its state.
#[derive(Debug, Default)]
pub struct SessionAudit {
    /// Messages that existed after the last restart and have not been delivered since.
    left: VecDeque<Name>,
    /// The last sequence number delivered since then.
    last: i64,
    state: Option<Vec<u8>>,
    /// A state that was sent; not answered yet.
    asked: Option<Vec<u8>>,
}

impl SessionAudit {
    /// Records a restart of the broker with these messages of the session, in this order.
    pub fn restarted(&mut self, shown: impl IntoIterator<Item = Name>) {
        self.left = shown.into_iter().collect();
        self.last = 0;
    }

    /// Records that the only holder since the restart got a message; holders never abandon messages.
    pub fn delivered(&mut self, name: &str, number: i64) {
        if let Some(next) = self.left.pop_front() {
            assert_eq!(next, name, "the session starts with the remaining message");
        }
        assert!(number > self.last, "{name} with the number {number} came after {}", self.last);
        self.last = number;
    }

    /// Records that a state is about to be sent.
    pub fn setting(&mut self, state: &[u8]) {
        self.asked = Some(state.to_vec());
    }

    /// Records that the broker confirmed the state.
    pub fn set(&mut self) {
        self.state = self.asked.take();
    }

    /// Checks the state returned by the broker.
    pub fn shown(&mut self, state: Option<&[u8]>) {
        let asked = self.asked.take();
        let expected = state == self.state.as_deref() || (asked.is_some() && state == asked.as_deref());
        assert!(expected, "the state {:?} has become {state:?}", self.state);
        self.state = state.map(<[u8]>::to_vec);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_without_an_answer_may_be_there_or_not() {
        for shown in [b"old", b"new"] {
            let mut audit = SessionAudit::default();
            audit.setting(b"old");
            audit.set();
            audit.setting(b"new");
            audit.shown(Some(shown));
            audit.shown(Some(shown));
        }
    }

    #[test]
    #[should_panic(expected = "has become None")]
    fn a_lost_state_is_found_out() {
        let mut audit = SessionAudit::default();
        audit.setting(b"state");
        audit.set();
        audit.shown(None);
    }

    #[test]
    #[should_panic(expected = "the session starts with the remaining message")]
    fn a_message_left_out_is_found_out() {
        let mut audit = SessionAudit::default();
        audit.restarted(["a".to_owned(), "b".to_owned()]);
        audit.delivered("b", 2);
    }

    #[test]
    #[should_panic(expected = "b with the number 2 came after 3")]
    fn a_message_out_of_order_is_found_out() {
        let mut audit = SessionAudit::default();
        audit.delivered("a", 3);
        audit.delivered("b", 2);
    }
}
