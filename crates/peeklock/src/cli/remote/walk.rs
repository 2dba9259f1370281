//! Goes through a queue and deals with the messages that were chosen; all others are given back at the end.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use peeklock_client::{Client, ClientError, Delivery, LinkId, Outcome, Readdress, TransactionId};
use uuid::Uuid;

use super::scan::Scan;
use super::source::Source;
use super::{Failure, progress};

/// Messages dealt with together; a transaction has at most 100.
const BATCH: u32 = 50;
/// Messages that are not meant and are locked meanwhile, at most.
const HELD_MAX: usize = 10_000;
/// Less than the time of nearly every lock.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// Locks renewed with one request.
const RENEWALS: usize = 500;

/// What became of the messages.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// So many were dealt with.
    pub(super) done: u64,
    /// The others that were meant, with the reason.
    pub(super) skipped: Vec<(i64, String)>,
}

/// What is done with a chosen message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Action<'a> {
    /// It is deleted.
    Delete,
    /// It is sent there and deleted here, both or neither.
    Send(Route<'a>),
}

/// Where messages go, by transactions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route<'a> {
    /// The link to the coordinator, which is the first of the connection.
    pub(super) coordinator: LinkId,
    /// Queue or topic.
    pub(super) destination: &'a str,
    /// What id they get.
    pub(super) readdress: Readdress,
}

/// Deals with the messages that were found.
pub(super) async fn walk(
    client: &mut Client,
    source: Source<'_>,
    found: Scan,
    action: Action<'_>,
) -> Result<Report, Failure> {
    let bar = progress::bar(found.len(), "messages");
    let batch = found.batch(BATCH);
    let mut numbers = found.numbers;
    let link = source.attach(client).await?;
    let sender = match action {
        Action::Delete => None,
        // Before anything is locked: the destination may not exist.
        Action::Send(Route { destination, .. }) => {
            let sender = client.sender(destination).await;
            Some(sender.map_err(|error| Failure::about(destination, error))?)
        }
    };
    let renewed_at = Instant::now();
    let mut work = Work { sender, report: Report::default(), held: Vec::new(), renewed_at, bar };
    while !numbers.is_empty() && work.held.len() < HELD_MAX {
        let came = client.receive(link, batch, Duration::ZERO).await?;
        if came.is_empty() {
            break;
        }
        let mut chosen = Vec::new();
        for delivery in came {
            let number = delivery.message()?.sequence_number();
            if numbers.remove(&number) { chosen.push(delivery) } else { work.hold(delivery) }
        }
        work.batch(client, chosen, action).await?;
        work.renew(client, source).await?;
    }
    let reason = if work.held.len() < HELD_MAX {
        "locked by a receiver, or gone".to_owned()
    } else {
        format!("{HELD_MAX} messages in front of it are not meant; deal with those first")
    };
    work.report.skipped.extend(numbers.into_iter().map(|number| (number, reason.clone())));
    work.give_back(client).await
}

struct Work {
    sender: Option<LinkId>,
    report: Report,
    /// Locked and not meant, or refused.
    held: Vec<Delivery>,
    renewed_at: Instant,
    bar: ProgressBar,
}

impl Work {
    fn hold(&mut self, delivery: Delivery) {
        self.held.push(delivery.without_payload());
    }

    /// Keeps what is held from coming again, and from counting as a failed try.
    async fn renew(&mut self, client: &mut Client, source: Source<'_>) -> Result<(), Failure> {
        let is_needed = source.session.is_some() || !self.held.is_empty();
        if !is_needed || self.renewed_at.elapsed() < RENEW_INTERVAL {
            return Ok(());
        }
        self.renewed_at = Instant::now();
        if source.session.is_some() {
            return unless_lost(source.renew(client).await);
        }
        let tokens: Vec<Uuid> = self.held.iter().filter_map(Delivery::lock_token).collect();
        for tokens in tokens.chunks(RENEWALS) {
            // A lock that was lost meanwhile has given its message back.
            unless_lost(client.renew_locks(&source.path(), tokens).await)?;
        }
        Ok(())
    }

    async fn give_back(self, client: &mut Client) -> Result<Report, Failure> {
        self.bar.finish_and_clear();
        unless_lost(client.settle(&self.held, &Outcome::Release).await)?;
        Ok(self.report)
    }

    /// All of them together, or one by one if that fails: a single message that can't be dealt with must not stop the others.
    async fn batch(
        &mut self,
        client: &mut Client,
        chosen: Vec<Delivery>,
        action: Action<'_>,
    ) -> Result<(), Failure> {
        if chosen.is_empty() {
            return Ok(());
        }
        match self.attempt(client, &chosen, action).await {
            Ok(()) => self.done(chosen.len()),
            Err(error @ (ClientError::Lost(_) | ClientError::TimeOut(_))) => return Err(error.into()),
            Err(error) if chosen.len() == 1 => self.skip(chosen, &error)?,
            Err(_) => {
                for delivery in chosen {
                    let one = vec![delivery];
                    match self.attempt(client, &one, action).await {
                        Ok(()) => self.done(1),
                        Err(error @ (ClientError::Lost(_) | ClientError::TimeOut(_))) => {
                            return Err(error.into());
                        }
                        Err(error) => self.skip(one, &error)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn done(&mut self, count: usize) {
        let count = u64::try_from(count).unwrap_or(0);
        self.report.done += count;
        self.bar.inc(count);
    }

    fn skip(&mut self, deliveries: Vec<Delivery>, error: &ClientError) -> Result<(), Failure> {
        for delivery in deliveries {
            self.report.skipped.push((delivery.message()?.sequence_number(), error.to_string()));
            self.hold(delivery);
        }
        Ok(())
    }

    async fn attempt(
        &mut self,
        client: &mut Client,
        deliveries: &[Delivery],
        action: Action<'_>,
    ) -> Result<(), ClientError> {
        match action {
            Action::Delete => client.settle(deliveries, &Outcome::Complete).await,
            Action::Send(route) => {
                let sender = match self.sender {
                    Some(sender) => sender,
                    None => *self.sender.insert(client.sender(route.destination).await?),
                };
                let moved = transact(client, sender, deliveries, Given::Deliveries(deliveries), route).await;
                match moved {
                    Ok(()) => client.forget(deliveries),
                    // The broker may have ended the link with the refusal.
                    Err(_) => self.sender.take().into_iter().for_each(|sender| client.detach(sender)),
                }
                moved
            }
        }
    }
}

/// A refusal doesn't matter, the end of the connection does.
fn unless_lost(result: Result<(), ClientError>) -> Result<(), Failure> {
    match result {
        Err(error @ (ClientError::Lost(_) | ClientError::TimeOut(_))) => Err(error.into()),
        _ => Ok(()),
    }
}

/// What a transaction completes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Given<'a> {
    /// Deliveries of a link.
    Deliveries(&'a [Delivery]),
    /// Deferred messages, by the tokens of their locks.
    Tokens(Source<'a>, &'a [Uuid]),
}

/// A message that is to be sent again.
pub(super) trait Resend {
    /// Its encoding.
    fn encoded(&self, how: Readdress) -> Result<bytes::Bytes, ClientError>;
}

impl Resend for Delivery {
    fn encoded(&self, how: Readdress) -> Result<bytes::Bytes, ClientError> {
        Ok(self.message()?.readdressed(how))
    }
}

/// Sends messages and completes what they were, in one transaction.
pub(super) async fn transact<M: Resend>(
    client: &mut Client,
    sender: LinkId,
    messages: &[M],
    given: Given<'_>,
    route: Route<'_>,
) -> Result<(), ClientError> {
    let transaction = client.declare(route.coordinator).await?;
    let worked = work(client, sender, messages, given, route.readdress, &transaction).await;
    match worked {
        Ok(()) => client.discharge(route.coordinator, transaction, true).await,
        Err(error) => {
            // Without an answer it is rolled back as well: with its connection.
            let _ = client.discharge(route.coordinator, transaction, false).await;
            Err(error)
        }
    }
}

async fn work<M: Resend>(
    client: &mut Client,
    sender: LinkId,
    messages: &[M],
    given: Given<'_>,
    how: Readdress,
    transaction: &TransactionId,
) -> Result<(), ClientError> {
    let mut under_way = Vec::with_capacity(messages.len());
    for message in messages {
        under_way.push(client.send(sender, message.encoded(how)?, Some(transaction))?);
    }
    for sending in under_way {
        client.outcome(sending).await?;
    }
    match given {
        Given::Deliveries(deliveries) => client.settle_in(deliveries, &Outcome::Complete, transaction).await,
        Given::Tokens(source, tokens) => {
            client.complete_by_token(&source.path(), source.session, tokens, Some(transaction)).await
        }
    }
}
