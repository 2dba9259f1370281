//! The search for a server that accepts writes, among all hosts of a database.
//!
//! All servers are asked at once. Those that refuse are asked again while another one has not answered: it may be the old
//! primary behind a dead link, and one of them the next one.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep, timeout_at};

use crate::options::Endpoint;
use crate::reach::{ConnectionContext, Target, reach, resolve};
use crate::session::Session;

/// After one server that accepts writes is found, the time left for the others to prove that they do as well.
const OTHERS: Duration = Duration::from_millis(250);

/// Pause before a server that refused is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// What an attempt is about.
enum Candidate {
    /// A host whose addresses are to be found.
    Host(Endpoint),
    /// A server at one address.
    Server(Target),
}

/// How an attempt ended.
enum Outcome {
    Resolved(Vec<Target>),
    /// The server accepts writes.
    Found(Session),
    Failed(String),
}

/// A search; see the module.
pub(crate) struct Search<'a> {
    context: &'a ConnectionContext,
    purpose: &'a str,
    attempts: FuturesUnordered<BoxFuture<'a, (Candidate, Outcome)>>,
    /// Why each candidate can't be used; `None` until it has answered.
    refusals: BTreeMap<String, Option<String>>,
    found: Vec<Session>,
}

impl std::fmt::Display for Candidate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host(endpoint) => endpoint.fmt(formatter),
            Self::Server(target) => target.fmt(formatter),
        }
    }
}

impl<'a> Search<'a> {
    /// A search among all hosts.
    pub(crate) fn new(context: &'a ConnectionContext, purpose: &'a str) -> Self {
        let (attempts, refusals, found) = (FuturesUnordered::new(), BTreeMap::new(), Vec::new());
        let mut search = Self { context, purpose, attempts, refusals, found };
        for endpoint in context.options.endpoints() {
            search.ask(Candidate::Host(endpoint));
        }
        search
    }

    /// Searches until every server has answered, or has not in time. Returns the sessions on servers that accept writes, and
    /// why each other one can't be used.
    pub(crate) async fn run(mut self) -> (Vec<Session>, Vec<String>) {
        let mut until = Instant::now() + self.context.options.connect_timeout * 2;
        while self.refusals.values().any(Option::is_none) {
            let Ok(Some((candidate, outcome))) = timeout_at(until, self.attempts.next()).await else { break };
            let is_first = self.found.is_empty();
            self.take_in(candidate, outcome);
            if is_first && !self.found.is_empty() {
                until = Instant::now() + OTHERS;
            }
        }
        let refusals = self.refusals.into_iter();
        let refusals = refusals.map(|(name, why)| why.unwrap_or_else(|| format!("{name}: no answer")));
        (self.found, refusals.collect())
    }

    fn take_in(&mut self, candidate: Candidate, outcome: Outcome) {
        let name = candidate.to_string();
        match outcome {
            Outcome::Resolved(targets) => {
                self.refusals.remove(&name);
                targets.into_iter().for_each(|target| self.ask(Candidate::Server(target)));
            }
            Outcome::Found(session) => {
                self.refusals.remove(&name);
                self.found.push(session);
            }
            Outcome::Failed(reason) => {
                self.refusals.insert(name, Some(reason));
                if self.found.is_empty() {
                    let (context, purpose) = (self.context, self.purpose);
                    let again = async move {
                        sleep(ASK_AGAIN).await;
                        attempt(candidate, context, purpose).await
                    };
                    self.attempts.push(again.boxed());
                }
            }
        }
    }

    /// Asks a candidate for the first time.
    fn ask(&mut self, candidate: Candidate) {
        self.refusals.insert(candidate.to_string(), None);
        self.attempts.push(attempt(candidate, self.context, self.purpose).boxed());
    }
}

async fn attempt(candidate: Candidate, context: &ConnectionContext, purpose: &str) -> (Candidate, Outcome) {
    let outcome = match &candidate {
        Candidate::Host(endpoint) => {
            resolve(endpoint.clone()).await.map_or_else(Outcome::Failed, Outcome::Resolved)
        }
        Candidate::Server(target) => {
            reach(target, context, purpose).await.map_or_else(Outcome::Failed, Outcome::Found)
        }
    };
    (candidate, outcome)
}
