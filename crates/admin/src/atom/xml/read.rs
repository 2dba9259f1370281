//! Parses a request's body into a tree of bounded size.
//!
//! Elements are identified by their local names: the SDKs agree on those and on little else (prefixes, namespaces of
//! lists).

use quick_xml::NsReader;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::ResolveResult;

use super::INSTANCE;

/// Maximum nesting; a rule's parameters are eight levels deep.
const DEPTH_MAX: usize = 32;
/// Maximum number of elements in a document; a filter with 1000 properties has 3000.
const ELEMENTS_MAX: usize = 10_000;
/// Maximum number of attributes of an element, including namespace declarations.
const ATTRIBUTES_MAX: usize = 32;

/// An element with its contents.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Its local name.
    pub name: String,
    /// `xsi:type` without prefix: the kind of the element, or the type of its text.
    pub kind: Option<String>,
    /// Whether `xsi:nil` marks it as having no value.
    pub nil: bool,
    /// Its own text, including blanks.
    pub text: String,
    /// Its child elements.
    pub children: Vec<Element>,
}

impl Element {
    /// The first child of that name.
    #[must_use]
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The children of that name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The text of the first child of that name, unless it is nil.
    #[must_use]
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).filter(|child| !child.nil).map(|child| child.text.as_str())
    }
}

/// Parses a document.
///
/// # Errors
/// The reason, as the end of a sentence.
pub(crate) fn parse(body: &[u8]) -> Result<Element, String> {
    let text = std::str::from_utf8(body).map_err(|_| "it is not UTF-8".to_owned())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = NsReader::from_str(text);
    reader.config_mut().enable_all_checks(true);
    let mut tree = Tree::default();
    loop {
        let event = reader.read_event().map_err(|error| error.to_string())?;
        match event {
            Event::Start(start) => tree.open(&reader, &start)?,
            Event::Empty(start) => {
                tree.open(&reader, &start)?;
                tree.close()?;
            }
            Event::End(_) => tree.close()?,
            Event::Text(text) => tree.text(&text.xml10_content())?,
            Event::CData(text) => tree.text(&text.xml10_content())?,
            Event::GeneralRef(reference) => tree.text(&resolve(&reference)?)?,
            Event::DocType(_) => return Err("it has a document type, which is not allowed here".to_owned()),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Eof => return tree.finish(),
        }
    }
}

/// A reference to a character; no entities are known other than the five of XML.
fn resolve(reference: &BytesRef<'_>) -> Result<String, String> {
    if let Some(character) = reference.resolve_char_ref().map_err(|error| error.to_string())? {
        return Ok(character.into());
    }
    let name = reference.xml10_content();
    let known = quick_xml::escape::resolve_predefined_entity(&name);
    known.map(str::to_owned).ok_or_else(|| "it refers to an entity that XML does not define".to_owned())
}

#[derive(Default)]
struct Tree {
    open: Vec<Element>,
    elements: usize,
    root: Option<Element>,
}

impl Tree {
    fn open(&mut self, reader: &NsReader<&[u8]>, start: &BytesStart<'_>) -> Result<(), String> {
        self.elements += 1;
        if self.open.len() >= DEPTH_MAX {
            return Err(format!("its elements are nested more than {DEPTH_MAX} deep"));
        }
        if self.elements > ELEMENTS_MAX {
            return Err(format!("it has more than {ELEMENTS_MAX} elements"));
        }
        if self.root.is_some() {
            return Err("it has more than one root element".to_owned());
        }
        let resolver = reader.resolver();
        let (namespace, name) = resolver.resolve_element(start.name());
        if let ResolveResult::Unknown(_) = namespace {
            return Err("it uses a prefix that it does not declare".to_owned());
        }
        let mut element = Element { name: name.as_ref().to_owned(), ..Element::default() };
        for (count, attribute) in start.attributes().enumerate() {
            if count >= ATTRIBUTES_MAX {
                return Err(format!("an element has more than {ATTRIBUTES_MAX} attributes"));
            }
            let attribute = attribute.map_err(|error| error.to_string())?;
            let (namespace, name) = resolver.resolve_attribute(attribute.key);
            if !matches!(namespace, ResolveResult::Bound(bound) if bound.as_ref() == INSTANCE) {
                continue;
            }
            let value =
                attribute.normalized_value(XmlVersion::default()).map_err(|error| error.to_string())?;
            match name.as_ref() {
                "type" => element.kind = Some(value.rsplit(':').next().unwrap_or_default().trim().to_owned()),
                "nil" => element.nil = matches!(&*value, "true" | "1"),
                _ => {}
            }
        }
        self.open.push(element);
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        // The parser has compared the names of start and end.
        let element = self.open.pop().ok_or("it ends an element that it did not start")?;
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => self.root = Some(element),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), String> {
        if let Some(bad) = text.chars().find(|character| !is_xml(*character)) {
            return Err(format!("it has the character {bad:?}, which XML does not allow"));
        }
        match self.open.last_mut() {
            Some(element) => element.text.push_str(text),
            None if text.trim().is_empty() => {}
            None => return Err("it has text outside of its root element".to_owned()),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Element, String> {
        if let Some(element) = self.open.pop() {
            return Err(format!("its element {} does not end", element.name));
        }
        self.root.ok_or_else(|| "it is empty".to_owned())
    }
}

/// Whether XML 1.0 can contain a character.
pub(super) fn is_xml(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}
