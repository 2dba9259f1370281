//! Peers that take more than their share of memory, links or time.

use std::time::Duration;

use peeklock_tests::bystander::Bystander;
use peeklock_tests::client::{Client, SASL_HEADER, attach, begin, flow, terminus};
use peeklock_tests::codec::{Value, code, data_message, frame};
use peeklock_tests::daemon::Daemon;

use super::framing::beside_a_bystander;

#[test]
fn a_client_that_never_reads_costs_bounded_memory() {
    const MESSAGES: u32 = 120;
    const MESSAGE_BYTES: usize = 900 * 1024;
    let mut daemon = Daemon::with_queues(&["bystander", "victim"]);
    let mut filler = Client::connect(daemon.amqp()).unwrap();
    filler.attach_sender(0, "victim").unwrap().unwrap();
    let message = data_message(&vec![1; MESSAGE_BYTES]);
    for _ in 0..MESSAGES {
        assert_eq!(filler.send(0, &message).unwrap().code(), Some(code::ACCEPTED));
    }
    let before = daemon.resident_bytes();
    let bystander = Bystander::start(daemon.amqp(), "bystander");
    let mut greedy = Client::connect(daemon.amqp()).unwrap();
    greedy.say(&attach(0, "greedy", true, terminus(code::SOURCE, "victim"), Value::Null)).unwrap();
    greedy.say(&flow(0, 0, u32::MAX, false, false)).unwrap();
    // The broker has begun to deliver: a transfer has arrived. From here on the client reads nothing.
    greedy.wait(|frame| frame.is(code::TRANSFER).then_some(())).unwrap();
    for _ in 0..20 {
        bystander.await_progress();
    }
    let growth = daemon.resident_bytes().saturating_sub(before);
    assert!(growth < 48 << 20, "{} MB wait, memory grew by {growth} bytes", u64::from(MESSAGES));
    bystander.dismiss();
    daemon.assert_sound();
}

#[test]
fn a_client_that_asks_and_never_reads_the_answers_costs_bounded_memory() {
    beside_a_bystander(|daemon| {
        let before = daemon.resident_bytes();
        let mut rude = Client::connect(daemon.amqp()).unwrap();
        rude.attach_receiver(0, "victim", 0).unwrap().unwrap();
        rude.stream().set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let asks = frame(0, &flow(0, 0, 1, true, true), &[]).repeat(1_000);
        // Each flow requires an answer; at some point the broker stops reading, and this write fails.
        let _ = (0..1_000).try_for_each(|_| rude.write(&asks));
        let growth = daemon.resident_bytes().saturating_sub(before);
        assert!(growth < 48 << 20, "grew by {growth} bytes");
    });
}

#[test]
fn ten_thousand_links_on_one_connection() {
    const LINKS: u32 = 10_000;
    beside_a_bystander(|daemon| {
        let before = daemon.resident_bytes();
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        let mut answers = 0;
        for first in (0..LINKS).step_by(100) {
            for handle in first..first + 100 {
                let name = format!("link-{handle}");
                let link = attach(
                    handle,
                    &name,
                    true,
                    terminus(code::SOURCE, "victim"),
                    terminus(code::TARGET, &name),
                );
                peer.say(&link).unwrap();
                peer.say(&flow(handle, 0, 1, false, false)).unwrap();
            }
            // Attached or refused: each is answered, unless the connection was ended because of it.
            for _ in 0..100 {
                let answered = peer.wait(|frame| frame.is(code::ATTACH).then_some(()));
                answers += usize::from(answered.is_ok());
            }
        }
        let growth = daemon.resident_bytes().saturating_sub(before);
        assert!(growth < 128 << 20, "{answers} links cost {growth} bytes");
        assert!(answers > 100, "only {answers} links were answered");
    });
}

#[test]
fn a_session_on_every_channel() {
    beside_a_bystander(|daemon| {
        let before = daemon.resident_bytes();
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        let frames: Vec<u8> = (1..=u16::MAX).flat_map(|channel| frame(channel, &begin(), &[])).collect();
        let mut writer = peer.stream().try_clone().unwrap();
        let writing = std::thread::spawn(move || drop(std::io::Write::write_all(&mut writer, &frames)));
        // Granted up to the limit announced by the broker, or ended with an error, with bounded memory in any case.
        let mut answers = 0;
        while answers < u32::from(u16::MAX) && peer.wait(|frame| frame.is(code::BEGIN).then_some(())).is_ok()
        {
            answers += 1;
        }
        writing.join().unwrap();
        let growth = daemon.resident_bytes().saturating_sub(before);
        assert!(growth < 128 << 20, "{answers} sessions cost {growth} bytes");
    });
}

#[test]
fn connections_that_say_nothing_or_half_a_word() {
    beside_a_bystander(|daemon| {
        let silent: Vec<Client> = (0..300).map(|_| Client::plug(daemon.amqp()).unwrap()).collect();
        let mut halting: Vec<Client> = (0..300).map(|_| Client::plug(daemon.amqp()).unwrap()).collect();
        for (length, peer) in halting.iter_mut().enumerate() {
            peer.write(&SASL_HEADER[..length % 8]).unwrap();
        }
        let mut late = Client::connect(daemon.amqp()).unwrap();
        late.attach_sender(0, "victim").unwrap().unwrap();
        drop(silent);
    });
}

#[test]
fn links_that_come_and_go() {
    beside_a_bystander(|daemon| {
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        let before = daemon.resident_bytes();
        for round in 0..2_000 {
            let name = format!("sender-{round}");
            peer.say(&attach(0, &name, false, Value::Null, terminus(code::TARGET, "victim"))).unwrap();
            peer.wait(|frame| (frame.is(code::ATTACH) && frame.field(0).text() == Some(&name)).then_some(()))
                .unwrap();
            peer.say(&Value::composite(code::DETACH, vec![Value::Uint(0), Value::Bool(true)])).unwrap();
            peer.wait(|frame| frame.is(code::DETACH).then_some(())).unwrap();
        }
        let growth = daemon.resident_bytes().saturating_sub(before);
        assert!(growth < 32 << 20, "grew by {growth} bytes");
    });
}

#[test]
fn connections_cut_in_the_midst_of_work() {
    beside_a_bystander(|daemon| {
        for _ in 0..50 {
            let mut peer = Client::connect(daemon.amqp()).unwrap();
            peer.attach_sender(0, "victim").unwrap().unwrap();
            peer.attach_receiver(1, "victim", 100).unwrap().unwrap();
            for _ in 0..20 {
                peer.transfer(0, &data_message(&[0; 2_000]), 0).unwrap();
            }
            peer.receive(1).unwrap();
        }
        // All are stored, and ended connections do not keep the number from increasing.
        let mut peer = Client::connect(daemon.amqp()).unwrap();
        peer.attach_management(0, "victim").unwrap();
        assert!(peer.browse(0).unwrap().len() >= 50);
    });
}
