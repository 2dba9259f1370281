//! The one place that decides whether a connection may do something.
//!
//! Tokens belong to a connection and cover a path and all below it. Whether a token is genuine is not looked at
//! yet: every well-formed token grants every right on its audience.

use std::collections::HashMap;

use super::address::{self, EntityAddress};
use super::errors::Fault;
use super::token::Token;

/// Audiences one connection may hold tokens for; further ones are refused.
pub(crate) const TOKENS_MAX: usize = 10_000;

/// What an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// Attach as sender, schedule, cancel.
    Send,
    /// Attach as receiver, browse, settle, renew.
    Listen,
    /// Change and list rules.
    Manage,
}

impl Right {
    fn name(self) -> &'static str {
        match self {
            Self::Send => "Send",
            Self::Listen => "Listen",
            Self::Manage => "Manage",
        }
    }
}

/// The tokens of one connection.
#[derive(Debug, Default)]
pub(crate) struct Authorization {
    required: bool,
    /// By audience key, see [`address::audience_key`].
    tokens: HashMap<String, Token>,
}

impl Authorization {
    /// With `required`, nothing is permitted before a token; without, everything is.
    #[must_use]
    pub(crate) fn new(required: bool) -> Self {
        Self { required, tokens: HashMap::new() }
    }

    /// Keeps a token for an audience; one that is there already is replaced, links are not disturbed.
    ///
    /// # Errors
    /// Malformed tokens and audiences, more than [`TOKENS_MAX`].
    pub(crate) fn put(&mut self, audience: &str, token: &str) -> Result<(), Fault> {
        let token = Token::parse(token)?;
        let key = address::audience_key(audience)
            .ok_or_else(|| Fault::Argument(format!("The audience '{}' is no address.", excerpt(audience))))?;
        if self.tokens.len() >= TOKENS_MAX && !self.tokens.contains_key(&key) {
            return Err(Fault::NotAllowed("A connection holds tokens for at most 10 000 audiences."));
        }
        self.tokens.insert(key, token);
        Ok(())
    }

    /// Whether an operation on an entity may go ahead.
    ///
    /// # Errors
    /// [`Fault::Unauthorized`].
    pub(crate) fn permit(&self, entity: &EntityAddress, right: Right, uri: &str) -> Result<(), Fault> {
        if !self.required || self.covers(&entity.key()) {
            return Ok(());
        }
        Err(Fault::Unauthorized { right: right.name(), uri: uri.to_owned() })
    }

    fn covers(&self, path: &str) -> bool {
        let mut scope = path;
        loop {
            if self.tokens.contains_key(scope) {
                return true;
            }
            match scope.rsplit_once('/') {
                Some((parent, _)) => scope = parent,
                None => return self.tokens.contains_key(""),
            }
        }
    }
}

/// At most the first hundred characters, for error texts.
pub(crate) fn excerpt(text: &str) -> &str {
    text.char_indices().nth(100).map_or(text, |(end, _)| text.get(..end).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servicebus::address::{Address, parse};

    const TOKEN: &str = "SharedAccessSignature sr=x&sig=y&se=1&skn=k";

    fn entity(path: &str) -> EntityAddress {
        match parse(path) {
            Ok(Address::Entity(entity)) => entity,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_requirement_everything_is_permitted() {
        assert!(Authorization::new(false).permit(&entity("q"), Right::Send, "q").is_ok());
    }

    #[test]
    fn a_token_covers_its_path_and_all_below() {
        let mut authorization = Authorization::new(true);
        let refused = authorization.permit(&entity("q"), Right::Listen, "sb://h/q");
        assert_eq!(refused, Err(Fault::Unauthorized { right: "Listen", uri: "sb://h/q".into() }));
        authorization.put("sb://host:5672/Q/$management", TOKEN).unwrap();
        assert!(authorization.permit(&entity("q"), Right::Listen, "").is_ok());
        assert!(authorization.permit(&entity("q/$DeadLetterQueue"), Right::Listen, "").is_ok());
        assert!(authorization.permit(&entity("qq"), Right::Listen, "").is_err());
        authorization.put("sb://host/", TOKEN).unwrap();
        assert!(authorization.permit(&entity("other"), Right::Send, "").is_ok());
    }

    #[test]
    fn malformed_tokens_leave_nothing_behind() {
        let mut authorization = Authorization::new(true);
        assert!(authorization.put("sb://h/q", "nonsense").is_err());
        assert!(authorization.permit(&entity("q"), Right::Send, "").is_err());
    }

    #[test]
    fn excerpts_end_on_character_boundaries() {
        assert_eq!(excerpt(&"ä".repeat(300)).chars().count(), 100);
        assert_eq!(excerpt("short"), "short");
    }
}
