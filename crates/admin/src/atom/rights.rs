//! Authorization of a request, and the error if it is refused: the service's own wording, which the tests of Go's SDK
//! assert.

use axum::http::Method;
use peeklock_access::{Denied, Grant};
use peeklock_engine::Right;
use peeklock_errors::ErrorKind;

use super::call::Call;
use super::path::Target;
use crate::Admin;
use crate::error::Error;

/// The result of the check.
pub(super) enum Verdict {
    /// The request is allowed.
    Allowed(Grant),
    /// Only the information that no entity has that name is allowed.
    Missing,
}

/// Verifies the token of a request. The right to manage is needed, except for the description of the namespace, for
/// which any right is enough. A token with any right on a name may learn that no queue or topic has it.
///
/// # Errors
/// 401.
pub(super) fn check(admin: &Admin, call: &Call) -> Result<Verdict, Error> {
    let resource = &call.resource;
    let grant = admin.verify(&call.headers, resource)?;
    if call.target == Target::NamespaceInfo || grant.permits(resource, Right::Manage, admin.access.now()) {
        return Ok(Verdict::Allowed(grant));
    }
    let is_missing = |name: &str| admin.namespace.options(name).is_none();
    if call.method == Method::GET && call.target.entity().is_some_and(is_missing) {
        return Ok(Verdict::Missing);
    }
    Err(refusal(call))
}

/// The token is genuine, so the refusal says that this was no guess at a key.
fn refusal(call: &Call) -> Error {
    let denied = Denied::Right { right: "Manage" };
    let claims = match call.method {
        Method::GET => "Manage,EntityRead",
        Method::PUT => "Manage,EntityWrite",
        Method::DELETE => "Manage,EntityDelete",
        _ => return denied.into(),
    };
    if let Some(operation) = operation(call) {
        let (host, path) = (&call.host, call.target.display());
        let text =
            format!("Unauthorized access for '{operation}' operation on endpoint 'sb://{host}/{path}'.");
        return Error { text: text.into(), in_status_line: true, ..denied.into() };
    }
    let text = if call.method == Method::GET {
        format!("{claims} claims required for this operation.")
    } else {
        format!("Authorization failed for specified action: {claims}.")
    };
    Error { denied: Some(denied), ..Error::of(ErrorKind::ManageRightMissing, text) }
}

/// The service's name for an operation on a part of a topic.
fn operation(call: &Call) -> Option<String> {
    let kind = match call.target {
        Target::Subscription(..) | Target::Subscriptions(_) => "Subscription",
        Target::Rule(..) | Target::Rules(..) => "Rule",
        _ => return None,
    };
    let is_list = matches!(call.target, Target::Subscriptions(_) | Target::Rules(..));
    Some(match call.method {
        Method::GET if is_list => format!("Enumerate{kind}s"),
        Method::GET => format!("Get{kind}"),
        Method::PUT => format!("CreateOrUpdate{kind}"),
        _ => format!("Delete{kind}"),
    })
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;

    use super::*;

    /// Otherwise its client, and others with the same address, would have to wait longer after each refusal.
    #[test]
    fn a_genuine_token_without_the_right_is_no_guess() {
        for method in [Method::GET, Method::PUT, Method::DELETE, Method::POST] {
            for path in ["/q", "/$Resources/queues", "/t/Subscriptions/s", "/t/Subscriptions/s/Rules"] {
                let request =
                    Request::builder().method(method.clone()).uri(path).body(Body::empty()).unwrap();
                let error = refusal(&Call::new(&request).unwrap());
                assert_eq!(error.status.as_u16(), 401, "{method} {path}");
                assert!(error.denied.is_some_and(|denied| !denied.may_be_guess()), "{method} {path}");
            }
        }
    }
}
