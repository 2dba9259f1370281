//! Operations that an entity's status forbids, and links that are detached when it changes (semantics §4.4).

use super::rig::{LOCK_MS, QUEUE, Rig, message, options};
use super::table::{At, HAPPENINGS, Happening, STATES, expected, happen, observe, reach};
use crate::{
    Command, Effect, EntityOptions, EntityStatus, NewMessage, QueueOptions, ReceiveMode, ReceiverId, Refusal,
    SequenceNumber, Settlement, SubQueue,
};

const STATUSES: [EntityStatus; 4] =
    [EntityStatus::Active, EntityStatus::Disabled, EntityStatus::SendDisabled, EntityStatus::ReceiveDisabled];

fn set_status(rig: &mut Rig, status: EntityStatus) -> Vec<Effect> {
    let EntityOptions::Queue(options) = &*rig.partition.state.options else { panic!("a queue") };
    rig.change_options(QueueOptions { status, ..options.clone() })
}

/// Whether a happening is possible under a status.
fn is_allowed(status: EntityStatus, happening: Happening) -> bool {
    match happening {
        // Timers, restarts, and releases by the broker.
        Happening::LockEnds | Happening::Restart | Happening::Release => true,
        // Cancelling is refused only if the entity is fully disabled (azure-sdk-for-net 22454).
        Happening::Cancel => status.allows_send() || status.allows_receive(),
        // Listening and renewing are needed for it.
        Happening::Expires => status.allows_receive(),
        _ => status.allows_receive(),
    }
}

#[test]
fn every_status_answers_every_happening_as_the_table_says() {
    for status in STATUSES {
        for (at, happening) in STATES.iter().flat_map(|at| HAPPENINGS.map(|happening| (*at, happening))) {
            let renews = happening == Happening::Expires && !status.allows_receive();
            if renews {
                continue;
            }
            let (mut rig, token) = reach(at);
            let (_, count) = observe(&mut rig);
            set_status(&mut rig, status);
            let accepted = happen(&mut rig, token, happening);
            set_status(&mut rig, EntityStatus::Active);
            let changed = expected(at, happening).filter(|_| is_allowed(status, happening));
            let (after, grown) = match changed {
                Some((At::Gone, _)) => (At::Gone, 0),
                Some((after, more)) => (after, count + more),
                None => (at, count),
            };
            assert_eq!(observe(&mut rig), (after, grown), "{status:?}: {at:?} × {happening:?}");
            let passive = [Happening::LockEnds, Happening::Expires, Happening::Restart, Happening::Renew];
            if !passive.contains(&happening) {
                assert_eq!(accepted, changed.is_some(), "{status:?}: {at:?} × {happening:?}");
            }
            if happening == Happening::Renew && !status.allows_receive() {
                assert!(!accepted, "{status:?}: {at:?} × {happening:?}");
            }
        }
    }
}

#[test]
fn sending_and_scheduling_need_a_status_that_takes() {
    for status in STATUSES {
        let mut rig = Rig::new(QueueOptions { status, ..options() });
        let scheduled = NewMessage { scheduled_enqueue_time: Some(rig.now.plus_ms(5)), ..message("b") };
        for one in [message("a"), scheduled] {
            let sent = rig.try_send(vec![one]);
            assert_eq!(sent.is_ok(), status.allows_send(), "{status:?}: {sent:?}");
            assert!(sent.is_ok() || sent == Err(Refusal::EntityDisabled));
        }
    }
}

#[test]
fn scheduled_messages_become_available_whatever_the_status() {
    let mut rig = Rig::new(options());
    rig.send(NewMessage { scheduled_enqueue_time: Some(rig.now.plus_ms(5)), ..message("a") });
    set_status(&mut rig, EntityStatus::Disabled);
    rig.advance(5);
    assert_eq!(rig.counts(), (1, 0, 0));
}

#[test]
fn a_status_detaches_only_links_that_can_not_be_used() {
    for status in STATUSES {
        let mut rig = Rig::new(options());
        let receivers =
            [SubQueue::Main, SubQueue::DeadLetter].map(|queue| rig.open(queue, ReceiveMode::PeekLock));
        let (sender, asker) = (ReceiverId(50), ReceiverId(51));
        rig.handle(None, Command::Watch { watcher: sender, queue: QUEUE, sends: true });
        rig.handle(None, Command::Watch { watcher: asker, queue: QUEUE, sends: false });
        let told = set_status(&mut rig, status);
        let mut detached = Vec::new();
        if !status.allows_receive() {
            detached.extend(receivers);
        }
        if !status.allows_send() {
            detached.push(sender);
        }
        let closed = |receiver| Effect::ReceiverClosed { receiver, refusal: Refusal::EntityDisabled };
        assert_eq!(told, detached.iter().copied().map(closed).collect::<Vec<_>>(), "{status:?}");
        // Links that are opened later are refused.
        let late = rig.handle(None, Command::Watch { watcher: ReceiverId(52), queue: QUEUE, sends: true });
        assert_eq!(late.len(), usize::from(!status.allows_send()), "{status:?}");
        assert_eq!(
            rig.try_attach(SubQueue::Main, ReceiveMode::PeekLock).is_ok(),
            status.allows_receive(),
            "{status:?}"
        );
    }
}

#[test]
fn locks_of_those_detached_run_out() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    let delivered = rig.credit(receiver, 1, false);
    let token = super::rig::deliveries(delivered)[0].2.unwrap().token;
    set_status(&mut rig, EntityStatus::ReceiveDisabled);
    assert_eq!(rig.settle(token, Settlement::Complete), Err(Refusal::EntityDisabled));
    rig.advance(LOCK_MS);
    set_status(&mut rig, EntityStatus::Active);
    let (view, _) = rig.take_one().unwrap();
    assert_eq!((view.sequence_number, view.delivery_count), (SequenceNumber(1), 1));
}
