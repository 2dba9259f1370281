//! `GET connections`, `GET connection` and `DELETE connection`: lists AMQP connections and closes one.

use std::time::Duration;

use axum::http::StatusCode;
use peeklock_admin::Error;
use peeklock_connections::{
    About, ConnectionId, Credential, Direction, Entry, Figures, LinkFigures, LinkPage, Look, Purpose,
    Transport,
};
use peeklock_engine::Timestamp;
use peeklock_errors::ErrorKind;
use serde_json::{Map, Value as Json, json};
use tokio::time::timeout;

use crate::answer::{Answer, Outcome, found};
use crate::call::Call;
use crate::{Console, time};

/// Maximum number of rows on a page.
const TOP_MAX: u64 = 1_000;
/// Maximum number of connections that one request examines.
const EXAMINED_MAX: usize = 1_000;
/// Maximum number of connections queried at the same time.
const ASKED_MAX: usize = 250;
/// A connection that has not answered within this time is listed without figures.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// How long to wait for a connection to end.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// A page of connections in the order in which they were opened.
pub(crate) async fn list(console: &Console, call: &Call) -> Outcome {
    call.manage(console)?;
    let top = usize::try_from(call.number("top", 100, 1..=TOP_MAX)?).unwrap_or(1);
    let mut from = call.text("from").map(id).transpose()?;
    let needle = call.text("search").map(str::to_lowercase).unwrap_or_default();
    let look = Look { needle: needle.into(), links: LinkPage::default() };
    let (mut rows, mut examined, mut has_more) = (Vec::new(), 0, true);
    while has_more && rows.len() < top && examined < EXAMINED_MAX {
        let wanted = if look.needle.is_empty() { (top - rows.len()).min(ASKED_MAX) } else { ASKED_MAX };
        let mut entries = console.connections.after(from, wanted + 1);
        has_more = entries.len() > wanted;
        entries.truncate(wanted);
        let answers = Entry::look_at(&entries, &look, ANSWER_WITHIN).await;
        for (entry, figures) in entries.iter().zip(&answers) {
            if rows.len() == top {
                has_more = true;
                break;
            }
            (from, examined) = (Some(entry.id), examined + 1);
            let matches =
                entry.about.contains(&look.needle) || figures.as_ref().is_some_and(|one| one.matches);
            if matches && console.connections.find(entry.id).is_some() {
                rows.push(Json::from(row(entry, figures.as_ref())));
            }
        }
    }
    let next = from.filter(|_| has_more).map(|id| id.to_string());
    found(json!({ "connections": rows, "next": next, "count": console.connections.count() }))
}

/// One connection and a page of its links.
pub(crate) async fn get(console: &Console, call: &Call) -> Outcome {
    call.manage(console)?;
    let top = usize::try_from(call.number("top", 100, 1..=TOP_MAX)?).unwrap_or(1);
    let from = u32::try_from(call.number("from", 0, 0..=u64::from(u32::MAX))?).unwrap_or(u32::MAX);
    let entry = wanted(console, call)?;
    let look = Look { links: LinkPage { from, top }, ..Look::default() };
    let mut answers = Entry::look_at(std::slice::from_ref(&entry), &look, ANSWER_WITHIN).await;
    let figures = answers.pop().flatten();
    if figures.is_none() && console.connections.find(entry.id).is_none() {
        return Err(gone());
    }
    let mut shown = row(&entry, figures.as_ref());
    let links = figures.as_ref().map(|figures| figures.links.iter().map(link).collect::<Vec<_>>());
    shown.insert("links".to_owned(), json!(links.unwrap_or_default()));
    let next = figures.and_then(|figures| figures.next_link).map(|number| number.to_string());
    shown.insert("next".to_owned(), json!(next));
    found(Json::from(shown))
}

/// Closes one; 202 if its peer has not answered yet: it is then cut later.
pub(crate) async fn close(console: &Console, call: &Call) -> Outcome {
    let grant = call.manage(console)?;
    let entry = wanted(console, call)?;
    let address = entry.about.address.map_or_else(|| "unknown".to_owned(), |address| address.to_string());
    let _ = call.concerned.set(format!("connection {} of {address}", entry.id));
    let closing = async {
        let taken = entry.close(&grant.principal).await;
        entry.gone().await;
        taken
    };
    match timeout(CLOSE_WITHIN, closing).await {
        Ok(false) => Err(gone()),
        Ok(true) => Ok(Answer::Empty),
        Err(_) => {
            let document = json!({ "id": entry.id.to_string(), "is_closing": true });
            Ok(Answer::Json(StatusCode::ACCEPTED, document))
        }
    }
}

fn wanted(console: &Console, call: &Call) -> Result<Entry, Error> {
    let text = call.text("id").ok_or_else(|| {
        Error::bad_request(
            "The parameter 'id' is missing: the id of a connection, as 'connections' shows it.",
        )
    })?;
    console.connections.find(id(text)?).ok_or_else(gone)
}

fn id(text: &str) -> Result<ConnectionId, Error> {
    text.parse()
        .map_err(|_| Error::bad_request("That is not the id of a connection; 'connections' lists the ids."))
}

fn gone() -> Error {
    Error::of(ErrorKind::EntityNotFound, "There is no connection with this id: it has ended.")
}

fn row(entry: &Entry, figures: Option<&Figures>) -> Map<String, Json> {
    let About { address, transport, is_encrypted, certificate, opened_at_ms, .. } = &*entry.about;
    let about = &entry.about;
    let shown = json!({
        "id": entry.id.to_string(),
        "address": address.map(|address| address.to_string()),
        "transport": match transport {
            Transport::Amqp => "amqp",
            Transport::WebSocket => "websocket",
        },
        "tls": is_encrypted,
        "certificate": certificate.as_deref(),
        "opened_at": time::json(Timestamp(*opened_at_ms)),
        "container_id": about.container_id,
        "host": about.host,
        "product": about.product,
        "version": about.version,
        "platform": about.platform,
        "framework": about.framework,
        "user_agent": about.user_agent,
        "figures": figures.map(numbers),
    });
    match shown {
        Json::Object(shown) => shown,
        _ => Map::new(),
    }
}

fn numbers(figures: &Figures) -> Json {
    let identities = figures.identities.iter().map(|identity| {
        let credential = match identity.credential {
            Credential::Open => "none",
            Credential::Rule => "rule",
            Credential::Certificate => "certificate",
            Credential::JsonWebToken => "token",
        };
        json!({ "credential": credential, "name": identity.name })
    });
    json!({
        "identities": identities.collect::<Vec<_>>(),
        "links": figures.link_count,
        "messages_in": figures.messages_in,
        "messages_out": figures.messages_out,
        "credit": figures.credit,
        "unsettled": figures.unsettled,
        "is_closing": figures.is_closing,
    })
}

fn link(link: &LinkFigures) -> Json {
    json!({
        "number": link.number,
        "name": link.name,
        "purpose": match link.purpose {
            Purpose::Send => "send",
            Purpose::Relay => "relay",
            Purpose::Receive => "receive",
            Purpose::Browse => "browse",
            Purpose::Management => "management",
            Purpose::Tokens => "tokens",
            Purpose::Transactions => "transactions",
            Purpose::Subscription => "subscription",
        },
        "direction": match link.direction {
            Direction::In => "in",
            Direction::Out => "out",
        },
        "entity": link.entity,
        "receiver": link.receiver.map(|receiver| receiver.to_string()),
        "credit": link.credit,
        "unsettled": link.unsettled,
        "messages": link.messages,
    })
}
