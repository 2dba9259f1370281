//! Options of entities in JSON: Service Bus's names, with values as in descriptions.

use peeklock_admin::{OptionText, options_of};
use peeklock_engine::schema::OptionSet;
use peeklock_engine::{EntityOptions, Tier};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value as Json};

/// Options in one request.
const OPTIONS_MAX: usize = 100;

/// The options of an entity, and the names of immutable ones.
pub(crate) struct Shown {
    pub(crate) options: Map<String, Json>,
    pub(crate) read_only: Vec<String>,
}

/// The options of a queue or topic.
pub(crate) fn of_entity(options: &EntityOptions, tier: Tier) -> Shown {
    match options {
        EntityOptions::Queue(options) => of(options, tier),
        EntityOptions::Topic(options) => of(options, tier),
    }
}

/// The options of any kind of entity.
pub(crate) fn of<O: OptionSet>(options: &O, tier: Tier) -> Shown {
    let mut shown = Shown { options: Map::new(), read_only: Vec::new() };
    for (OptionText { name, text }, can_change) in options_of(options, tier) {
        if !can_change {
            shown.read_only.push(name.clone());
        }
        shown.options.insert(name, Json::from(text));
    }
    shown
}

/// Options in a request: strings, numbers and booleans; null is an empty text.
#[derive(Debug, Default)]
pub(crate) struct Asked(pub(crate) Vec<OptionText>);

impl<'de> Deserialize<'de> for Asked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AskedVisitor)
    }
}

struct AskedVisitor;

impl<'de> Visitor<'de> for AskedVisitor {
    type Value = Asked;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object of options")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Asked, A::Error> {
        let mut asked: Vec<OptionText> = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, Json>()? {
            let text = match value {
                Json::Null => String::new(),
                Json::String(text) => text,
                Json::Bool(_) | Json::Number(_) => value.to_string(),
                _ => {
                    return Err(A::Error::custom(format!(
                        "the option '{name}' must be a text, a number or true or false"
                    )));
                }
            };
            if asked.len() == OPTIONS_MAX || asked.iter().any(|known| known.name == name) {
                return Err(A::Error::custom(format!(
                    "the option '{name}' occurs twice, or there are too many options"
                )));
            }
            asked.push(OptionText { name, text });
        }
        Ok(Asked(asked))
    }
}
