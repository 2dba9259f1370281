//! Settings of the dialect.

/// What an operator may choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialectConfig {
    /// Whether links to entities need a token put to `$cbs` before; default false, so that generic AMQP clients work.
    pub require_token: bool,
    /// Whether SASL PLAIN is accepted, with any user and password; default true.
    pub plain_enabled: bool,
    /// Seed for tracking ids and generated message ids; `None` draws one from the operating system.
    pub seed: Option<u64>,
}

impl Default for DialectConfig {
    fn default() -> Self {
        Self { require_token: false, plain_enabled: true, seed: None }
    }
}
