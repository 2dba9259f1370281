//! Layers over the sent application properties: changes by actions, over them changes by receivers, over them the
//! reason of dead-lettering.

use std::collections::HashMap;

use peeklock_engine::{MessageView, PropertyValue};
use peeklock_wire::message::{MapEntry, MapSection};
use smallvec::SmallVec;

use super::{DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON, changed};

/// The topmost change of one property.
enum PropertyChange<'a> {
    Removed,
    /// Set by an action.
    Set(&'a PropertyValue),
    /// Set by a receiver, encoded.
    Modified(&'a [u8]),
    /// A reason or description of dead-lettering.
    Stamp(&'a str),
    /// Already written.
    Written,
}

/// Number of properties from which on they are looked up in a table: a receiver may change thousands, and each is
/// looked up.
const TABLE_MIN: usize = 32;

/// The topmost change of each changed property.
pub(super) struct Overlay<'a> {
    layers: SmallVec<[(&'a str, PropertyChange<'a>); 4]>,
    /// The index of each, if there are many. Used for look-ups only, so its order is unobservable.
    table: HashMap<&'a str, usize>,
}

impl<'a> Overlay<'a> {
    /// `None` if nothing was changed.
    pub(super) fn of(view: &'a MessageView) -> Option<Self> {
        if view.changes.is_none() && view.modified.is_none() && view.dead_letter.is_none() {
            return None;
        }
        let mut overlay = Self { layers: SmallVec::new(), table: HashMap::new() };
        for (name, value) in view.changes.iter().flat_map(|changes| &changes.user) {
            overlay.lay(name, value.as_ref().map_or(PropertyChange::Removed, PropertyChange::Set));
        }
        for property in view.modified.iter().flat_map(|modified| modified.iter()) {
            overlay.lay(&property.name, PropertyChange::Modified(&property.value));
        }
        if let Some(why) = &view.dead_letter {
            for (name, text) in
                [(DEAD_LETTER_REASON, &why.reason), (DEAD_LETTER_DESCRIPTION, &why.description)]
            {
                if let Some(text) = text {
                    overlay.lay(name, PropertyChange::Stamp(text));
                }
            }
        }
        (!overlay.layers.is_empty()).then_some(overlay)
    }

    fn lay(&mut self, name: &'a str, over: PropertyChange<'a>) {
        match self.find(name) {
            Some((_, below)) => *below = over,
            None => self.push(name, over),
        }
    }

    fn push(&mut self, name: &'a str, over: PropertyChange<'a>) {
        self.layers.push((name, over));
        if self.layers.len() == TABLE_MIN {
            self.table = self.layers.iter().zip(0..).map(|((name, _), place)| (*name, place)).collect();
        } else if self.layers.len() > TABLE_MIN {
            self.table.insert(name, self.layers.len() - 1);
        }
    }

    fn find(&mut self, name: &str) -> Option<&mut (&'a str, PropertyChange<'a>)> {
        if self.layers.len() < TABLE_MIN {
            return self.layers.iter_mut().find(|(known, _)| *known == name);
        }
        self.layers.get_mut(*self.table.get(name)?)
    }

    /// Writes a sent property, or its change in the same place. If two names differ only in case, rules see the first.
    pub(super) fn write_over(&mut self, sent: MapEntry<'_>, section: &mut MapSection<'_>) {
        let over = sent.key.and_then(|key| self.find(key));
        match over {
            None => section.entry(sent),
            Some((name, over)) => write(section, name, over, Some(sent)),
        }
    }

    /// Writes the properties that were not sent.
    pub(super) fn write_rest(mut self, section: &mut MapSection<'_>) {
        for (name, over) in &mut self.layers {
            write(section, name, over, None);
        }
    }
}

/// Writes a property once; SDKs would read a second one of the same name instead of the first.
fn write(
    section: &mut MapSection<'_>,
    name: &str,
    over: &mut PropertyChange<'_>,
    sent: Option<MapEntry<'_>>,
) {
    match over {
        PropertyChange::Removed | PropertyChange::Written => return,
        PropertyChange::Set(value) => section.value(name, &changed::as_sent(value, sent)),
        PropertyChange::Modified(encoded) => section.encoded(name, encoded),
        PropertyChange::Stamp(text) => section.string(name, text),
    }
    *over = PropertyChange::Written;
}
