//! Every state of a session × every happening, as one table.

use super::rig::{LOCK_MS, QUEUE, Rig, abandon, defer};
use super::rig_sessions::{of, with_sessions};
use crate::{LockToken, QueueOptions, ReceiverId, SequenceNumber, Settlement, SubQueue};

/// The state of message 1 of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    None,
    Available,
    InFlight,
    Deferred,
}

/// A session: whether it is held, the state of its message, whether it has a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    held: bool,
    message: Message,
    state: bool,
}

const fn seen(held: bool, message: Message, state: bool) -> Seen {
    Seen { held, message, state }
}

/// All possible ones: only a held session has a locked message.
fn states() -> Vec<Seen> {
    let messages = [Message::None, Message::Available, Message::InFlight, Message::Deferred];
    let all = messages.into_iter().flat_map(|message| {
        [(false, false), (false, true), (true, false), (true, true)]
            .map(|(held, state)| seen(held, message, state))
    });
    all.filter(|seen| seen.held || seen.message != Message::InFlight).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happening {
    AcceptByName,
    AcceptNext,
    Take,
    Renew,
    GetState,
    SetState,
    ClearState,
    ReceiveDeferred,
    Complete,
    Abandon,
    Defer,
    Release,
    DeadLetter,
    Close,
    LockEnds,
    Restart,
}

const HAPPENINGS: [Happening; 16] = [
    Happening::AcceptByName,
    Happening::AcceptNext,
    Happening::Take,
    Happening::Renew,
    Happening::GetState,
    Happening::SetState,
    Happening::ClearState,
    Happening::ReceiveDeferred,
    Happening::Complete,
    Happening::Abandon,
    Happening::Defer,
    Happening::Release,
    Happening::DeadLetter,
    Happening::Close,
    Happening::LockEnds,
    Happening::Restart,
];

/// The session after a happening, and the increase of the delivery count; `None` if it is refused or has no effect.
fn expected(at: Seen, happening: Happening) -> Option<(Seen, u32)> {
    use Message::{Available, Deferred, InFlight, None as Gone};
    let with = |message| seen(at.held, message, at.state);
    match (at.held, at.message, happening) {
        (false, _, Happening::AcceptByName) | (false, Available, Happening::AcceptNext) => {
            Some((seen(true, at.message, at.state), 0))
        }
        (true, _, Happening::Renew | Happening::GetState) => Some((at, 0)),
        (true, _, Happening::SetState) => Some((seen(true, at.message, true), 0)),
        (true, _, Happening::ClearState) => Some((seen(true, at.message, false), 0)),
        (true, Available, Happening::Take) | (true, Deferred, Happening::ReceiveDeferred) => {
            Some((with(InFlight), 0))
        }
        (true, InFlight, Happening::Complete | Happening::DeadLetter) => Some((with(Gone), 0)),
        (true, InFlight, Happening::Abandon) => Some((with(Available), 1)),
        (true, InFlight, Happening::Defer) => Some((with(Deferred), 1)),
        (true, InFlight, Happening::Release) => Some((with(Available), 0)),
        (true, InFlight, Happening::Close | Happening::Restart) => {
            Some((seen(false, Available, at.state), 0))
        }
        (true, InFlight, Happening::LockEnds) => Some((seen(false, Available, at.state), 1)),
        (true, message, Happening::Close | Happening::LockEnds | Happening::Restart) => {
            Some((seen(false, message, at.state), 0))
        }
        _ => None,
    }
}

/// A session in a state, its present or last holder, and the last lock token.
fn reach(at: Seen) -> (Rig, ReceiverId, LockToken) {
    let mut rig = Rig::new(QueueOptions { max_delivery_count: 100, ..with_sessions() });
    let mut token = LockToken(77);
    let mut receiver = rig.accept("a");
    if at.state {
        rig.set_state(receiver, Some("state")).unwrap();
    }
    if at.message != Message::None {
        rig.send(of("a", "x"));
    }
    if matches!(at.message, Message::InFlight | Message::Deferred) {
        token = rig.take_in_session(receiver, 1)[0].1.token;
    }
    if at.message == Message::Deferred {
        rig.settle(token, defer()).unwrap();
    }
    if !at.held {
        rig.close(receiver);
    } else if at.message != Message::InFlight {
        rig.close(receiver);
        receiver = rig.accept("a");
    }
    (rig, receiver, token)
}

/// Makes it happen; returns whether it had an effect.
fn happen(rig: &mut Rig, receiver: ReceiverId, token: LockToken, happening: Happening) -> bool {
    match happening {
        Happening::AcceptByName => rig.try_open(SubQueue::Main, Some("a")).is_ok(),
        Happening::AcceptNext => rig.next_available().is_ok(),
        Happening::Take => rig.take_in_session(receiver, 2).len() == 1,
        Happening::Renew => rig.renew_session(receiver).is_ok(),
        Happening::GetState => rig.state(receiver).is_ok(),
        Happening::SetState => rig.set_state(receiver, Some("new")).is_ok(),
        Happening::ClearState => rig.set_state(receiver, None).is_ok(),
        Happening::ReceiveDeferred => rig.receive_deferred_for(Some(receiver), &[1]).is_ok(),
        Happening::Complete => rig.settle(token, Settlement::Complete).is_ok(),
        Happening::Abandon => {
            rig.credit(receiver, 0, false);
            rig.settle(token, abandon()).is_ok()
        }
        Happening::Defer => rig.settle(token, defer()).is_ok(),
        Happening::Release => {
            rig.credit(receiver, 0, false);
            rig.settle(token, Settlement::Release).is_ok()
        }
        Happening::DeadLetter => rig.settle(token, super::rig::dead_letter("bad")).is_ok(),
        Happening::Close => {
            rig.close(receiver);
            rig.events.iter().any(|event| matches!(event, crate::Event::SessionUnlocked { .. }))
        }
        Happening::LockEnds => !super::rig_sessions::closed(&rig.advance(LOCK_MS)).is_empty(),
        Happening::Restart => {
            rig.restart();
            true
        }
    }
}

fn observe(rig: &mut Rig) -> (Seen, u32) {
    let view = rig.peek(SubQueue::Main).pop();
    let queue = rig.partition.state.queue(QUEUE).unwrap();
    let session = queue.sessions.as_ref().unwrap().get(&"a".into());
    let message = match &view {
        None => Message::None,
        Some(view) if queue.messages.get(SubQueue::Main).is_locked(SequenceNumber(1)) => {
            assert_eq!(view.sequence_number.0, 1);
            Message::InFlight
        }
        Some(view) if view.state == crate::MessageState::Deferred => Message::Deferred,
        Some(_) => Message::Available,
    };
    let held = session.is_some_and(|session| session.holder(rig.now).is_some());
    let state = session.is_some_and(|session| session.state().is_some());
    if (held, message, state) == (false, Message::None, false) {
        assert!(session.is_none(), "nothing is kept of it");
    }
    (seen(held, message, state), view.map_or(0, |view| view.delivery_count))
}

#[test]
fn every_session_answers_every_happening_as_the_table_says() {
    for at in states() {
        for happening in HAPPENINGS {
            let (mut rig, receiver, token) = reach(at);
            let (before, count) = observe(&mut rig);
            assert_eq!(before, at);
            let had_effect = happen(&mut rig, receiver, token, happening);
            let (after, grown) = expected(at, happening).unwrap_or((at, 0));
            let count = if after.message == Message::None { 0 } else { count + grown };
            assert_eq!(observe(&mut rig), (after, count), "{at:?} × {happening:?}");
            if happening != Happening::Restart {
                assert_eq!(had_effect, expected(at, happening).is_some(), "{at:?} × {happening:?}");
            }
        }
    }
}
