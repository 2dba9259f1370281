//! Receivers of sessions.

use std::time::Duration;

use peeklock_amqp::endpoint::LinkId;
use peeklock_wire::Value;

use super::connection::{Client, PATIENCE};
use super::receiving::{Mode, receiver_link};
use crate::ClientError;

const SESSION_FILTER: &str = "com.microsoft:session-filter";
const TIMEOUT: &str = "com.microsoft:timeout";

/// The session to receive from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionRequest {
    /// The next available one with messages; waits for one this long.
    Next(Duration),
    /// The one with this id.
    Named(String),
}

impl Client {
    /// Attaches a receiver to a session; returns its link and the session's id. `None` if no session was available in
    /// time.
    ///
    /// # Errors
    /// A refusal of the broker: another receiver holds the session, or the entity has no sessions.
    pub async fn session_receiver(
        &mut self,
        address: &str,
        mode: Mode,
        session: &SessionRequest,
    ) -> Result<Option<(LinkId, String)>, ClientError> {
        self.authorize(address).await?;
        let mut attach = receiver_link(address, mode);
        let (filter, time_out) = match session {
            SessionRequest::Named(id) => (Value::from(id.as_str()), PATIENCE),
            SessionRequest::Next(wait) => {
                let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
                attach.properties.push((TIMEOUT.into(), Value::UInt(wait_ms)));
                (Value::Null, *wait + PATIENCE)
            }
        };
        if let Some(source) = &mut attach.source {
            source.filter.push((SESSION_FILTER.into(), filter));
        }
        let full = || ClientError::Argument("the peer allows no more links".to_owned());
        let link = self.endpoint.attach(self.session, attach).ok_or_else(full)?;
        match self.attached(link, time_out).await {
            Err(error) if error.condition() == Some("com.microsoft:timeout") => return Ok(None),
            attached => attached?,
        }
        let source = self.links.get(link).accepted.as_ref().and_then(|attach| attach.source.as_ref());
        let filters = source.map(|source| source.filter.as_slice()).unwrap_or_default();
        let filter = filters.iter().find(|(key, _)| &**key == SESSION_FILTER).map(|(_, value)| value);
        let id = match filter {
            Some(Value::Described(described)) => described.value.as_str(),
            Some(value) => value.as_str(),
            None => None,
        };
        let id = id.ok_or_else(|| ClientError::Unreadable("the answer names no session".to_owned()))?;
        Ok(Some((link, id.to_owned())))
    }
}
