//! The options of an entity, read with the engine's schema from a file of either kind.

use peeklock_engine::schema::{EntityOption, Fields, OPTIONS, OptionKind, OptionSet};
use peeklock_engine::{AuthorizationRule, EntityStatus, Tier};

use std::ops::RangeInclusive;

use super::duration;
use super::entity::Bounds;
use super::forwarding::parse_target;
use super::names::Place;
use super::namespace::written;
use super::size;
use super::table::Table;
use super::{authorization_rule, convert};

const KILOBYTE: u64 = 1 << 10;
const MEGABYTE: u64 = 1 << 20;

/// A part of a file that sets options: a table in TOML, an object in the emulator's file. Each report becomes one line
/// with the position of the value.
pub(super) trait Source {
    /// The name of an option in this kind of file.
    fn key(option: &EntityOption) -> &'static str;

    /// The position of a key's value, if present.
    fn place(&mut self, key: &'static str) -> Option<Place>;

    /// A boolean.
    fn boolean(&mut self, key: &'static str, default: bool) -> bool;

    /// An integer within a range.
    fn integer(&mut self, key: &'static str, default: u64, range: &RangeInclusive<u64>) -> u64;

    /// A duration within a range, in milliseconds.
    fn duration_ms(&mut self, key: &'static str, default_ms: u64, range_ms: &RangeInclusive<u64>) -> u64;

    /// A text.
    fn text<T>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T>;

    /// Shared access rules of an entity.
    fn authorization_rules(&mut self, key: &'static str, noun: &str) -> Vec<AuthorizationRule>;

    /// Reports an error at the value of a key.
    fn report(&self, place: &Place, key: &str, message: &str);

    /// The message for a duration below the minimum.
    fn too_short(option: &EntityOption, text: &str, least_ms: u64) -> String;

    /// The message for a maximum message size, in kilobytes, that fits nowhere.
    fn too_large(message_kb: u64, room: &Room) -> String;
}

/// The limit for the maximum message size.
pub(super) enum Room {
    /// An entity of this kind, with its size in megabytes.
    Entity(&'static str, u64),
    /// The maximum size of partly received messages of a connection, in bytes.
    Connection(u64),
}

/// Reads the options of the entity `own_name`, or of a subscription. Missing ones are unchanged in `options`.
pub(super) fn read<S: Source, O: OptionSet>(
    source: &mut S,
    mut options: O,
    own_name: Option<&str>,
    bounds: Bounds,
) -> O {
    for option in OPTIONS {
        read_option(source, option, &mut options, own_name, bounds);
    }
    check_sizes(source, &options, bounds);
    check_express(source, &options);
    check_tier(source, &options, bounds);
    options
}

fn read_option<S: Source, O: OptionSet>(
    source: &mut S,
    option: &EntityOption,
    options: &mut O,
    own_name: Option<&str>,
    bounds: Bounds,
) {
    let key = S::key(option);
    match &option.kind {
        OptionKind::Boolean(at) => set(at, options, |flag| source.boolean(key, *flag)),
        OptionKind::Count(at, range) => set(at, options, |count| {
            let count = source.integer(key, u64::from(*count), range);
            u32::try_from(count).unwrap_or(u32::MAX)
        }),
        OptionKind::Duration(at, range_ms) => {
            set(at, options, |length_ms| source.duration_ms(key, *length_ms, range_ms));
        }
        OptionKind::TimeToLive(at, least_ms) => {
            set(at, options, |default_ms| time_to_live_ms(source, option, *default_ms, *least_ms, bounds));
        }
        OptionKind::IdleTime(at) => set(at, options, |default_ms| {
            let least_ms = bounds.limits.auto_delete_on_idle_min_ms;
            let parse = |text: &str| open_ms::<S>(option, text, least_ms);
            source.text(key, "PT1H", parse).unwrap_or(*default_ms)
        }),
        OptionKind::Size(at, unit, range) => {
            set(at, options, |bytes| source.integer(key, bytes / unit.bytes(), range) * unit.bytes());
        }
        OptionKind::Text(at, chars_max) => set(at, options, |_| {
            source.text(key, "owned by sales", |text| parse_free_text(text, *chars_max)).flatten()
        }),
        OptionKind::Target(at) => {
            set(at, options, |_| source.text(key, "archive", |text| parse_target(text, own_name)).flatten());
        }
        OptionKind::Status(at) => {
            set(at, options, |status| source.text(key, "Active", parse_status).unwrap_or(*status));
        }
        OptionKind::AuthorizationRules(at) => {
            set(at, options, |_| source.authorization_rules(key, O::NOUN));
        }
    }
}

/// Sets a value, if these options have it.
fn set<T, O: OptionSet>(at: &Fields<T>, options: &mut O, read: impl FnOnce(&T) -> T) {
    if let Some(slot) = at.get_mut(options) {
        *slot = read(slot);
    }
}

/// `None` for no limit, which is not possible where `[limits]` sets one (S-15).
fn time_to_live_ms<S: Source>(
    source: &mut S,
    option: &EntityOption,
    default_ms: Option<u64>,
    least_ms: u64,
    bounds: Bounds,
) -> Option<u64> {
    let max_ms = bounds.limits.message_time_to_live_max_ms;
    let parse = |text: &str| match (open_ms::<S>(option, text, least_ms)?, max_ms) {
        (asked_ms, Some(max_ms)) if asked_ms.is_none_or(|asked_ms| asked_ms > max_ms) => {
            let most = duration::iso(max_ms);
            let limit = if bounds.tier.time_to_live_ms_max() == Some(max_ms) {
                format!("than the tier \"{}\" in [namespace] allows", written(bounds.tier))
            } else {
                "than message_time_to_live_max in [limits]".to_owned()
            };
            Err(format!("longer {limit}; write at most \"{most}\""))
        }
        (asked_ms, _) => Ok(asked_ms),
    };
    let asked_ms = source.text(S::key(option), "P14D", parse);
    asked_ms.unwrap_or(match (default_ms, max_ms) {
        (Some(default_ms), Some(max_ms)) => Some(default_ms.min(max_ms)),
        (default_ms, max_ms) => default_ms.or(max_ms),
    })
}

fn open_ms<S: Source>(option: &EntityOption, text: &str, least_ms: u64) -> Result<Option<u64>, String> {
    duration::parse_open(text, least_ms, || S::too_short(option, text, least_ms))
}

/// Checks that the maximum message size fits the entity and a connection.
fn check_sizes<S: Source, O: OptionSet>(source: &mut S, options: &O, bounds: Bounds) {
    let Some((message_bytes, total_bytes)) = options.sizes_bytes() else { return };
    let room = if message_bytes > total_bytes {
        Room::Entity(O::NOUN, total_bytes / MEGABYTE)
    } else if message_bytes > bounds.reassembly_bytes_max {
        Room::Connection(bounds.reassembly_bytes_max)
    } else {
        return;
    };
    report(source, "max_message_size_in_kilobytes", &S::too_large(message_bytes / KILOBYTE, &room));
}

fn check_express<S: Source, O: OptionSet>(source: &mut S, options: &O) {
    if options.is_express_with_duplicate_detection() {
        let other = key_of::<S>("requires_duplicate_detection");
        report(source, "enable_express", &format!("can't be combined with {other}; remove one of them"));
    }
}

/// Refuses options that the namespace's tier does not support, as the service would.
fn check_tier<S: Source, O: OptionSet>(source: &mut S, options: &O, bounds: Bounds) {
    let Bounds { tier, .. } = bounds;
    let default: O = tier.defaults();
    for option in OPTIONS.iter().filter(|option| option.since > tier && option.is_of::<O>()) {
        if !option.is_equal(options, &default) {
            report(source, option.name, &format!("not in the tier {}", advice(tier, option.since)));
        }
    }
    if let (false, Some(sizes_mb)) = (tier.allows_size(options), tier.sizes_mb()) {
        let sizes: Vec<String> = sizes_mb.iter().map(u64::to_string).collect();
        let message =
            format!("must be one of {} in the tier {}", sizes.join(", "), advice(tier, Tier::Premium));
        report(source, "max_size_in_megabytes", &message);
    }
}

/// Reports the topic at this position if the tier has no topics.
pub(super) fn check_topics<S: Source>(source: &S, place: &Place, bounds: Bounds) {
    if !bounds.tier.has_topics() {
        let message = format!("no topics in the tier {}", advice(bounds.tier, Tier::Standard));
        source.report(place, "tier", &message);
    }
}

fn advice(tier: Tier, needed: Tier) -> String {
    let (tier, needed) = (written(tier), written(needed));
    format!("\"{tier}\"; remove it, or write tier = \"{needed}\" in [namespace]")
}

/// Reports an error at an option that the file sets; defaults cause none.
fn report<S: Source>(source: &mut S, name: &'static str, message: &str) {
    let key = key_of::<S>(name);
    if let Some(place) = source.place(key) {
        source.report(&place, key, message);
    }
}

fn key_of<S: Source>(name: &'static str) -> &'static str {
    EntityOption::named(name).map_or(name, S::key)
}

/// The owner's own text; an empty text means none.
fn parse_free_text(text: &str, chars_max: usize) -> Result<Option<Box<str>>, String> {
    match text.chars().count() {
        chars if chars > chars_max => Err(format!("has {chars} characters, at most {chars_max} are allowed")),
        _ => Ok((!text.is_empty()).then(|| text.into())),
    }
}

fn parse_status(text: &str) -> Result<EntityStatus, String> {
    EntityStatus::ALL.into_iter().find(|status| status.name() == text).ok_or_else(|| {
        format!(
            "\"{text}\" is not a status; write \"Active\", \"Disabled\", \"SendDisabled\" or \"ReceiveDisabled\""
        )
    })
}

/// Reports the options that only entities of the kind `Other` have.
pub(super) fn report_misplaced<O: OptionSet, Other: OptionSet>(table: &mut Table<'_, '_>, advice: &str) {
    for option in OPTIONS.iter().filter(|option| option.is_of::<Other>() && !option.is_of::<O>()) {
        table.misplaced(option.name, advice);
    }
}

impl Source for Table<'_, '_> {
    fn key(option: &EntityOption) -> &'static str {
        option.name
    }

    fn place(&mut self, key: &'static str) -> Option<Place> {
        self.value(key).map(|(_, place)| place)
    }

    fn boolean(&mut self, key: &'static str, default: bool) -> bool {
        self.boolean(key, default)
    }

    fn integer(&mut self, key: &'static str, default: u64, range: &RangeInclusive<u64>) -> u64 {
        self.integer(key, default, range)
    }

    fn duration_ms(&mut self, key: &'static str, default_ms: u64, range_ms: &RangeInclusive<u64>) -> u64 {
        self.duration_ms(key, default_ms, range_ms)
    }

    fn text<T>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.text(key, &convert::quoted(example), parse)
    }

    fn authorization_rules(&mut self, key: &'static str, noun: &str) -> Vec<AuthorizationRule> {
        authorization_rule::read_all(self, key, &format!("{noun}s.{key}"))
    }

    fn report(&self, place: &Place, key: &str, message: &str) {
        self.report(place, key, message);
    }

    fn too_short(option: &EntityOption, text: &str, least_ms: u64) -> String {
        let advice = match option.kind {
            OptionKind::IdleTime(_) => "; for tests, auto_delete_on_idle_min in [limits] lowers that",
            _ => "",
        };
        format!("{}{advice}", duration::too_short(text, least_ms))
    }

    fn too_large(message_kb: u64, room: &Room) -> String {
        match room {
            Room::Entity(noun, megabytes) => format!(
                "a message of {message_kb} KB never fits into a {noun} of {megabytes} MB; raise max_size_in_megabytes"
            ),
            Room::Connection(bytes) => format!(
                "a message of {message_kb} KB never comes through a connection with reassembly_size_max = \"{}\"; raise that in [amqp], or memory_max in [limits]",
                size::display(*bytes)
            ),
        }
    }
}
