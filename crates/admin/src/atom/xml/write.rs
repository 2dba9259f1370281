//! Writes a response's body.

use quick_xml::Writer;
use quick_xml::escape::escape;
use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};

use super::read::is_xml;

/// Attributes by name.
pub(crate) type Attributes<'a> = &'a [(&'a str, &'a str)];

/// A document under construction.
pub(crate) struct Document(Writer<Vec<u8>>);

impl Document {
    /// An empty document.
    pub(crate) fn new() -> Self {
        Self(Writer::new(Vec::new()))
    }

    /// Writes an element whose contents are written by `inner`.
    pub(crate) fn element(&mut self, name: &str, attributes: Attributes<'_>, inner: impl FnOnce(&mut Self)) {
        let start = BytesStart::new(name).with_attributes(attributes.iter().copied());
        self.event(Event::Start(start));
        inner(self);
        self.event(Event::End(BytesEnd::new(name)));
    }

    /// Writes an element with a text.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        self.attributed_text(name, &[], text);
    }

    /// Writes an element with attributes and a text. Characters that XML can't contain become U+FFFD.
    pub(crate) fn attributed_text(&mut self, name: &str, attributes: Attributes<'_>, text: &str) {
        let text: String = text.chars().map(|c| if is_xml(c) { c } else { '\u{fffd}' }).collect();
        // Parsers read a bare carriage return as a line feed.
        let text = escape(text.as_str()).replace('\r', "&#13;");
        self.element(name, attributes, |document| {
            document.event(Event::Text(BytesText::from_escaped(text)));
        });
    }

    /// The finished document.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0.into_inner()
    }

    fn event(&mut self, event: Event<'_>) {
        // Writing to memory can't fail.
        let _ = self.0.write_event(event);
    }
}
