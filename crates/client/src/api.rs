//! The management API in JSON of this broker, which Azure does not have (docs/api.md).

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;

use crate::{Admin, ClientError};

const BASE: &str = "$api/v1";

/// Requests to the management API of a broker.
#[derive(Debug, Clone)]
pub struct Api {
    admin: Admin,
    /// The scope of tokens: an entity, or the namespace if empty.
    scope: String,
}

impl Api {
    /// The API of the namespace that `admin` administers.
    #[must_use]
    pub fn new(admin: Admin) -> Self {
        Self { admin, scope: String::new() }
    }

    /// Restricts tokens to one entity, whose own keys can sign them.
    #[must_use]
    pub fn about(self, entity: &str) -> Self {
        Self { scope: entity.to_owned(), ..self }
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// A refusal of the broker, or a namespace of another product.
    pub async fn get(&self, route: &str, query: &[(&str, &str)]) -> Result<Json, ClientError> {
        self.ask(Method::GET, route, query, None).await
    }

    /// All rows of a paged list, up to a maximum.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn pages(
        &self,
        route: &str,
        query: &[(&str, &str)],
        max: usize,
    ) -> Result<Vec<Json>, ClientError> {
        let (mut rows, mut from) = (Vec::new(), String::new());
        loop {
            let mut asked = query.to_vec();
            if !from.is_empty() {
                asked.push(("from", &from));
            }
            let mut page = self.get(route, &asked).await?;
            if let Some(Json::Array(found)) = page.get_mut(route).map(Json::take) {
                rows.extend(found);
            }
            match page.get("next").and_then(Json::as_str) {
                Some(next) if rows.len() < max => next.clone_into(&mut from),
                _ => break,
            }
        }
        rows.truncate(max);
        Ok(rows)
    }

    /// Posts a document that changes something.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn post(&self, route: &str, body: &Json) -> Result<Json, ClientError> {
        self.ask(Method::POST, route, &[], Some(body)).await
    }

    /// Closes or deletes something; the answer is null unless the operation continues.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn delete(&self, route: &str, query: &[(&str, &str)]) -> Result<Json, ClientError> {
        self.ask(Method::DELETE, route, query, None).await
    }

    async fn ask(
        &self,
        method: Method,
        route: &str,
        query: &[(&str, &str)],
        body: Option<&Json>,
    ) -> Result<Json, ClientError> {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let query: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let uri = format!("{}/{BASE}/{route}?{}", self.admin.url(), query.join("&"));
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(token) = self.admin.token(&self.scope) {
            request = request.header(AUTHORIZATION, token);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let answer = self.admin.exchange(request, body).await?;
        let (status, answer) = (answer.status(), answer.into_body());
        if answer.is_empty() && status.is_success() {
            return Ok(Json::Null);
        }
        let document = serde_json::from_slice::<Json>(&answer).ok();
        match document {
            Some(document) if status.is_success() => Ok(document),
            document => Err(refused(status, document.as_ref())),
        }
    }
}

/// An answer that is no error of the API comes from a namespace without the API.
fn refused(status: StatusCode, document: Option<&Json>) -> ClientError {
    let text = document.and_then(|document| document.pointer("/error/message")).and_then(Json::as_str);
    match text {
        Some(text) => ClientError::refused(status.as_str(), text),
        None => ClientError::NoApi(status.as_u16()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_are_those_of_the_api_or_say_that_there_is_none() {
        let document = json!({"error": {"code": "right-missing", "message": "No right."}});
        assert!(refused(StatusCode::UNAUTHORIZED, Some(&document)).is_unauthorized());
        let foreign = refused(StatusCode::NOT_FOUND, None);
        assert!(!foreign.is_not_found());
        assert!(foreign.to_string().contains("has no management API of Peeklock"), "{foreign}");
    }
}
