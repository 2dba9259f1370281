//! The one table of errors: what clients are told about each, over AMQP and over HTTP. Both front ends take conditions,
//! statuses and sub-codes from here; `docs/errors.md` shows the same table.

pub mod condition;
mod kind;
mod table;
#[cfg(test)]
mod tests;

pub use table::ErrorKind;

/// What stands for the sub-code of errors that are written without one.
pub const NO_SUB_CODE: u16 = 0;

/// What clients are told about one kind of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// When it occurs, for people.
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
    /// Of links, transfers and responses.
    pub condition: &'static str,
    /// Of responses of `$management` and `$cbs`.
    pub status: i32,
}

/// An error over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http {
    /// Of the response.
    pub status: u16,
    /// In the text of the response: azure-sdk-for-net's constants; [`NO_SUB_CODE`] where the service writes none.
    pub sub_code: u16,
}
