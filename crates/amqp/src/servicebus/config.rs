//! Settings of the dialect.

/// What an operator may choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialectConfig {
    /// Whether SASL PLAIN is accepted; default true.
    pub plain_enabled: bool,
    /// A connection that has shown nothing that grants access for this long is closed, in milliseconds; default 20 s, as
    /// Service Bus does it.
    pub authorization_time_out_ms: u64,
    /// Seed for tracking ids and generated message ids; `None` draws one from the operating system.
    pub seed: Option<u64>,
}

impl Default for DialectConfig {
    fn default() -> Self {
        Self { plain_enabled: true, authorization_time_out_ms: 20_000, seed: None }
    }
}
