//! Error conditions over AMQP, as symbols: those of AMQP 1.0 that the table uses, and those of Service Bus.
#![allow(missing_docs)] // reason: each constant is named like its symbol

pub const CONNECTION_FORCED: &str = "amqp:connection:forced";
pub const DECODE_ERROR: &str = "amqp:decode-error";
pub const DETACH_FORCED: &str = "amqp:link:detach-forced";
pub const INTERNAL_ERROR: &str = "amqp:internal-error";
pub const INVALID_FIELD: &str = "amqp:invalid-field";
pub const MESSAGE_SIZE_EXCEEDED: &str = "amqp:link:message-size-exceeded";
pub const NOT_ALLOWED: &str = "amqp:not-allowed";
pub const NOT_FOUND: &str = "amqp:not-found";
pub const NOT_IMPLEMENTED: &str = "amqp:not-implemented";
pub const RESOURCE_LIMIT_EXCEEDED: &str = "amqp:resource-limit-exceeded";
pub const TRANSACTION_ROLLBACK: &str = "amqp:transaction:rollback";
pub const TRANSACTION_TIMEOUT: &str = "amqp:transaction:timeout";
pub const TRANSACTION_UNKNOWN_ID: &str = "amqp:transaction:unknown-id";
pub const UNAUTHORIZED_ACCESS: &str = "amqp:unauthorized-access";

pub const ARGUMENT_ERROR: &str = "com.microsoft:argument-error";
pub const ARGUMENT_OUT_OF_RANGE: &str = "com.microsoft:argument-out-of-range";
pub const DEAD_LETTER: &str = "com.microsoft:dead-letter";
pub const ENTITY_ALREADY_EXISTS: &str = "com.microsoft:entity-already-exists";
pub const ENTITY_DISABLED: &str = "com.microsoft:entity-disabled";
pub const MESSAGE_LOCK_LOST: &str = "com.microsoft:message-lock-lost";
pub const MESSAGE_NOT_FOUND: &str = "com.microsoft:message-not-found";
pub const SERVER_BUSY: &str = "com.microsoft:server-busy";
pub const SESSION_CANNOT_BE_LOCKED: &str = "com.microsoft:session-cannot-be-locked";
pub const SESSION_LOCK_LOST: &str = "com.microsoft:session-lock-lost";
pub const SESSION_NOT_FOUND: &str = "com.microsoft:session-not-found";
pub const TIMEOUT: &str = "com.microsoft:timeout";
