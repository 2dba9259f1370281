//! Writes a response's body.

use quick_xml::Writer;
use quick_xml::escape::escape;
use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};

use super::read::is_xml;

/// Attributes by name.
pub(crate) type Attributes<'a> = &'a [(&'a str, &'a str)];

/// A document as it grows.
pub(crate) struct Document(Writer<Vec<u8>>);

impl Document {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self(Writer::new(Vec::new()))
    }

    /// An element with what `inner` writes in it.
    pub(crate) fn element(&mut self, name: &str, attributes: Attributes<'_>, inner: impl FnOnce(&mut Self)) {
        let start = BytesStart::new(name).with_attributes(attributes.iter().copied());
        self.event(Event::Start(start));
        inner(self);
        self.event(Event::End(BytesEnd::new(name)));
    }

    /// An element with a text.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        self.attributed_text(name, &[], text);
    }

    /// An element with attributes and a text. Characters that XML can't carry become U+FFFD.
    pub(crate) fn attributed_text(&mut self, name: &str, attributes: Attributes<'_>, text: &str) {
        let text: String = text.chars().map(|c| if is_xml(c) { c } else { '\u{fffd}' }).collect();
        // A bare carriage return would be read as a line feed.
        let text = escape(text.as_str()).replace('\r', "&#13;");
        self.element(name, attributes, |document| {
            document.event(Event::Text(BytesText::from_escaped(text)));
        });
    }

    /// The document.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0.into_inner()
    }

    fn event(&mut self, event: Event<'_>) {
        // Memory takes everything.
        let _ = self.0.write_event(event);
    }
}
