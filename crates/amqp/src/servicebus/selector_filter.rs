//! The filter with which a receiver requests messages that match a JMS selector.
//!
//! It is identified by its descriptor, because clients choose the key: `jms-selector` for Qpid and rhea, `selector` for
//! Proton's Python, the symbol of the descriptor for others.

use peeklock_engine::Selector;

use super::errors::Fault;
use crate::wire::performative::Attach;
use crate::wire::{Fields, Str, Value};

/// The symbolic form of the descriptor, which is also a key.
const SELECTOR: &str = "apache.org:selector-filter:string";
/// The numeric form of the descriptor.
const SELECTOR_CODE: u64 = 0x0000_468C_0000_0004;
/// The key used by JMS clients.
const JMS_KEY: &str = "jms-selector";

/// A selector, and the filter as received, to be repeated.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SelectorFilter {
    pub(crate) selector: Selector,
    filter: (Str, Value),
}

impl SelectorFilter {
    /// Finds the filter in a source's filters.
    ///
    /// # Errors
    /// [`Fault::InvalidField`] for an invalid selector, and for several.
    pub(crate) fn find(filters: &Fields) -> Result<Option<Self>, Fault> {
        let mut selectors = filters.iter().filter(|(key, value)| is_selector(key, value));
        let Some(filter) = selectors.next() else { return Ok(None) };
        if selectors.next().is_some() {
            return Err(Fault::InvalidField("A source has one selector at most.".to_owned()));
        }
        let value = match &filter.1 {
            Value::Described(described) => &described.value,
            bare => bare,
        };
        let Value::String(text) = value else {
            return Err(Fault::InvalidField("A selector must be a string.".to_owned()));
        };
        let selector = Selector::new(text)
            .map_err(|error| Fault::InvalidField(format!("The selector is not valid: {error}.")))?;
        Ok(Some(Self { selector, filter: filter.clone() }))
    }

    /// Confirms the filter in the answer to the attach (AMQP 1.0, 3.5.3).
    pub(crate) fn confirm(&self, reply: &mut Attach) {
        reply.source.get_or_insert_default().filter.push(self.filter.clone());
    }
}

fn is_selector(key: &str, value: &Value) -> bool {
    match value {
        Value::Described(described) => match &described.descriptor {
            Value::ULong(code) => *code == SELECTOR_CODE,
            Value::Symbol(symbol) => &**symbol == SELECTOR,
            _ => false,
        },
        // A null value means no filter.
        Value::Null => false,
        _ => key == SELECTOR || key == JMS_KEY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(key: &str, value: Value) -> Result<Option<SelectorFilter>, Fault> {
        SelectorFilter::find(&vec![("other".into(), Value::Null), (key.into(), value)])
    }

    #[test]
    fn every_shape_that_clients_write_is_found() {
        let (code, symbol) = (Value::ULong(SELECTOR_CODE), Value::symbol(SELECTOR));
        for (key, value) in [
            ("jms-selector", Value::described(code.clone(), "a = 1".into())),
            ("selector", Value::described(symbol.clone(), "a = 1".into())),
            (SELECTOR, Value::described(symbol, "a = 1".into())),
            (SELECTOR, "a = 1".into()),
            ("jms-selector", "a = 1".into()),
        ] {
            let found = find(key, value.clone()).unwrap().unwrap();
            assert_eq!(found.selector.text(), "a = 1");
            assert_eq!(found.filter, (key.into(), value), "to be repeated");
        }
        assert_eq!(find("jms-selector", Value::Null), Ok(None));
        assert_eq!(
            find("no-local", Value::described(Value::ULong(SELECTOR_CODE - 1), Value::Null)),
            Ok(None)
        );
    }

    #[test]
    fn invalid_selectors_are_refused() {
        for value in [Value::Int(1), "a =".into(), Value::described(Value::symbol(SELECTOR), Value::Null)] {
            let refused = find("jms-selector", value).unwrap_err();
            assert_eq!(refused.condition_and_status().0, "amqp:invalid-field");
        }
        let twice = vec![(JMS_KEY.into(), "a = 1".into()), (SELECTOR.into(), "a = 1".into())];
        assert!(SelectorFilter::find(&twice).is_err());
    }
}
