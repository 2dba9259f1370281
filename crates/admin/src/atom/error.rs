//! Errors of the management API (azure-sdk-for-net's constants).

use peeklock_access::AddressError;
use peeklock_engine::Refusal;
use peeklock_engine::runtime::{ChangeError, StorageError};
use peeklock_errors::ErrorKind;

use crate::error::Error;

impl Error {
    /// The entity does not exist.
    pub(super) fn entity_not_found(name: &str) -> Self {
        Self::of(
            ErrorKind::EntityNotFound,
            format!("Not Found. The messaging entity '{name}' could not be found."),
        )
    }

    /// The entity to be created exists.
    pub(super) fn exists(name: &str) -> Self {
        let text = format!("Conflict. The messaging entity '{name}' already exists.");
        Self::of(ErrorKind::EntityExists, text)
    }

    /// The path is not a valid address.
    pub(super) fn address(error: &AddressError) -> Self {
        Self::bad_request(sentence(&error.to_string()))
    }

    /// The path has no description: the service's own wording, without a sub-code.
    pub(super) fn verb(method: &str) -> Self {
        let text = format!("The specified HTTP verb ({method}) is not valid.");
        Self::of(ErrorKind::NoDescription, text)
    }

    /// Only `If-Match: *` is supported.
    pub(super) fn precondition() -> Self {
        let text = "Precondition Failed. This broker keeps no versions of entities: the only supported condition is 'If-Match: *'.";
        Self::of(ErrorKind::PreconditionFailed, text)
    }

    /// The method is not supported for this path.
    pub(super) fn method(method: &str, path: &str) -> Self {
        let text = format!("Method Not Allowed. '{path}' does not support {method}.");
        Self::of(ErrorKind::MethodNotAllowed, text)
    }

    /// The body is too large.
    pub(super) fn too_large(bytes_max: usize) -> Self {
        let text = format!("Payload Too Large. The body of a request has at most {bytes_max} bytes.");
        Self::of(ErrorKind::BodyTooLarge, text)
    }

    /// The body did not arrive in time.
    pub(super) fn time_out() -> Self {
        let text = "Request Timeout. The body of the request did not come in time.";
        Self::of(ErrorKind::BodyTimeOut, text)
    }

    /// A refusal of the engine: when a quota is exceeded, the service begins the text with the status.
    fn refused(refusal: &Refusal) -> Self {
        let kind = ErrorKind::from(refusal);
        let text = match kind {
            ErrorKind::TooManyEntities
            | ErrorKind::TooManySubscriptions
            | ErrorKind::TooManySqlFilters
            | ErrorKind::TooManyCorrelationFilters => format!("Forbidden. {refusal}"),
            _ => sentence(&refusal.to_string()),
        };
        Self::of(kind, text)
    }

    fn from_storage(error: &StorageError) -> Self {
        match error {
            StorageError::Full { .. } => Self::of(
                ErrorKind::StorageFull,
                "Forbidden. The broker's storage is full; changes are accepted again as soon as there is room.",
            ),
            StorageError::TooLarge { reason } => Self::bad_request(sentence(reason)),
            // Nothing was changed, and a retry may reach the shard's next owner.
            StorageError::Unavailable { .. }
            | StorageError::System { .. }
            | StorageError::Unreadable { .. }
            | StorageError::Fenced { .. }
            | StorageError::Stopped { .. } => {
                Self::busy("The broker is not available for changes now; retry the operation.")
            }
            // Details about the data on disk belong in the log, not in an answer.
            StorageError::InDoubt { .. } | StorageError::Corrupt { .. } => Self::internal(),
        }
    }
}

/// A change that the engine refused.
impl From<ChangeError> for Error {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::NotFound { name } => Self::entity_not_found(&name),
            ChangeError::Exists { name } => Self::exists(&name),
            ChangeError::Invalid { reason } => Self::bad_request(sentence(&reason)),
            ChangeError::Refused(refusal) => Self::refused(&refusal),
            ChangeError::Store(error) => Self::from_storage(&error),
        }
    }
}

/// A reason formatted as a sentence.
fn sentence(reason: &str) -> String {
    let mut letters = reason.chars();
    let first = letters.next().map_or_else(String::new, |first| first.to_uppercase().collect());
    let end = if reason.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use peeklock_access::Denied;

    use super::*;

    fn store(error: StorageError) -> Error {
        ChangeError::Store(error).into()
    }

    #[test]
    fn every_failure_has_its_status_and_sub_code() {
        let reason = String::from("r");
        let name = String::from("q");
        for (error, status, sub_code) in [
            (Error::bad_request("x"), 400, 40000),
            (ChangeError::Invalid { reason: reason.clone() }.into(), 400, 40000),
            (store(StorageError::TooLarge { reason: reason.clone() }), 400, 40000),
            (Denied::Missing.into(), 401, 40102),
            (Denied::Signature.into(), 401, 40103),
            (Denied::Audience.into(), 401, 40104),
            (Denied::Malformed("m").into(), 401, 40105),
            (Denied::Expired(peeklock_engine::Timestamp(0)).into(), 401, 40106),
            (Denied::Right { right: "Manage" }.into(), 401, 40100),
            (store(StorageError::Full { reason: reason.clone() }), 403, 40300),
            (ChangeError::NotFound { name: name.clone() }.into(), 404, 40400),
            (Error::method("POST", "q"), 405, 40500),
            (Error::verb("GET"), 400, 0),
            (ChangeError::Refused(Refusal::TooManyEntities(1)).into(), 403, 40300),
            (ChangeError::Refused(Refusal::TooManySqlFilters(1)).into(), 403, 40501),
            (ChangeError::Refused(Refusal::TooManyCorrelationFilters(1)).into(), 403, 40502),
            (ChangeError::Refused(Refusal::TooManySubscriptions(1)).into(), 403, 40503),
            (Error::time_out(), 408, 40800),
            (ChangeError::Exists { name }.into(), 409, 40900),
            (ChangeError::Refused(Refusal::EntityDamaged("q".into())).into(), 403, 40301),
            (ChangeError::Refused(Refusal::EntityDisabled).into(), 403, 40301),
            (ChangeError::Refused(Refusal::MemoryShort).into(), 503, 50004),
            (ChangeError::Refused(Refusal::NotAllowed("x")).into(), 400, 40000),
            (Error::precondition(), 412, 41200),
            (Error::too_large(1), 413, 41300),
            (store(StorageError::InDoubt { reason: reason.clone() }), 500, 50000),
            (store(StorageError::Fenced { reason: reason.clone() }), 503, 50004),
            (store(StorageError::Stopped { reason: reason.clone() }), 503, 50004),
            (store(StorageError::Unavailable { reason }), 503, 50004),
        ] {
            assert_eq!((error.status.as_u16(), error.sub_code), (status, sub_code), "{error}");
        }
    }

    #[test]
    fn reasons_become_sentences() {
        assert_eq!(sentence("there is none"), "There is none.");
        assert_eq!(sentence("Done."), "Done.");
        assert_eq!(sentence(""), ".");
    }
}
