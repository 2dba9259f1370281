//! Tokens: put to `$cbs` before a link is attached, and renewed before they expire.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use peeklock_wire::Value;

use super::connection::Client;
use crate::{ClientError, Credentials};

const LIFETIME: Duration = Duration::from_secs(60 * 60);
/// Age at which a token is renewed.
const RENEW_AFTER: Duration = Duration::from_secs(45 * 60);

/// The addresses with tokens, and when to renew each.
#[derive(Debug, Default)]
pub(super) struct Grants(HashMap<String, Instant>);

impl Client {
    /// Puts a token for an address unless a recent one was put.
    pub(super) async fn authorize(&mut self, address: &str) -> Result<(), ClientError> {
        let audience = self.target.audience(address);
        if self.grants.0.get(&audience).is_some_and(|renew_at| *renew_at > Instant::now()) {
            return Ok(());
        }
        let token = match &self.target.credentials {
            Credentials::None => return Ok(()),
            Credentials::Key(key) => key.token(&audience, LIFETIME),
            Credentials::Token(token) => token.clone(),
        };
        let links = match self.cbs.clone() {
            Some(links) => links,
            None => {
                // In a separate AMQP session: the first link of the other session determines the root of transactions.
                let session = self.endpoint.begin();
                let session = session.ok_or_else(|| ClientError::Argument("no AMQP session".to_owned()))?;
                let links = self.attach_node(session, "$cbs").await?;
                self.cbs.insert(links).clone()
            }
        };
        let kind = if token.starts_with("SharedAccessSignature") {
            "servicebus.windows.net:sastoken"
        } else {
            "jwt"
        };
        let properties = [
            ("operation", Value::from("put-token")),
            ("type", Value::from(kind)),
            ("name", Value::from(audience.as_str())),
        ];
        self.request(&links, &properties, &Value::from(token.as_str()), None).await?;
        self.grants.0.insert(audience, Instant::now() + RENEW_AFTER);
        Ok(())
    }

    /// Renews tokens that are about to expire. To be called regularly while links stay attached.
    ///
    /// # Errors
    /// The broker refuses a token.
    pub async fn renew_tokens(&mut self) -> Result<(), ClientError> {
        let now = Instant::now();
        let due = self.grants.0.iter().filter(|(_, renew_at)| **renew_at <= now);
        let prefix = self.target.audience("");
        let due: Vec<String> =
            due.filter_map(|(audience, _)| audience.strip_prefix(&prefix).map(str::to_owned)).collect();
        for address in due {
            self.authorize(&address).await?;
        }
        Ok(())
    }
}
