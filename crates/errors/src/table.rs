//! The table. P: Python azure-servicebus 7.15.0, J: JS @azure/service-bus 7.9.5, N: .NET, each according to its error
//! mapping; spec: AMQP 1.0. Sub-codes are azure-sdk-for-net's constants.

use crate::condition::{
    ARGUMENT_ERROR, ARGUMENT_OUT_OF_RANGE, CONNECTION_FORCED, DECODE_ERROR, DETACH_FORCED,
    ENTITY_ALREADY_EXISTS, ENTITY_DISABLED, INTERNAL_ERROR, INVALID_FIELD, MESSAGE_LOCK_LOST,
    MESSAGE_NOT_FOUND, MESSAGE_SIZE_EXCEEDED, NOT_ALLOWED, NOT_FOUND, NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED, SERVER_BUSY, SESSION_CANNOT_BE_LOCKED, SESSION_LOCK_LOST, TIMEOUT,
    TRANSACTION_ROLLBACK, TRANSACTION_TIMEOUT, TRANSACTION_UNKNOWN_ID, UNAUTHORIZED_ACCESS,
};
use crate::{Amqp, Http, NO_SUB_CODE, Row};

const FINAL: bool = false;
const RETRYABLE: bool = true;
const NO_AMQP: Option<Amqp> = None;
const NO_HTTP: Option<Http> = None;

const fn amqp(condition: &'static str, status: i32) -> Option<Amqp> {
    Some(Amqp { condition, status })
}

const fn http(status: u16, sub_code: u16) -> Option<Http> {
    Some(Http { status, sub_code })
}

macro_rules! table {
    ($($kind:ident $meaning:literal $amqp:expr, $http:expr, $is_retryable:expr;)*) => {
        /// A kind of error reported to clients: a row of the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorKind {
            $(#[doc = $meaning] $kind,)*
        }

        impl ErrorKind {
            /// All rows, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// How it is reported.
            #[must_use]
            pub const fn row(self) -> Row {
                match self {
                    $(Self::$kind => {
                        Row { meaning: $meaning, amqp: $amqp, http: $http, is_retryable: $is_retryable }
                    })*
                }
            }

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)*
                }
            }
        }
    };
}

table! {
    // P, J, N: the exception for lost locks; 410 in the table of every SDK's management client.
    MessageLockLost "the lock of a message expired, or never existed"
        amqp(MESSAGE_LOCK_LOST, 410), http(404, 40400), FINAL;
    // P, J, N: SessionLockLost; 410 as above.
    SessionLockLost "the lock of a session expired, or another receiver holds it"
        amqp(SESSION_LOCK_LOST, 410), http(404, 40400), FINAL;
    // P, J, N: SessionCannotBeLocked, at attach.
    SessionCannotBeLocked "another receiver holds the session"
        amqp(SESSION_CANNOT_BE_LOCKED, 410), http(400, 40000), FINAL;
    // P: OperationTimeoutError, J, N: ServiceTimeout.
    NoSessionAvailable "no session became available in time"
        amqp(TIMEOUT, 408), http(503, 50004), RETRYABLE;
    // P, J, N: deferred receive and cancel of unknown numbers.
    MessageNotFound "there is no message with the sequence number in the state that the operation needs"
        amqp(MESSAGE_NOT_FOUND, 404), http(404, 40400), FINAL;
    // Spec 2.8.15; P: in its list of non-retryable errors.
    MessageDamaged "the stored data of the message is damaged"
        amqp(DECODE_ERROR, 400), http(500, 50001), FINAL;
    // P, J, N: MessageSizeExceeded; spec 2.8.18.
    MessageTooLarge "the message, a batch, or the properties are larger than the entity accepts"
        amqp(MESSAGE_SIZE_EXCEEDED, 403), http(403, 40300), FINAL;
    // Spec 2.8.15.
    MalformedMessage "the encoding of a message is broken"
        amqp(DECODE_ERROR, 400), http(400, 40000), FINAL;
    // P, J, N: QuotaExceeded, which SDKs treat as final.
    EntityFull "the entity has reached its size limit"
        amqp(RESOURCE_LIMIT_EXCEEDED, 403), http(403, 40300), FINAL;
    StorageFull "the broker's storage is full"
        amqp(RESOURCE_LIMIT_EXCEEDED, 403), http(403, 40300), FINAL;
    StateFull "the broker has no memory left for more messages"
        amqp(RESOURCE_LIMIT_EXCEEDED, 403), http(403, 40300), FINAL;
    // N and J: QuotaExceeded for 403; for 405, which the sub-codes of topics suggest, they have no specific exception.
    TooManyEntities "the namespace has its maximum number of queues and topics"
        amqp(RESOURCE_LIMIT_EXCEEDED, 403), http(403, 40300), FINAL;
    TooManySubscriptions "the topic has its maximum number of subscriptions"
        amqp(RESOURCE_LIMIT_EXCEEDED, 403), http(403, 40503), FINAL;
    TooManySqlFilters "the topic has its maximum number of SQL filters"
        amqp(RESOURCE_LIMIT_EXCEEDED, 403), http(403, 40501), FINAL;
    TooManyCorrelationFilters "the topic has its maximum number of correlation filters"
        amqp(RESOURCE_LIMIT_EXCEEDED, 403), http(403, 40502), FINAL;
    // P, J, N: MessagingEntityNotFound (J checks the text too).
    EntityNotFound "the entity to attach to, to describe or to change, or the rule, does not exist"
        amqp(NOT_FOUND, 404), http(404, 40400), FINAL;
    // The documentation of the REST operations on messages.
    EntityGone "the entity of an operation on messages does not exist, or was deleted"
        amqp(NOT_FOUND, 404), http(410, 41000), FINAL;
    // P, J, N: MessagingEntityAlreadyExists.
    EntityExists "an entity or rule of this name exists already"
        amqp(ENTITY_ALREADY_EXISTS, 409), http(409, 40900), FINAL;
    // P: MessagingEntityDisabledError, J, N: MessagingEntityDisabled.
    EntityDisabled "the status of the entity does not allow the operation"
        amqp(ENTITY_DISABLED, 400), http(403, 40301), FINAL;
    EntityDamaged "the stored data of the entity is damaged"
        amqp(ENTITY_DISABLED, 400), http(403, 40301), FINAL;
    // azure-service-bus 203.
    ForwardingTargetNotFound "a target of forwarding does not exist"
        NO_AMQP, http(400, 40400), FINAL;
    // P, J, N: ArgumentException and similar ones.
    InvalidArgument "a value is missing, of the wrong type or out of range"
        amqp(ARGUMENT_ERROR, 400), http(400, 40000), FINAL;
    // azure-sdk-for-js 34274: ArgumentOutOfRangeError.
    CountOutOfRange "the number of messages to delete is out of range"
        amqp(ARGUMENT_OUT_OF_RANGE, 400), NO_HTTP, FINAL;
    // Spec 2.8.15.
    InvalidField "a field of an attach, such as a selector, can't be understood"
        amqp(INVALID_FIELD, 400), NO_HTTP, FINAL;
    // A trace of the service of June 2026; N: InvalidOperationException.
    NotAllowed "the entity or message does not support the operation"
        amqp(NOT_ALLOWED, 400), http(400, 40000), FINAL;
    // Observed with a message without session id (azure-sdk-for-python 738), and with a receive from a queue that requires
    // sessions (azure-sdk-for-php 1024).
    OperationNotAllowed "the entity does not support the operation on messages"
        NO_AMQP, http(405, NO_SUB_CODE), FINAL;
    // P, J, N: NotSupportedException and similar ones; 501 for unknown operations of `$management`.
    NotImplemented "the operation or feature does not exist"
        amqp(NOT_IMPLEMENTED, 501), NO_HTTP, FINAL;
    // P, J, N: ServiceBusy, retried after some seconds.
    Unavailable "the entity is starting or stopping, memory is short, or too many requests are pending"
        amqp(SERVER_BUSY, 503), http(503, 50004), RETRYABLE;
    StorageFailing "the broker's storage can't be written at present"
        amqp(SERVER_BUSY, 503), http(503, 50004), RETRYABLE;
    Throttled "more messages per second than the operator allows"
        amqp(SERVER_BUSY, 503), http(503, 50004), RETRYABLE;
    // Spec 2.8.15.
    TooMuchUnsettled "the connection has too many unsettled deliveries"
        amqp(RESOURCE_LIMIT_EXCEEDED, 403), NO_HTTP, FINAL;
    // Spec 4.5.9; N: a general error, which its tests require.
    TransactionUnknown "the id names no open transaction of the connection"
        amqp(TRANSACTION_UNKNOWN_ID, 400), NO_HTTP, FINAL;
    TransactionRolledBack "an operation of the transaction was refused"
        amqp(TRANSACTION_ROLLBACK, 400), NO_HTTP, FINAL;
    TransactionTimedOut "the transaction took too long"
        amqp(TRANSACTION_TIMEOUT, 408), NO_HTTP, FINAL;
    // N: QuotaExceeded; a repetition would fail as well.
    TransactionTooLarge "too many messages in a transaction, or too many transactions, coordinator links or temporary entities on a connection"
        amqp(RESOURCE_LIMIT_EXCEEDED, 403), NO_HTTP, FINAL;
    // P, J, N: authorization errors; put-token: 401.
    RightMissing "no presented token has the right"
        amqp(UNAUTHORIZED_ACCESS, 401), http(401, 40100), FINAL;
    // The service's own text, without a sub-code, which the tests of Go's SDK assert.
    ManageRightMissing "the token lacks the right to read or change entities"
        NO_AMQP, http(401, NO_SUB_CODE), FINAL;
    GrantEnded "the token, key or rule that authorized an open link expired or was changed"
        amqp(UNAUTHORIZED_ACCESS, 401), NO_HTTP, FINAL;
    // P: ServiceBusConnectionError, retried, as J and N.
    LinkIdle "a link was not used for `amqp.link_idle_time_out`"
        amqp(DETACH_FORCED, 408), NO_HTTP, RETRYABLE;
    NoLinks "a connection had no link for `amqp.no_link_time_out`, or none in its first minute"
        amqp(CONNECTION_FORCED, 408), NO_HTTP, RETRYABLE;
    TokenMissing "the request has no token"
        amqp(UNAUTHORIZED_ACCESS, 401), http(401, 40102), FINAL;
    TokenSignature "the signature of the token is wrong, or its issuer is not accepted"
        amqp(UNAUTHORIZED_ACCESS, 401), http(401, 40103), FINAL;
    TokenAudience "the token is for another resource"
        amqp(UNAUTHORIZED_ACCESS, 401), http(401, 40104), FINAL;
    TokenMalformed "the token can't be read"
        amqp(UNAUTHORIZED_ACCESS, 401), http(401, 40105), FINAL;
    TokenExpired "the token has expired, or is not valid yet"
        amqp(UNAUTHORIZED_ACCESS, 401), http(401, 40106), FINAL;
    // All SDKs retry; after 401 they don't.
    IssuerKeyUnknown "the issuer's keys are being fetched"
        amqp(SERVER_BUSY, 503), http(503, 50004), RETRYABLE;
    // The service's own text, without a sub-code.
    NoDescription "a dead-letter queue or management node has no description"
        NO_AMQP, http(400, NO_SUB_CODE), FINAL;
    MethodNotAllowed "the path does not support the method"
        NO_AMQP, http(405, 40500), FINAL;
    BodyTimeOut "the body of a request did not come in time"
        NO_AMQP, http(408, 40800), RETRYABLE;
    PreconditionFailed "the request has a condition other than If-Match: *"
        NO_AMQP, http(412, 41200), FINAL;
    BodyTooLarge "the body of a request is too large"
        NO_AMQP, http(413, 41300), FINAL;
    // Only for the management API in JSON; ATOM accepts any type.
    BodyTypeUnknown "the content type of a request is not supported"
        NO_AMQP, http(415, 41500), FINAL;
    // Never seen by a client that follows the protocol; spec 2.8.15.
    Internal "an internal error of the broker"
        amqp(INTERNAL_ERROR, 500), http(500, 50000), RETRYABLE;
}
