//! `$cbs`: receives tokens (claims-based security).

use super::authorization::{Authorization, Verified};
use super::envelope::{Request, text};
use super::errors::Fault;
use crate::wire::Value;

/// Verifies the token of `put-token`.
///
/// # Errors
/// 501 for other operations, 400 for missing arguments, 401 for tokens that grant nothing.
pub(crate) fn verify(request: &Request, authorization: &Authorization) -> Result<Verified, Fault> {
    match request.property("operation") {
        Some("put-token") => {}
        Some(other) => {
            let name = super::authorization::excerpt(other);
            return Err(Fault::NotImplemented(format!("$cbs knows no operation '{name}'.")));
        }
        None => return Err(missing("the application property 'operation'")),
    }
    let audience = request.property("name").ok_or_else(|| missing("the application property 'name'"))?;
    let token = match &request.body {
        Value::Binary(bytes) => std::str::from_utf8(bytes).map_err(|_| missing("a token of UTF-8 text"))?,
        body => text(body).ok_or_else(|| missing("the token, a string as amqp-value"))?,
    };
    authorization.verify(audience, token)
}

fn missing(what: &str) -> Fault {
    Fault::Argument(format!("put-token needs {what}."))
}

#[cfg(test)]
mod tests {
    use peeklock_access::Access;

    use super::*;
    use crate::servicebus::tests::authorization::access;

    fn request(properties: &[(&str, &str)], body: Value) -> Request {
        let properties = properties
            .iter()
            .map(|(key, value)| (Value::String((*key).into()), Value::String((*value).into())))
            .collect();
        Request { message_id: Value::ULong(1), reply_to: None, properties, body }
    }

    const PUT: [(&str, &str); 3] =
        [("operation", "put-token"), ("type", "jwt"), ("name", "sb://localhost:5672/q")];

    #[test]
    fn accepts_python_signature_announced_as_jwt() {
        let authorization = Authorization::new(Access::open());
        let token = Value::String("SharedAccessSignature sr=x&sig=y&se=1&skn=k".into());
        assert!(verify(&request(&PUT, token), &authorization).is_ok());
    }

    #[test]
    fn reports_the_mistake() {
        let authorization = Authorization::new(access());
        let status = |properties: &[(&str, &str)], body: Value| {
            let Err(fault) = verify(&request(properties, body), &authorization) else { panic!("accepted") };
            fault.condition_and_status().1
        };
        assert_eq!(status(&[], Value::Null), 400);
        assert_eq!(status(&[("operation", "delete-token")], Value::Null), 501);
        assert_eq!(status(&[("operation", "put-token")], Value::Null), 400);
        assert_eq!(status(&PUT, Value::Null), 400);
        assert_eq!(status(&PUT, Value::Binary(bytes::Bytes::from_static(b"\xff"))), 400);
        for token in ["rubbish", "SharedAccessSignature sr=x&sig=y&se=1&skn=k", &"x".repeat(100_000)] {
            assert_eq!(status(&PUT, Value::String(token.into())), 401, "{token:.40}");
        }
    }
}
