//! XML input and output, with limits on a peer's input.

mod read;
mod write;

pub use read::Element;
pub(super) use read::parse;
pub(super) use write::Document;

/// The namespaces of the management API.
pub(super) const ATOM: &str = "http://www.w3.org/2005/Atom";
/// Descriptions of entities.
pub(super) const SERVICE_BUS: &str = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";
/// Counts of messages.
pub(super) const COUNTS: &str = "http://schemas.microsoft.com/netservices/2011/06/servicebus";
/// The attribute `type`.
pub(super) const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";
/// Types of values.
pub(super) const SCHEMA: &str = "http://www.w3.org/2001/XMLSchema";
/// Types of values that XML Schema does not have.
pub(super) const SERIALIZATION: &str = "http://schemas.microsoft.com/2003/10/Serialization/";
