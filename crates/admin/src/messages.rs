//! Messages over HTTP, for other front ends: places, drafts, bodies, and memory for requests and answers.

use axum::body::Body;
use bytes::Bytes;
use peeklock_budget::Share;

use crate::Admin;
use crate::error::Error;
use crate::rest;

pub use rest::Room;
pub use rest::broker_properties::MessageSettings;
pub use rest::draft::Draft;
pub use rest::locks::ask;
pub use rest::payload::of as payload;
pub use rest::place::Place;
pub use rest::refusal::error as refused;

impl Admin {
    /// Reserves memory for an answer of this size until the share is dropped.
    ///
    /// # Errors
    /// 503 if memory is short.
    pub fn room_for_answer(&self, bytes: usize) -> Result<Share, Error> {
        self.limits.answer(bytes)
    }

    /// Reads the body of a request, of at most `bytes_max`. Its memory is reserved until the room is dropped.
    ///
    /// # Errors
    /// 413 for a longer one, 408 when no data arrives for too long, 400 when it ends early, 503 if memory is short.
    pub async fn body(&self, body: Body, bytes_max: u64) -> Result<(Bytes, Room), Error> {
        rest::body::read(&self.limits, body, bytes_max).await
    }

    /// Checks that the rate limits of an entity and of an identity allow one more request.
    ///
    /// # Errors
    /// 429 or 503, as for other requests.
    pub fn check_rates(&self, entity: &str, principal: &str) -> Result<(), Error> {
        rest::check_rates(self, entity, principal)
    }
}
