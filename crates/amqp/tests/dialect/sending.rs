//! Links on which clients send, also by way of another entity, and their messages.

use peeklock_amqp::endpoint::LinkId;
use peeklock_amqp::wire::Value;
use peeklock_amqp::wire::message::encode_body_data;

use super::acting::pick;
use super::bus::{Path, Work};
use super::message::{Draft, SESSIONS};
use super::outcome::{Outcome, Refused};
use super::peer::{Asked, Purpose};
use super::step::DraftStep;
use super::world::{END_OF_DEAD_LETTERS, ENTITIES, World};

/// The message-format of batches.
const BATCH: u32 = 0x8001_3700;
/// Property of an attach: the destination of messages that are sent by way of the entity attached to.
const TRANSFER_DESTINATION: &str = "com.microsoft:transfer-destination-address";

impl World {
    /// An entity by way of which messages are sent to another, by number: a queue.
    pub(crate) fn via(&self, number: u8) -> Option<Path> {
        let queues = ENTITIES.into_iter().filter(|path| !path.contains('/') && *path != "t");
        let queues: Vec<Path> = queues.collect();
        Some(self.entity(number)).filter(|path| queues.contains(path)).or_else(|| pick(&queues, number))
    }

    pub(crate) fn attach_sender(&mut self, peer: usize, path: Path, via: Option<Path>) {
        if self.is_busy(peer) {
            return;
        }
        let link = self.peers[peer].attach(Purpose::Sends { path, via }, |attach| {
            let destination = via.map(|_| (TRANSFER_DESTINATION.into(), Value::String(path.into())));
            attach.properties.extend(destination);
        });
        let outcome = self.bus.attach_sender((peer, link), path, via);
        self.peers[peer].expect(Asked::Attach(link), outcome);
    }

    /// A message as a step describes it.
    pub(crate) fn draft(&mut self, path: Path, step: &DraftStep) -> Draft {
        self.messages += 1;
        // What is due at the time at which dead letters arrive may get a number before or after them.
        // Nor is predicted what a full target has room for when others become due at the same time.
        let is_source = self.setup.size_max_bytes.is_some() && ["f", "g"].contains(&path);
        let delay_ms = step.delay_ms.filter(|_| path != END_OF_DEAD_LETTERS && !is_source);
        let draft = Draft {
            id: self.messages,
            session: step.session.map(|session| SESSIONS[usize::from(session) % 4]),
            life_ms: step.life_ms,
            due_ms: delay_ms.map(|delay| self.bus.now_ms + delay),
            key: step.key,
            color: Some(step.color),
            size_bytes: 0,
        };
        Draft { size_bytes: draft.encode().len() as u64, ..draft }
    }

    pub(crate) fn send(
        &mut self,
        peer: usize,
        number: u8,
        steps: &[DraftStep],
        settled: bool,
        work: Option<u8>,
    ) {
        let links = self.peers[peer].links_where(|purpose| matches!(purpose, Purpose::Sends { .. }));
        let is_attached = |link: &LinkId| !self.peers[peer].expected.contains_key(&Asked::Attach(*link));
        let links: Vec<LinkId> = links.into_iter().filter(is_attached).collect();
        let Some(link) = pick(&links, number) else {
            return self.attach_sender(peer, self.entity(number), None);
        };
        let Purpose::Sends { path, via } = self.peers[peer].links[&link] else { return };
        let work = work.and_then(|number| self.pick_transaction(peer, number));
        let drafts: Vec<Draft> = steps.iter().map(|step| self.draft(path, step)).collect();
        let (format, payload) = encode(&drafts);
        let transaction = work.as_ref().map(|(transaction, _)| *transaction);
        let outcome = self.send_in_model(peer, (path, via), drafts, transaction);
        // A settled delivery that is refused ends its link.
        let settled = settled && work.is_none() && outcome.is_ok();
        let txn_id = work.map(|(_, id)| id);
        let sent = self.peers[peer].send(link, (settled, format), payload, txn_id).expect("a link");
        if !settled {
            let outcome: Outcome = outcome.into();
            self.peers[peer].expect(Asked::Sent(link, sent), outcome.within(transaction));
        }
    }

    fn send_in_model(
        &mut self,
        peer: usize,
        (path, via): (Path, Option<Path>),
        drafts: Vec<Draft>,
        transaction: Option<usize>,
    ) -> Result<Outcome, Refused> {
        let Some(transaction) = transaction else {
            return match via {
                Some(via) => self.bus.send_via(via, path, &drafts),
                None => self.bus.send(path, &drafts).map(|_| Outcome::Done),
            };
        };
        let work = match via.or_else(|| self.bus.via(peer, path)) {
            Some(via) => Work::Transferred { via, target: path, born: self.bus.born(path), drafts },
            None => Work::Sent(path, drafts.into_iter().map(|draft| (draft, None)).collect()),
        };
        self.bus.work_in(transaction, vec![work]).map(|_| Outcome::Done)
    }
}

/// The message-format of a transfer with these messages, and its payload.
fn encode(drafts: &[Draft]) -> (u32, bytes::Bytes) {
    if let [one] = drafts {
        return (0, one.encode());
    }
    let mut batch = bytes::BytesMut::new();
    drafts.iter().for_each(|draft| encode_body_data(&draft.encode(), &mut batch));
    (BATCH, batch.freeze())
}
