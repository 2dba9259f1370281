//! Receives the messages of a queue and processes the selected ones; all others are released at the end.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use peeklock_client::{Client, ClientError, Delivery, LinkId, Outcome, Readdress, TransactionId};
use uuid::Uuid;

use super::scan::Scan;
use super::source::Source;
use super::{Failure, progress};

/// Messages processed together; a transaction has at most 100.
const BATCH: u32 = 50;
/// Maximum number of locked messages that are not selected.
const HELD_MAX: usize = 10_000;
/// Shorter than nearly every lock duration.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// Locks renewed by one request.
const RENEWALS: usize = 500;

/// The result for the messages.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Number of processed messages.
    pub(super) done: u64,
    /// The other selected messages, with the reason.
    pub(super) skipped: Vec<(i64, String)>,
}

/// The operation on a selected message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Action<'a> {
    /// Deletes it.
    Delete,
    /// Sends it there and deletes it here, in one transaction.
    Send(Route<'a>),
}

/// The destination of messages and how they are sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route<'a> {
    /// The link to the coordinator, the first link of the connection.
    pub(super) coordinator: LinkId,
    /// The queue or topic.
    pub(super) destination: &'a str,
    /// Whether messages get new ids.
    pub(super) readdress: Readdress,
}

/// Processes the messages that were found.
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
        // Before any message is locked, because the destination may not exist.
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
        format!("{HELD_MAX} messages in front of it are not selected; receive or move those first")
    };
    work.report.skipped.extend(numbers.into_iter().map(|number| (number, reason.clone())));
    work.give_back(client).await
}

struct Work {
    sender: Option<LinkId>,
    report: Report,
    /// Locked messages that are not selected, or were refused.
    held: Vec<Delivery>,
    renewed_at: Instant,
    bar: ProgressBar,
}

impl Work {
    fn hold(&mut self, delivery: Delivery) {
        self.held.push(delivery.without_payload());
    }

    /// Renews the locks of held messages, so that they are not delivered again, which would count as a failed delivery.
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
            // A message whose lock was lost meanwhile is available again.
            unless_lost(client.renew_locks(&source.path(), tokens).await)?;
        }
        Ok(())
    }

    async fn give_back(self, client: &mut Client) -> Result<Report, Failure> {
        self.bar.finish_and_clear();
        unless_lost(client.settle(&self.held, &Outcome::Release).await)?;
        Ok(self.report)
    }

    /// Processes all of them together, or one by one if that fails: a single failing message must not stop the others.
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
                    // The broker may have detached the link with the refusal.
                    Err(_) => self.sender.take().into_iter().for_each(|sender| client.detach(sender)),
                }
                moved
            }
        }
    }
}

/// Ignores a refusal, but not the end of the connection.
fn unless_lost(result: Result<(), ClientError>) -> Result<(), Failure> {
    match result {
        Err(error @ (ClientError::Lost(_) | ClientError::TimeOut(_))) => Err(error.into()),
        _ => Ok(()),
    }
}

/// The messages completed by a transaction.
#[derive(Debug, Clone, Copy)]
pub(super) enum Given<'a> {
    /// Deliveries on a link.
    Deliveries(&'a [Delivery]),
    /// Deferred messages, by lock tokens.
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

/// Sends messages and completes the originals, in one transaction.
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
            // If this is not answered, the end of the connection rolls the transaction back.
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
