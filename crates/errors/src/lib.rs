//! The only table of errors as reported to clients over AMQP and HTTP. Both front ends take conditions, statuses and
//! sub-codes from here; `docs/errors.md` contains the same table.

pub mod condition;
mod kind;
mod table;
#[cfg(test)]
mod tests;

pub use table::ErrorKind;

/// Placeholder for the sub-code of errors that are reported without one.
pub const NO_SUB_CODE: u16 = 0;

/// How one kind of error is reported to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// When it occurs, for documentation.
    pub meaning: &'static str,
    /// Over AMQP; `None` for errors of HTTP only.
    pub amqp: Option<Amqp>,
    /// Over HTTP; `None` for errors of AMQP only.
    pub http: Option<Http>,
    /// Whether the same request may succeed later without a change by its sender.
    pub is_retryable: bool,
}

/// An error over AMQP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amqp {
    /// Condition in detach, disposition and response.
    pub condition: &'static str,
    /// Status in responses of `$management` and `$cbs`.
    pub status: i32,
}

/// An error over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http {
    /// Status of the response.
    pub status: u16,
    /// Sub-code in the text of the response: azure-sdk-for-net's constants; [`NO_SUB_CODE`] where the service writes
    /// none.
    pub sub_code: u16,
}
