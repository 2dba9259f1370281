//! Operations of management nodes.

use bytes::Bytes;
use peeklock_wire::Value;
use uuid::Uuid;

use super::connection::Client;
use super::requests::Response;
use super::transactions::TransactionId;
use crate::ClientError;

/// Maximum number of messages in one answer.
const PEEK_MAX: u32 = 250;
const SESSIONS_TOP: i32 = 250;
/// .NET's `DateTime.MaxValue`: sessions with messages, whenever they were changed.
const ANY_TIME_MS: i64 = 253_402_300_800_000;

/// Messages in the order of their sequence numbers.
#[derive(Debug, Default)]
pub struct Page {
    /// The encoded messages.
    pub messages: Vec<Bytes>,
}

/// A deferred message received by its sequence number.
#[derive(Debug, Clone)]
pub struct Received {
    /// The encoded message.
    pub payload: Bytes,
    /// Its lock.
    pub lock_token: Option<Uuid>,
}

impl Client {
    /// Sends a request to the management node of an entity or a sub-queue.
    async fn manage(
        &mut self,
        address: &str,
        operation: &str,
        body: Vec<(&str, Value)>,
        transaction: Option<&TransactionId>,
    ) -> Result<Response, ClientError> {
        let node = format!("{address}/$management");
        self.authorize(&node).await?;
        let links = match self.nodes.get(&node) {
            Some(links) => links.clone(),
            None => {
                let links = self.attach_node(self.session, &node).await?;
                self.nodes.insert(node, links.clone());
                links
            }
        };
        let operation = [("operation", Value::from(format!("com.microsoft:{operation}").as_str()))];
        let body = body.into_iter().map(|(key, value)| (Value::from(key), value)).collect();
        self.request(&links, &operation, &Value::Map(body), transaction).await
    }

    /// Browses at most `most` messages from a sequence number on (a broker may return fewer); an empty page is the end.
    ///
    /// # Errors
    /// A refusal of the broker.
    pub async fn peek(
        &mut self,
        address: &str,
        from: i64,
        most: u32,
        session: Option<&str>,
    ) -> Result<Page, ClientError> {
        let count = i32::try_from(most.clamp(1, PEEK_MAX)).unwrap_or(i32::MAX);
        let mut body =
            vec![("from-sequence-number", Value::Long(from)), ("message-count", Value::Int(count))];
        body.extend(session.map(|session| ("session-id", Value::from(session))));
        let response = self.manage(address, "peek-message", body, None).await?;
        Ok(Page { messages: messages(&response)?.into_iter().map(|received| received.payload).collect() })
    }

    /// Locks deferred messages by their sequence numbers.
    ///
    /// # Errors
    /// One of them does not exist, or the connection does not hold the session.
    pub async fn receive_deferred(
        &mut self,
        address: &str,
        session: Option<&str>,
        numbers: &[i64],
    ) -> Result<Vec<Received>, ClientError> {
        let mut body = vec![
            ("sequence-numbers", Value::array_of_longs(numbers)),
            ("receiver-settle-mode", Value::UInt(1)),
        ];
        body.extend(session.map(|session| ("session-id", Value::from(session))));
        messages(&self.manage(address, "receive-by-sequence-number", body, None).await?)
    }

    /// Completes messages by their lock tokens.
    ///
    /// # Errors
    /// A lock was lost.
    pub async fn complete_by_token(
        &mut self,
        address: &str,
        session: Option<&str>,
        tokens: &[Uuid],
        transaction: Option<&TransactionId>,
    ) -> Result<(), ClientError> {
        let body = disposition("completed", session, tokens);
        self.manage(address, "update-disposition", body, transaction).await.map(|_| ())
    }

    /// Abandons messages by their lock tokens; deferred ones stay deferred.
    ///
    /// # Errors
    /// A lock was lost.
    pub async fn abandon_by_token(
        &mut self,
        address: &str,
        session: Option<&str>,
        tokens: &[Uuid],
    ) -> Result<(), ClientError> {
        let body = disposition("abandoned", session, tokens);
        self.manage(address, "update-disposition", body, None).await.map(|_| ())
    }

    /// Renews locks.
    ///
    /// # Errors
    /// One of the locks was lost.
    pub async fn renew_locks(&mut self, address: &str, tokens: &[Uuid]) -> Result<(), ClientError> {
        let tokens = tokens.iter().map(|token| Value::Uuid(*token.as_bytes()));
        let tokens = Value::Array(tokens.collect());
        self.manage(address, "renew-lock", vec![("lock-tokens", tokens)], None).await.map(|_| ())
    }

    /// Stores a message until the time in its annotation `x-opt-scheduled-enqueue-time`; returns its sequence number.
    ///
    /// # Errors
    /// A refusal of the broker.
    pub async fn schedule(
        &mut self,
        entity: &str,
        id: &str,
        message: Bytes,
    ) -> Result<Option<i64>, ClientError> {
        let entry = vec![
            (Value::from("message-id"), Value::from(id)),
            (Value::from("message"), Value::Binary(message)),
        ];
        let body = vec![("messages", Value::List(vec![Value::Map(entry)]))];
        let response = self.manage(entity, "schedule-message", body, None).await?;
        let numbers = response.body.get("sequence-numbers").and_then(Value::as_elements);
        Ok(numbers.and_then(<[Value]>::first).and_then(Value::as_i64))
    }

    /// Deletes messages that are still scheduled.
    ///
    /// # Errors
    /// One of them does not exist.
    pub async fn cancel_scheduled(&mut self, entity: &str, numbers: &[i64]) -> Result<(), ClientError> {
        let body = vec![("sequence-numbers", Value::array_of_longs(numbers))];
        self.manage(entity, "cancel-scheduled-message", body, None).await.map(|_| ())
    }

    /// Deletes the oldest messages enqueued until a time in milliseconds since 1970; returns their number.
    ///
    /// # Errors
    /// A refusal of the broker.
    pub async fn delete_batch(
        &mut self,
        address: &str,
        most: u32,
        until_ms: i64,
    ) -> Result<u64, ClientError> {
        let count = i32::try_from(most).unwrap_or(i32::MAX);
        let body =
            vec![("message-count", Value::Int(count)), ("enqueued-time-utc", Value::Timestamp(until_ms))];
        let response = self.manage(address, "batch-delete-messages", body, None).await?;
        let deleted = response.body.get("message-count").and_then(Value::as_i64).unwrap_or(0);
        Ok(u64::try_from(deleted).unwrap_or(0))
    }

    /// The ids of sessions that have messages, or a state.
    ///
    /// # Errors
    /// The entity has no sessions.
    pub async fn sessions(&mut self, address: &str) -> Result<Vec<String>, ClientError> {
        let mut found = Vec::new();
        loop {
            let skip = i32::try_from(found.len()).unwrap_or(i32::MAX);
            let body = vec![
                ("last-updated-time", Value::Timestamp(ANY_TIME_MS)),
                ("skip", Value::Int(skip)),
                ("top", Value::Int(SESSIONS_TOP)),
            ];
            let response = self.manage(address, "get-message-sessions", body, None).await?;
            let ids = response.body.get("sessions-ids").and_then(Value::as_elements).unwrap_or_default();
            if response.status == 204 || ids.is_empty() {
                return Ok(found);
            }
            found.extend(ids.iter().filter_map(Value::as_str).map(str::to_owned));
        }
    }

    /// Renews the lock of a session that this connection holds, and with it those of its messages.
    ///
    /// # Errors
    /// The connection does not hold the session.
    pub async fn renew_session_lock(&mut self, address: &str, id: &str) -> Result<(), ClientError> {
        let body = vec![("session-id", Value::from(id))];
        self.manage(address, "renew-session-lock", body, None).await.map(|_| ())
    }

    /// The state of a session that this connection holds.
    ///
    /// # Errors
    /// The connection does not hold the session.
    pub async fn session_state(&mut self, address: &str, id: &str) -> Result<Option<Bytes>, ClientError> {
        let body = vec![("session-id", Value::from(id))];
        let response = self.manage(address, "get-session-state", body, None).await?;
        match response.body.get("session-state") {
            Some(Value::Binary(state)) => Ok(Some(state.clone())),
            _ => Ok(None),
        }
    }

    /// Sets or clears the state of a session that this connection holds.
    ///
    /// # Errors
    /// The connection does not hold the session.
    pub async fn set_session_state(
        &mut self,
        address: &str,
        id: &str,
        state: Option<Bytes>,
    ) -> Result<(), ClientError> {
        let state = state.map_or(Value::Null, Value::Binary);
        let body = vec![("session-id", Value::from(id)), ("session-state", state)];
        self.manage(address, "set-session-state", body, None).await.map(|_| ())
    }
}

/// The arguments of a settlement by lock tokens; for messages in a session with its id.
fn disposition(status: &str, session: Option<&str>, tokens: &[Uuid]) -> Vec<(&'static str, Value)> {
    let tokens = tokens.iter().map(|token| Value::Uuid(*token.as_bytes())).collect();
    let mut body = vec![("disposition-status", Value::from(status)), ("lock-tokens", Value::Array(tokens))];
    body.extend(session.map(|session| ("session-id", Value::from(session))));
    body
}

fn messages(response: &Response) -> Result<Vec<Received>, ClientError> {
    let entries = response.body.get("messages").and_then(Value::as_elements).unwrap_or_default();
    let read = |entry: &Value| match entry.get("message") {
        Some(Value::Binary(payload)) => {
            let lock_token = match entry.get("lock-token") {
                Some(Value::Uuid(token)) => Some(Uuid::from_bytes(*token)),
                _ => None,
            };
            Ok(Received { payload: payload.clone(), lock_token })
        }
        _ => Err(ClientError::Unreadable("an entry without a message".to_owned())),
    };
    entries.iter().map(read).collect()
}
