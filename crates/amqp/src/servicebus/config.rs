//! Settings of the dialect.

use peeklock_engine::Tier;

/// Capabilities that JMS clients require: delayed messages, links without a target, shared subscriptions.
pub const CAPABILITIES: [&str; 3] = ["DELAYED_DELIVERY", "ANONYMOUS-RELAY", "SHARED-SUBS"];

/// Settings that an operator may choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialectConfig {
    /// Whether SASL PLAIN is accepted; default true.
    pub plain_enabled: bool,
    /// A connection without a valid credential is closed after this time, in milliseconds; default 20 s, as in Service
    /// Bus.
    pub authorization_time_out_ms: u64,
    /// Limits of transactions.
    pub transactions: TransactionLimits,
    /// When unused links and connections end; default never.
    pub idle: IdleLimits,
    /// The tier of the namespace; the lowest has no transactions.
    pub tier: Tier,
    /// The namespace's name in error messages; default `peeklock`.
    pub namespace: String,
    /// Seed for tracking ids and generated message ids; `None` draws one from the operating system.
    pub seed: Option<u64>,
}

impl Default for DialectConfig {
    fn default() -> Self {
        Self {
            plain_enabled: true,
            authorization_time_out_ms: 20_000,
            transactions: TransactionLimits::default(),
            idle: IdleLimits::default(),
            tier: Tier::Premium,
            namespace: "peeklock".to_owned(),
            seed: None,
        }
    }
}

/// Limits of transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionLimits {
    /// Time after its first operation at which a transaction is rolled back, in milliseconds; default two minutes, as
    /// in Service Bus.
    pub time_out_ms: u64,
    /// Messages that one transaction may send; default 100, as in Service Bus.
    pub messages_max: usize,
    /// Transactions that one connection may have open at a time; default 1 000.
    pub open_max: usize,
}

impl Default for TransactionLimits {
    fn default() -> Self {
        Self { time_out_ms: 120_000, messages_max: 100, open_max: 1_000 }
    }
}

/// Limits of the time for which links and connections may be unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdleLimits {
    /// A link to an entity that is not used for this time is detached, in milliseconds; ten minutes in Service Bus.
    pub link_ms: Option<u64>,
    /// A connection without a link for this time is closed, in milliseconds; five minutes in Service Bus.
    pub no_link_ms: Option<u64>,
}
