//! Options in the emulator's file: with Service Bus's names, and messages of their own.

use std::ops::RangeInclusive;

use peeklock_engine::AuthorizationRule;
use peeklock_engine::schema::{EntityOption, OptionKind};

use super::object::{Object, place};
use crate::config::duration;
use crate::config::names::Place;
use crate::config::options::{Room, Source};

const HISTORY_WINDOW: &str = "DuplicateDetectionHistoryTimeWindow";
/// The emulator's minimum.
const HISTORY_WINDOW_MS_MIN: u64 = 5_000;

impl Source for Object<'_, '_> {
    fn key(option: &EntityOption) -> &'static str {
        option.service_name
    }

    fn place(&mut self, key: &'static str) -> Option<Place> {
        self.value(key).map(place)
    }

    fn boolean(&mut self, key: &'static str, default: bool) -> bool {
        self.boolean(key, default)
    }

    fn integer(&mut self, key: &'static str, default: u64, range: &RangeInclusive<u64>) -> u64 {
        self.integer(key, default, range)
    }

    /// Service Bus remembers ids for at least 20 seconds, the emulator for 5: shorter durations are raised to the
    /// minimum.
    fn duration_ms(&mut self, key: &'static str, default_ms: u64, range_ms: &RangeInclusive<u64>) -> u64 {
        let least_ms = if key == HISTORY_WINDOW { HISTORY_WINDOW_MS_MIN } else { *range_ms.start() };
        self.duration_ms(key, default_ms, &(least_ms..=*range_ms.end())).max(*range_ms.start())
    }

    fn text<T>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.text(key, example, parse)
    }

    /// The emulator's file has none.
    fn authorization_rules(&mut self, _: &'static str, _: &str) -> Vec<AuthorizationRule> {
        Vec::new()
    }

    fn report(&self, place: &Place, key: &str, message: &str) {
        self.report(place, key, message);
    }

    fn too_short(option: &EntityOption, text: &str, least_ms: u64) -> String {
        match option.kind {
            OptionKind::TimeToLive(..) => format!("\"{text}\" is less than a second"),
            _ => duration::too_short(text, least_ms),
        }
    }

    fn too_large(message_kb: u64, _: &Room) -> String {
        let advice = "raise MaxSizeInMegabytes, or memory_max in [limits]";
        format!("a message of {message_kb} KB never fits; {advice}")
    }
}
