//! Properties of descriptions: one table for each kind of entity, in the order in which the service writes them. What
//! reads and what writes a description both go by it, so that nothing is lost between them.

use std::ops::RangeInclusive;

use peeklock_engine::partition::Counts;
use peeklock_engine::{AuthorizationRule, EntityStatus, EntityTimes, Timestamp};

use super::authorization_rules;
use super::duration;
use super::instant;
use super::path::{forward_target, forward_url};
use super::xml::{COUNTS, Document, Element};
use crate::Limits;
use crate::error::Error;

/// Where in the options a value is.
type At<O, T> = fn(&mut O) -> &mut T;

/// One element of a description.
pub(super) struct Property<O> {
    name: &'static str,
    value: Value<O>,
}

/// What an element holds.
pub(super) enum Value<O> {
    /// A truth value.
    Boolean(At<O, bool>),
    /// A truth value that is said at creation and never changes.
    Unchanging(At<O, bool>),
    /// A duration in a range, in milliseconds.
    Duration(At<O, u64>, RangeInclusive<u64>),
    /// How long messages live; without limit if nothing is said.
    TimeToLive(At<O, Option<u64>>),
    /// How long an entity may be idle; for ever if nothing is said.
    IdleTime(At<O, Option<u64>>),
    /// A count in a range.
    Count(At<O, u32>, RangeInclusive<u64>),
    /// A number of megabytes.
    Megabytes(At<O, u64>, RangeInclusive<u64>),
    /// A number of kilobytes; clients that don't know it leave it as it is.
    Kilobytes(At<O, u64>, RangeInclusive<u64>),
    /// A text of bounded length.
    Text(At<O, Option<Box<str>>>),
    /// Another entity, as a URL.
    Target(At<O, Option<Box<str>>>),
    /// The status.
    Status(At<O, EntityStatus>),
    /// Shared access rules with their keys.
    AuthorizationRules(At<O, Vec<AuthorizationRule>>),
    /// Always the same here.
    Constant(&'static str),
    /// Known at run time, never read.
    Detail(fn(&EntityDetails) -> String),
    /// As [`Self::Detail`], and only for clients of this version or later.
    DetailSince(&'static str, fn(&EntityDetails) -> String),
    /// How many messages there are in which state.
    CountDetails,
}

/// What is known about an entity beside its options.
pub(super) struct EntityDetails {
    /// When it was created and changed.
    pub(super) times: EntityTimes,
    /// When it was used last.
    pub(super) accessed_at: Option<Timestamp>,
    /// Its messages.
    pub(super) counts: Counts,
    /// Whether what is stored about it is damaged.
    pub(super) is_damaged: bool,
    /// A topic's subscriptions.
    pub(super) subscriptions: usize,
    /// The SQL filters of these.
    pub(super) sql_filters: usize,
    /// The correlation filters of these.
    pub(super) correlation_filters: usize,
}

/// What a description is read against.
pub(super) struct Reading<'a, O> {
    /// The configuration's bounds.
    pub(super) limits: &'a Limits,
    /// Now.
    pub(super) now: Timestamp,
    /// The entity's options, if it exists.
    pub(super) current: Option<&'a O>,
}

/// To whom a description is written.
pub(super) struct Audience<'a> {
    /// By which name the client knows this broker.
    pub(super) host: &'a str,
    /// Which version it speaks.
    pub(super) api_version: &'a str,
}

const SECOND_MS: u64 = 1_000;
const DAY_MS: u64 = 86_400 * SECOND_MS;
const KILOBYTE: u64 = 1 << 10;
const MEGABYTE: u64 = 1 << 20;
const USER_METADATA_CHARS_MAX: usize = 1024;
const TIME_TO_LIVE_MIN_MS: u64 = SECOND_MS;

/// Ranges as Service Bus has them; sizes go further, as in the configuration file.
pub(super) const LOCK_DURATION_MS: RangeInclusive<u64> = 5 * SECOND_MS..=300 * SECOND_MS;
pub(super) const HISTORY_WINDOW_MS: RangeInclusive<u64> = 20 * SECOND_MS..=7 * DAY_MS;
pub(super) const MAX_DELIVERY_COUNT: RangeInclusive<u64> = 1..=i32::MAX as u64;
pub(super) const MAX_SIZE_MB: RangeInclusive<u64> = 1..=10 * MEGABYTE;
pub(super) const MAX_MESSAGE_SIZE_KB: RangeInclusive<u64> = 1..=102_400;
/// The first version with `MaxMessageSizeInKilobytes`.
const LARGE_MESSAGES_SINCE: &str = "2021-05";

impl<O> Property<O> {
    /// One row of a table.
    pub(super) const fn new(name: &'static str, value: Value<O>) -> Self {
        Self { name, value }
    }
}

impl<O: Clone + Default> Reading<'_, O> {
    /// The options that a description asks for. What it does not say is as by default; what it can't say is ignored.
    ///
    /// # Errors
    /// A value that is none, or out of its range: which, and what it must be.
    pub(super) fn options(&self, table: &[Property<O>], description: &Element) -> Result<O, Error> {
        let mut options = O::default();
        for Property { name, value } in table {
            let element = description.child(name).filter(|element| !element.nil);
            let text = element.map(|element| element.text.trim()).filter(|text| !text.is_empty());
            self.set(&mut options, value, element, text)
                .map_err(|reason| refused(description, name, &reason))?;
        }
        Ok(options)
    }

    fn set(
        &self,
        options: &mut O,
        value: &Value<O>,
        element: Option<&Element>,
        text: Option<&str>,
    ) -> Result<(), String> {
        match value {
            Value::Boolean(at) => assign(at(options), text, boolean)?,
            Value::Unchanging(at) => self.set_unchanging(options, *at, text)?,
            Value::Duration(at, range) => assign(at(options), text, |text| in_range_ms(text, range))?,
            Value::TimeToLive(at) => *at(options) = self.time_to_live_ms(text)?,
            Value::IdleTime(at) => *at(options) = self.idle_time_ms(text)?,
            Value::Count(at, range) => assign(at(options), text, |text| {
                number(text, range).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
            })?,
            Value::Megabytes(at, range) => {
                assign(at(options), text, |text| number(text, range).map(|count| count * MEGABYTE))?;
            }
            Value::Kilobytes(at, range) => {
                if let Some(mut current) = self.current.cloned() {
                    *at(options) = *at(&mut current);
                }
                assign(at(options), text, |text| number(text, range).map(|count| count * KILOBYTE))?;
            }
            Value::Text(at) => *at(options) = metadata(element)?,
            Value::Target(at) => *at(options) = text.and_then(forward_target).map(Into::into),
            Value::Status(at) => assign(at(options), text, status)?,
            Value::AuthorizationRules(at) => {
                let current = self.current.cloned().map(|mut current| std::mem::take(at(&mut current)));
                let rules = authorization_rules::read(element, &current.unwrap_or_default(), self.now)?;
                *at(options) = rules;
            }
            Value::Constant(_) | Value::Detail(_) | Value::DetailSince(..) | Value::CountDetails => {}
        }
        Ok(())
    }

    fn set_unchanging(&self, options: &mut O, at: At<O, bool>, text: Option<&str>) -> Result<(), String> {
        let current = self.current.cloned().map(|mut current| *at(&mut current));
        let asked = text.map(boolean).transpose()?;
        match (current, asked) {
            (Some(current), Some(asked)) if current != asked => {
                return Err(UNCHANGING.to_owned());
            }
            (current, asked) => *at(options) = asked.or(current).unwrap_or_default(),
        }
        Ok(())
    }

    /// What is unlimited becomes the most that the configuration allows: .NET and Java ask so when nobody said anything.
    fn time_to_live_ms(&self, text: Option<&str>) -> Result<Option<u64>, String> {
        let max_ms = self.limits.message_time_to_live_max_ms;
        let range = TIME_TO_LIVE_MIN_MS..=max_ms.unwrap_or(u64::MAX);
        match text.map(open_duration).transpose()?.flatten() {
            None => Ok(max_ms),
            Some(asked_ms) if range.contains(&asked_ms) => Ok(Some(asked_ms)),
            Some(_) => Err(match max_ms {
                Some(max_ms) => format!("must be from PT1S to {}.", duration::text(max_ms)),
                None => "must be at least PT1S.".to_owned(),
            }),
        }
    }

    fn idle_time_ms(&self, text: Option<&str>) -> Result<Option<u64>, String> {
        let min_ms = self.limits.auto_delete_on_idle_min_ms;
        match text.map(open_duration).transpose()?.flatten() {
            Some(asked_ms) if asked_ms < min_ms => {
                Err(format!("must be at least {}.", duration::text(min_ms)))
            }
            asked => Ok(asked),
        }
    }
}

/// Why a property that is said at creation can't be set.
const UNCHANGING: &str = "can't be changed.";

/// A property that can't be what was asked for. Of one that never changes in the service's own words, which Go's tests assert.
fn refused(description: &Element, property: &str, reason: &str) -> Error {
    let kind = description.name.trim_end_matches("Description");
    Error::bad_request(match (reason, property) {
        (UNCHANGING, "EnablePartitioning") => format!("Partitioning cannot be changed for {kind}. "),
        (UNCHANGING, _) => {
            format!("The value for the {property} property of an existing {kind} cannot be changed.")
        }
        _ => format!("The property '{property}' {reason}"),
    })
}

fn assign<T>(
    to: &mut T,
    text: Option<&str>,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<(), String> {
    if let Some(text) = text {
        *to = read(text)?;
    }
    Ok(())
}

fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("must be true or false.".to_owned()),
    }
}

fn number(text: &str, range: &RangeInclusive<u64>) -> Result<u64, String> {
    let wrong = || format!("must be a whole number from {} to {}.", range.start(), range.end());
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(wrong)
}

fn open_duration(text: &str) -> Result<Option<u64>, String> {
    duration::parse(text).ok_or_else(|| "must be a duration such as PT1M or P14D.".to_owned())
}

fn in_range_ms(text: &str, range: &RangeInclusive<u64>) -> Result<u64, String> {
    let wrong =
        || format!("must be from {} to {}.", duration::text(*range.start()), duration::text(*range.end()));
    open_duration(text)?.filter(|length_ms| range.contains(length_ms)).ok_or_else(wrong)
}

/// The owner's words as they are, blanks included.
fn metadata(element: Option<&Element>) -> Result<Option<Box<str>>, String> {
    let text = element.map_or("", |element| element.text.as_str());
    if text.chars().count() > USER_METADATA_CHARS_MAX {
        return Err(format!("has at most {USER_METADATA_CHARS_MAX} characters."));
    }
    Ok((!text.is_empty()).then(|| text.into()))
}

const STATUSES: [(&str, EntityStatus); 4] = [
    ("Active", EntityStatus::Active),
    ("Disabled", EntityStatus::Disabled),
    ("SendDisabled", EntityStatus::SendDisabled),
    ("ReceiveDisabled", EntityStatus::ReceiveDisabled),
];

fn status(text: &str) -> Result<EntityStatus, String> {
    let found = STATUSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let wrong = || "must be Active, Disabled, SendDisabled or ReceiveDisabled.".to_owned();
    found.map(|(_, status)| *status).ok_or_else(wrong)
}

fn status_text(status: EntityStatus) -> &'static str {
    STATUSES.iter().find(|(_, known)| *known == status).map_or("Active", |(name, _)| name)
}

/// Writes the elements of a description in the order of the table.
pub(super) fn write<O: Clone>(
    document: &mut Document,
    table: &[Property<O>],
    (options, details): (&O, &EntityDetails),
    audience: &Audience<'_>,
) {
    // Options are reached through the same doors by which they are set.
    let options = &mut options.clone();
    for Property { name, value } in table {
        write_value(document, name, value, (options, details), audience);
    }
}

fn write_value<O>(
    document: &mut Document,
    name: &str,
    value: &Value<O>,
    (options, details): (&mut O, &EntityDetails),
    audience: &Audience<'_>,
) {
    let text = match value {
        Value::Boolean(at) | Value::Unchanging(at) => at(options).to_string(),
        Value::Duration(at, _) => duration::text(*at(options)),
        Value::TimeToLive(at) | Value::IdleTime(at) => {
            at(options).map_or_else(|| duration::UNLIMITED.to_owned(), duration::text)
        }
        Value::Count(at, _) => at(options).to_string(),
        Value::Megabytes(at, _) => (*at(options) / MEGABYTE).to_string(),
        Value::Kilobytes(..) if audience.api_version < LARGE_MESSAGES_SINCE => return,
        Value::Kilobytes(at, _) => (*at(options) / KILOBYTE).to_string(),
        Value::Text(at) => match at(options) {
            Some(text) => text.to_string(),
            None => return,
        },
        Value::Target(at) => match at(options) {
            Some(target) => forward_url(audience.host, target),
            None => return,
        },
        Value::Status(at) => status_text(*at(options)).to_owned(),
        Value::AuthorizationRules(at) => return authorization_rules::write(document, at(options)),
        Value::Constant(text) => (*text).to_owned(),
        Value::DetailSince(since, _) if audience.api_version < *since => return,
        Value::Detail(fact) | Value::DetailSince(_, fact) => fact(details),
        Value::CountDetails => return write_counts(document, &details.counts),
    };
    document.text(name, &text);
}

/// Nothing is on its way to another entity for longer than a commit, so nothing is counted as that.
fn write_counts(document: &mut Document, counts: &Counts) {
    document.element("CountDetails", &[("xmlns:d2p1", COUNTS)], |document| {
        for (name, count) in [
            ("d2p1:ActiveMessageCount", counts.active),
            ("d2p1:DeadLetterMessageCount", counts.dead_letter),
            ("d2p1:ScheduledMessageCount", counts.scheduled),
            ("d2p1:TransferMessageCount", 0),
            ("d2p1:TransferDeadLetterMessageCount", counts.transfer_dead_letter),
        ] {
            document.text(name, &count.to_string());
        }
    });
}

impl EntityDetails {
    /// `CreatedAt`
    pub(super) fn created(&self) -> String {
        instant::text(self.times.created_at)
    }

    /// `UpdatedAt`
    pub(super) fn updated(&self) -> String {
        instant::text(self.times.updated_at)
    }

    /// `AccessedAt`
    pub(super) fn accessed(&self) -> String {
        self.accessed_at.map_or_else(|| instant::NEVER.to_owned(), instant::text)
    }

    /// `SizeInBytes`
    pub(super) fn size_in_bytes(&self) -> String {
        self.counts.size_bytes.to_string()
    }

    /// `EntityAvailabilityStatus`
    pub(super) fn availability(&self) -> String {
        if self.is_damaged { "Unknown" } else { "Available" }.to_owned()
    }

    /// `MessageCount`: all messages, whatever their state, those in quarantine included.
    pub(super) fn message_count(&self) -> String {
        let Counts { active, dead_letter, scheduled, transfer_dead_letter, quarantined, .. } = self.counts;
        (active + dead_letter + scheduled + transfer_dead_letter + quarantined).to_string()
    }

    /// `SubscriptionCount`
    pub(super) fn subscription_count(&self) -> String {
        self.subscriptions.to_string()
    }

    /// `SqlFilterCount`
    pub(super) fn sql_filter_count(&self) -> String {
        self.sql_filters.to_string()
    }

    /// `CorrelationFilterCount`
    pub(super) fn correlation_filter_count(&self) -> String {
        self.correlation_filters.to_string()
    }
}
