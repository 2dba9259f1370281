//! Session ids, which are case-insensitive: Service Bus compares them without regard to case (azure-sdk-for-java 48759,
//! durabletask 1334). Each message keeps the spelling it was sent with.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The normalized form of a session id for comparisons: equal for two spellings of the same session.
#[must_use]
pub fn session_key(id: &str) -> Cow<'_, str> {
    if id.chars().all(|c| folded(c) == c) {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(id.chars().map(folded).collect())
    }
}

/// Folds the case of one character like .NET's `OrdinalIgnoreCase`: to a single character, and never from outside ASCII into
/// ASCII.
fn folded(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) if !upper.is_ascii() => upper,
        _ => c,
    }
}

/// A session id as it was spelled, with its normalized form. `==` compares the spelling.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionId {
    text: Arc<str>,
    key: Arc<str>,
}

impl SessionId {
    /// The original spelling.
    #[must_use]
    pub const fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The normalized form for comparisons.
    #[must_use]
    pub const fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Whether both are spellings of the same session.
    #[must_use]
    pub fn is_same_session(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl From<Arc<str>> for SessionId {
    fn from(text: Arc<str>) -> Self {
        let key = match session_key(&text) {
            Cow::Borrowed(_) => Arc::clone(&text),
            Cow::Owned(key) => key.into(),
        };
        Self { text, key }
    }
}

impl From<&str> for SessionId {
    fn from(text: &str) -> Self {
        Arc::<str>::from(text).into()
    }
}

impl From<Box<str>> for SessionId {
    fn from(text: Box<str>) -> Self {
        Arc::<str>::from(text).into()
    }
}

impl From<String> for SessionId {
    fn from(text: String) -> Self {
        Arc::<str>::from(text).into()
    }
}

impl Deref for SessionId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_session_have_one_key() {
        for (one, other) in [("SessionId", "sESSIONiD"), ("", ""), ("ÄÖÜ-é", "äöü-É"), ("ΟΔΟΣ", "οδος")]
        {
            assert_eq!(session_key(one), session_key(other), "{one} {other}");
            assert!(SessionId::from(one).is_same_session(&SessionId::from(other)));
        }
        for (one, other) in
            [("a", "b"), ("a", "a "), ("K", "\u{212a}"), ("i", "\u{131}"), ("ss", "ß"), ("s", "ſ")]
        {
            assert_ne!(session_key(one), session_key(other), "{one} {other}");
        }
    }

    #[test]
    fn a_spelling_is_kept_and_shared_with_its_key_where_both_are_equal() {
        let id = SessionId::from("order-1");
        assert!(Arc::ptr_eq(id.text(), id.key()));
        let id = SessionId::from("Order-1");
        assert_eq!((&**id.text(), &**id.key()), ("Order-1", "order-1"));
        assert_ne!(id, SessionId::from("order-1"));
    }
}
