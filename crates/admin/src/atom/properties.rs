//! Options in descriptions: read and written by the engine's schema, so that the two directions can't disagree.

use std::ops::RangeInclusive;

use peeklock_engine::schema::{EntityOption, Fields, OPTIONS, OptionKind, OptionSet, SizeUnit};
use peeklock_engine::{EntityStatus, Timestamp};

use super::authorization_rules;
use super::details::{EntityDetails, added_in};
use super::duration;
use super::path::{forward_url, forwarding_target};
use super::xml::{Document, Element};
use crate::Limits;
use crate::error::Error;

const DAY_MS: u64 = 86_400_000;

/// The context for reading a description.
pub(super) struct Reading<'a, O> {
    /// Limits from the configuration.
    pub(super) limits: &'a Limits,
    /// The name of the namespace.
    pub(super) namespace: &'a str,
    /// The current time.
    pub(super) now: Timestamp,
    /// The entity's options, if it exists.
    pub(super) current: Option<&'a O>,
    /// Whether options missing in the description stay unchanged.
    pub(super) is_patch: bool,
}

/// The client for which a description is written.
pub(super) struct Audience<'a> {
    /// The host name with which the client addresses this broker.
    pub(super) host: &'a str,
    /// The client's protocol version.
    pub(super) api_version: &'a str,
}

impl Audience<'_> {
    /// Whether the client's version of the protocol has an element.
    pub(super) fn has(&self, element: &str) -> bool {
        added_in(element).is_none_or(|version| self.api_version >= version)
    }
}

/// Why an option can't have the requested value.
enum Wrong {
    /// It is set at creation and never changes.
    Fixed,
    /// The tier of the namespace does not support it.
    Tier,
    /// The value is longer than the tier allows; the maximum in days.
    TierDays(u64),
    /// The required form or range, as the end of a sentence.
    Value(String),
}

impl From<String> for Wrong {
    fn from(reason: String) -> Self {
        Self::Value(reason)
    }
}

impl<O: OptionSet> Reading<'_, O> {
    /// Reads the options of a description. A missing option has its default; elements that are no options of the entity
    /// are ignored.
    ///
    /// # Errors
    /// An invalid value, or one out of range: the option, and the allowed values.
    pub(super) fn options(&self, description: &Element) -> Result<O, Error> {
        let default: O = self.limits.tier.defaults();
        let kept = self.current.filter(|_| self.is_patch);
        let mut options = kept.unwrap_or(&default).clone();
        let is_read = |option: &&EntityOption| {
            option.is_of::<O>() && (kept.is_none() || description.child(option.service_name).is_some())
        };
        for option in OPTIONS.iter().filter(is_read) {
            self.set(&mut options, option, description)
                .and_then(|()| self.check_tier(option, &options, &default))
                .map_err(|wrong| self.refused(description, option, wrong))?;
        }
        self.check_size(&options)?;
        Ok(self.limits.tier.complete(options))
    }

    fn set(&self, options: &mut O, option: &EntityOption, description: &Element) -> Result<(), Wrong> {
        let element = description.child(option.service_name).filter(|element| !element.nil);
        let text = element.map(|element| element.text.trim()).filter(|text| !text.is_empty());
        match &option.kind {
            OptionKind::Boolean(at) => self.assign(options, option, at, text, boolean),
            OptionKind::Count(at, range) => self.assign(options, option, at, text, |text| {
                number(text, range).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
            }),
            OptionKind::Duration(at, range) => {
                self.assign(options, option, at, text, |text| in_range_ms(text, range))
            }
            OptionKind::TimeToLive(at, min_ms) => put(at, options, self.time_to_live_ms(text, *min_ms)?),
            OptionKind::IdleTime(at) => put(at, options, self.idle_time_ms(text)?),
            // azure-docs 104074; an existing entity may be written back as it was read (Go's `testCreateQueue`).
            OptionKind::Size(..) if self.is_beyond(option) && text.is_some() && self.current.is_none() => {
                Err(Wrong::Tier)
            }
            OptionKind::Size(at, unit, range) => self.assign(options, option, at, text, |text| {
                number(text, range).map(|count| count * unit.bytes())
            }),
            OptionKind::Text(at, chars_max) => put(at, options, free_text(element, *chars_max)?),
            OptionKind::Target(at) => put(at, options, text.and_then(forwarding_target)),
            OptionKind::Status(at) => self.assign(options, option, at, text, status),
            OptionKind::AuthorizationRules(at) => {
                let current = self.current.and_then(|current| at.get(current));
                let current = current.map(Vec::as_slice).unwrap_or_default();
                put(at, options, authorization_rules::read(element, current, self.now)?)
            }
        }
    }

    /// Assigns a value. A missing one stays unchanged if the option can't be changed, or if the client's version does
    /// not have it.
    fn assign<T: Clone + PartialEq>(
        &self,
        options: &mut O,
        option: &EntityOption,
        at: &Fields<T>,
        text: Option<&str>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<(), Wrong> {
        let current = self.current.and_then(|current| at.get(current));
        let stays = option.is_fixed || added_in(option.service_name).is_some() && !self.is_beyond(option);
        match (text.map(read).transpose()?, current) {
            (Some(asked), Some(current)) if option.is_fixed && asked != *current => Err(Wrong::Fixed),
            (Some(asked), _) => put(at, options, asked),
            (None, Some(current)) if stays => put(at, options, current.clone()),
            (None, _) => Ok(()),
        }
    }

    /// Whether the namespace's tier does not support the option.
    fn is_beyond(&self, option: &EntityOption) -> bool {
        option.since > self.limits.tier
    }

    /// Checks an option that the tier does not support: only its default and its current value are allowed.
    fn check_tier(&self, option: &EntityOption, options: &O, default: &O) -> Result<(), Wrong> {
        let stays = self.current.is_some_and(|current| option.is_equal(options, current));
        if self.is_beyond(option) && !stays && !option.is_equal(options, default) {
            return Err(Wrong::Tier);
        }
        Ok(())
    }

    /// With the wording in azure-cli 31702.
    fn check_size(&self, options: &O) -> Result<(), Error> {
        let (tier, sizes) = (self.limits.tier, options.sizes_bytes());
        let (Some(sizes_mb), Some((_, total_bytes))) = (tier.sizes_mb(), sizes) else { return Ok(()) };
        let stays = self.current.and_then(OptionSet::sizes_bytes).map(|(_, total_bytes)| total_bytes);
        if tier.allows_size(options) || stays == Some(total_bytes) {
            return Ok(());
        }
        let size_mb = total_bytes / SizeUnit::Megabyte.bytes();
        let allowed: Vec<String> = sizes_mb.iter().map(u64::to_string).collect();
        Err(Error::bad_request(format!(
            "The specified value {size_mb} is invalid. The property MaxSizeInMegabytes, must be one of the following values: {}.",
            allowed.join(";")
        )))
    }

    /// An unlimited value becomes the configured maximum: .NET and Java send it when the user sets no value.
    fn time_to_live_ms(&self, text: Option<&str>, min_ms: u64) -> Result<Option<u64>, Wrong> {
        let max_ms = self.limits.message_time_to_live_max_ms;
        let range = min_ms..=max_ms.unwrap_or(u64::MAX);
        match text.map(open_duration).transpose()?.flatten() {
            None => Ok(max_ms),
            Some(asked_ms) if range.contains(&asked_ms) => Ok(Some(asked_ms)),
            Some(_) if max_ms.is_some() && max_ms == self.limits.tier.time_to_live_ms_max() => {
                Err(Wrong::TierDays(max_ms.unwrap_or_default() / DAY_MS))
            }
            Some(_) => Err(Wrong::Value(match max_ms {
                Some(max_ms) => {
                    format!("must be from {} to {}.", duration::text(min_ms), duration::text(max_ms))
                }
                None => format!("must be at least {}.", duration::text(min_ms)),
            })),
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

    /// The error for an option that can't have the requested value. For an immutable one it has the service's own
    /// wording, which Go's tests assert; for one that the tier does not support the wording in MassTransit 657,
    /// ServiceBusExplorer 745 and azure-service-bus 306.
    fn refused(&self, description: &Element, option: &EntityOption, wrong: Wrong) -> Error {
        let (name, kind) = (option.service_name, description.name.trim_end_matches("Description"));
        let (namespace, tier) = (self.namespace, self.limits.tier.name());
        Error::bad_request(match wrong {
            Wrong::Fixed if name == "EnablePartitioning" => {
                format!("Partitioning cannot be changed for {kind}. ")
            }
            Wrong::Fixed => {
                format!("The value for the {name} property of an existing {kind} cannot be changed.")
            }
            Wrong::Tier if self.current.is_some() => format!(
                "The property '{name}' cannot be changed because the namespace '{namespace}' is using '{tier}' tier."
            ),
            Wrong::Tier => format!(
                "The property '{name}' cannot be set when creating a {kind} because the namespace '{namespace}' is using '{tier}' tier."
            ),
            Wrong::TierDays(days) => format!(
                "The property value for '{name}' must be between 00:00:01 and {days}.00:00:00 when the namespace '{namespace}' is using '{tier}' tier."
            ),
            Wrong::Value(reason) => format!("The property '{name}' {reason}"),
        })
    }
}

/// Assigns a value; never fails.
#[expect(clippy::unnecessary_wraps, reason = "the last call of what may fail before")]
fn put<T, O: OptionSet>(at: &Fields<T>, options: &mut O, value: T) -> Result<(), Wrong> {
    if let Some(slot) = at.get_mut(options) {
        *slot = value;
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

/// The owner's text unchanged, including blanks.
fn free_text(element: Option<&Element>, chars_max: usize) -> Result<Option<Box<str>>, String> {
    let text = element.map_or("", |element| element.text.as_str());
    if text.chars().count() > chars_max {
        return Err(format!("has at most {chars_max} characters."));
    }
    Ok((!text.is_empty()).then(|| text.into()))
}

fn status(text: &str) -> Result<EntityStatus, String> {
    let found = EntityStatus::ALL.into_iter().find(|status| status.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| "must be Active, Disabled, SendDisabled or ReceiveDisabled.".to_owned())
}

/// Writes the elements of a description in the given order, which is the service's. An option that is not in it comes
/// last, where the service puts new ones.
pub(super) fn write<O: OptionSet>(
    document: &mut Document,
    order: &[&str],
    (options, details): (&O, &EntityDetails),
    audience: &Audience<'_>,
) {
    let others = OPTIONS.iter().map(|option| option.service_name).filter(|name| !order.contains(name));
    for name in order.iter().copied().chain(others) {
        if !audience.has(name) {
            continue;
        }
        match EntityOption::of_service(name) {
            Some(option) => write_option(document, option, options, audience),
            None => details.write(document, name),
        }
    }
}

/// Writes the element of an option, if these options have one.
pub(super) fn write_option<O: OptionSet>(
    document: &mut Document,
    option: &EntityOption,
    options: &O,
    audience: &Audience<'_>,
) {
    if let OptionKind::AuthorizationRules(at) = &option.kind {
        if let Some(rules) = at.get(options) {
            authorization_rules::write(document, rules);
        }
        return;
    }
    let text = match &option.kind {
        OptionKind::Target(at) => {
            at.get(options).and_then(Option::as_ref).map(|target| forward_url(audience.host, target))
        }
        _ => text(option, options),
    };
    if let Some(text) = text {
        document.text(option.service_name, &text);
    }
}

/// The value of an option as in descriptions, with targets of forwarding as names; `None` without a value, and for
/// authorization rules, which are not text.
pub(super) fn text<O: OptionSet>(option: &EntityOption, options: &O) -> Option<String> {
    match &option.kind {
        OptionKind::Boolean(at) => at.get(options).map(bool::to_string),
        OptionKind::Count(at, _) => at.get(options).map(u32::to_string),
        OptionKind::Duration(at, _) => at.get(options).map(|length_ms| duration::text(*length_ms)),
        OptionKind::TimeToLive(at, _) | OptionKind::IdleTime(at) => at
            .get(options)
            .map(|length_ms| length_ms.map_or_else(|| duration::UNLIMITED.to_owned(), duration::text)),
        OptionKind::Size(at, unit, _) => at.get(options).map(|bytes| (bytes / unit.bytes()).to_string()),
        OptionKind::Text(at, _) => at.get(options)?.as_deref().map(str::to_owned),
        OptionKind::Target(at) => at.get(options)?.as_deref().map(str::to_owned),
        OptionKind::Status(at) => at.get(options).map(|status| status.name().to_owned()),
        OptionKind::AuthorizationRules(_) => None,
    }
}
