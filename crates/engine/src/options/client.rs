//! Client-scoped subscriptions for JMS ("client-affine" in Service Bus's administration).

/// Longest client id in the name of a subscription, in characters.
pub const CLIENT_ID_CHARS_MAX: usize = 128;

/// Separates the parts of the name of such a subscription.
const DELIMITER: char = '$';

/// The client of a subscription created by a client for JMS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientAffinity {
    /// The client id; empty for all clients without one.
    pub client_id: Box<str>,
    /// Whether it exists until a client unsubscribes; otherwise it exists only while it has consumers.
    pub is_durable: bool,
    /// Whether it may have several consumers at a time.
    pub is_shared: bool,
    /// The selector requested by the client. Changes of rules by administrators do not change it.
    pub selector: Option<Box<str>>,
}

impl ClientAffinity {
    /// The name of the subscription in its topic: `NAME$CLIENT-ID$D` if it is durable, else `NAME$CLIENT-ID$ND` (Service Bus's
    /// documentation, "Representation of client scoped subscriptions").
    ///
    /// # Errors
    /// The reason why `name` or the client id is invalid, as a sentence.
    pub fn subscription_name(&self, name: &str) -> Result<String, String> {
        crate::names::check_rule_name(name)
            .map_err(|reason| format!("{name:?} can't be the name of a subscription: {reason}."))?;
        if name.contains(DELIMITER) {
            return Err(format!(
                "{name:?} can't be the name of a subscription of a client: it contains \"$\"."
            ));
        }
        crate::names::check_client_id(&self.client_id).map_err(|reason| {
            format!("{:?} can't be the client id of a subscription: {reason}.", self.client_id)
        })?;
        let durability = if self.is_durable { "D" } else { "ND" };
        Ok(format!("{name}{DELIMITER}{}{DELIMITER}{durability}", self.client_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_three_parts_and_only_one_reading() {
        let affinity = |client_id: &str, is_durable| ClientAffinity {
            client_id: client_id.into(),
            is_durable,
            ..ClientAffinity::default()
        };
        assert_eq!(affinity("c", true).subscription_name("s").unwrap(), "s$c$D");
        assert_eq!(affinity("", false).subscription_name("s").unwrap(), "s$$ND");
        assert_eq!(affinity("ID:1:1", true).subscription_name("s").unwrap(), "s$ID:1:1$D");
        for (client_id, name) in
            [("c", "a$b"), ("c", ""), ("c", "a/b"), ("a/b", "s"), ("a\n", "s"), (&*"x".repeat(129), "s")]
        {
            assert!(affinity(client_id, true).subscription_name(name).is_err(), "{client_id} {name}");
        }
    }
}
