//! Maps requests to handlers, and defines the parameters of each.

use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use peeklock_admin::Error;
use peeklock_errors::ErrorKind;

use crate::answer::{self, Outcome};
use crate::call::Call;
use crate::{
    Console, audit, changes, clock, connections, entities, listing, log, messages, overview, rules, session,
};

const ENTITY_PATH: &[&str] = &["path"];

/// Answers a request.
pub(crate) async fn answer(console: &Console, request: Request) -> Response {
    match Call::new(request) {
        Ok((call, body)) => {
            let outcome = Box::pin(respond(console, &call, body)).await;
            audit::note(&call, &outcome);
            answer::response(outcome)
        }
        Err(error) => answer::response(Err(error)),
    }
}

async fn respond(console: &Console, call: &Call, body: Body) -> Outcome {
    console.admin.require_token(&call.headers)?;
    let known = parameters(&call.method, &call.route)?;
    call.only(known)?;
    match (&call.method, call.route.as_str()) {
        (&Method::GET, "session") => session::get(console, call),
        (&Method::GET, "overview") => overview::get(console, call),
        (&Method::GET, "entities") => entities::list(console, call),
        (&Method::GET, "entity") => entities::get(console, call),
        (&Method::GET, "rules") => rules::list(console, call),
        (&Method::GET, "messages") => messages::browse(console, call).await,
        (&Method::GET, "messages/raw") => messages::raw(console, call).await,
        (&Method::GET, "dead-letters") => messages::dead_letters(console, call).await,
        (&Method::POST, "entities") => changes::create(console, call, body).await,
        (&Method::PATCH, "entity") => changes::update(console, call, body).await,
        (&Method::DELETE, "entity") => changes::delete(console, call).await,
        (&Method::PUT, "rule") => changes::set_rule(console, call, body).await,
        (&Method::DELETE, "rule") => changes::delete_rule(console, call).await,
        (&Method::POST, "messages") => messages::send(console, call, body).await,
        (&Method::POST, "messages/act") => messages::act(console, call, body).await,
        (&Method::GET, "connections") => connections::list(console, call).await,
        (&Method::GET, "connection") => connections::get(console, call).await,
        (&Method::DELETE, "connection") => connections::close(console, call).await,
        (&Method::GET, "log") => log::get(console, call),
        (&Method::GET, "clock") => clock::get(console, call),
        (&Method::POST, "clock") => clock::advance(console, call, body).await,
        (&Method::GET, "receivers" | "locks" | "sessions") => listing::get(console, call).await,
        (&Method::GET, "session-state") => listing::session_state(console, call).await,
        (&Method::POST, "rules/test") => rules::test(console, call, body).await,
        _ => Err(unknown(&call.route)),
    }
}

/// The parameters of a route.
///
/// # Errors
/// 404 for an unknown route, 405 for another method.
fn parameters(method: &Method, route: &str) -> Result<&'static [&'static str], Error> {
    let methods: &[(Method, &'static [&'static str])] = match route {
        "session" => &[(Method::GET, &["path"])],
        "overview" => &[(Method::GET, &[])],
        "entities" => &[(Method::GET, &["search", "kind", "topic", "from", "top"]), (Method::POST, &[])],
        "entity" => {
            &[(Method::GET, ENTITY_PATH), (Method::PATCH, ENTITY_PATH), (Method::DELETE, ENTITY_PATH)]
        }
        "rule" => &[(Method::PUT, &["path", "name"]), (Method::DELETE, &["path", "name"])],
        "rules" => &[(Method::GET, &["path", "from", "top"])],
        "messages" => &[
            (Method::GET, &["path", "state", "from", "top", "where", "body_max"]),
            (Method::POST, ENTITY_PATH),
        ],
        "messages/raw" => &[(Method::GET, &["path", "sequence_number"])],
        "messages/act" => &[(Method::POST, ENTITY_PATH)],
        "receivers" | "locks" | "sessions" => &[(Method::GET, &["path", "from", "top"])],
        "session-state" => &[(Method::GET, &["path", "id"])],
        "connections" => &[(Method::GET, &["search", "from", "top"])],
        "connection" => &[(Method::GET, &["id", "from", "top"]), (Method::DELETE, &["id"])],
        "log" => &[(Method::GET, &["kind", "after"])],
        "clock" => &[(Method::GET, &[]), (Method::POST, &[])],
        "dead-letters" => &[(Method::GET, &["from"])],
        "rules/test" => &[(Method::POST, &[])],
        _ => return Err(unknown(route)),
    };
    let found = methods.iter().find(|(known, _)| known == method);
    found.map(|(_, parameters)| *parameters).ok_or_else(|| {
        let known: Vec<&str> = methods.iter().map(|(known, _)| known.as_str()).collect();
        let text = format!("'{route}' does not support {method}; its methods are {}.", known.join(", "));
        Error::of(ErrorKind::MethodNotAllowed, text)
    })
}

fn unknown(route: &str) -> Error {
    Error::of(ErrorKind::EntityNotFound, format!("The API has no '{route}'; docs/api.md lists its routes."))
}
