//! The source of a command's messages: one of the queues of an entity, or a session of it.

use peeklock_client::{Client, ClientError, LinkId, Mode, SessionRequest};

use super::Failure;
use super::address::{Address, SubQueue};

/// The source; see the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    /// The queue.
    pub(super) address: &'a Address,
    /// The session, if one is given.
    pub(super) session: Option<&'a str>,
}

impl<'a> Source<'a> {
    /// # Errors
    /// A session is given for a dead-letter queue: dead letters belong to no session.
    pub(super) fn new(address: &'a Address, session: Option<&'a str>) -> Result<Self, Failure> {
        match session {
            Some(_) if address.sub_queue != SubQueue::Main => {
                Err(Failure::usage("dead letters are in no session; leave --session out"))
            }
            _ => Ok(Self { address, session }),
        }
    }

    /// The whole queue.
    pub(super) const fn whole(address: &'a Address) -> Self {
        Self { address, session: None }
    }

    /// The address for a receiver.
    pub(super) fn path(self) -> String {
        self.address.path()
    }

    /// A refusal of the broker.
    pub(super) fn about(self, error: ClientError) -> Failure {
        Failure::about(&self.address.entity, error)
    }

    /// Attaches a receiver that locks messages; it holds the session, if one is given.
    pub(super) async fn attach(self, client: &mut Client) -> Result<LinkId, Failure> {
        let path = self.path();
        let Some(id) = self.session else {
            return client.receiver(&path, Mode::PeekLock).await.map_err(|error| self.about(error));
        };
        let named = SessionRequest::Named(id.to_owned());
        let held = client.session_receiver(&path, Mode::PeekLock, &named).await;
        let held = held.map_err(|error| self.about(error))?;
        let (link, _) = held.ok_or_else(|| Failure::new(format!("session {id} is not available")))?;
        Ok(link)
    }

    /// Renews the lock of the session, if one is held: its messages are locked as long as the session is.
    pub(super) async fn renew(self, client: &mut Client) -> Result<(), ClientError> {
        match self.session {
            Some(id) => client.renew_session_lock(&self.path(), id).await,
            None => Ok(()),
        }
    }
}
