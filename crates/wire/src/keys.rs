//! The keys of one map: none may be null or a duplicate (part 1.6.23).

use smallvec::SmallVec;

use super::DecodeError;
use super::code::format;
use super::read::Result;

/// Number of keys that are compared pair by pair; more are sorted.
const FEW: usize = 16;

/// A key in a form that is equal for equal keys, whatever their encodings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    /// A constructor that represents the type.
    kind: u8,
    contents: &'a [u8],
}

impl<'a> Key<'a> {
    /// The key with this complete encoding.
    fn of(encoded: &'a [u8]) -> Self {
        let Some((&code, contents)) = encoded.split_first() else {
            return Self { kind: format::NULL, contents: encoded };
        };
        let after = |bytes: usize| contents.get(bytes..).unwrap_or_default();
        let (kind, contents) = match code {
            format::TRUE => (format::BOOLEAN, &[1][..]),
            format::FALSE => (format::BOOLEAN, &[0][..]),
            format::UINT_0 | format::SMALL_UINT | format::UINT => (format::UINT, unsigned(contents)),
            format::ULONG_0 | format::SMALL_ULONG | format::ULONG => (format::ULONG, unsigned(contents)),
            format::SMALL_INT | format::INT => (format::INT, signed(contents)),
            format::SMALL_LONG | format::LONG => (format::LONG, signed(contents)),
            format::STRING_8 | format::SYMBOL_8 | format::BINARY_8 => (code, after(1)),
            format::STRING_32 | format::SYMBOL_32 | format::BINARY_32 => (code & 0xaf, after(4)),
            _ => (code, contents),
        };
        Self { kind, contents }
    }
}

/// The number without leading zeros.
fn unsigned(mut contents: &[u8]) -> &[u8] {
    while let [0, rest @ ..] = contents {
        contents = rest;
    }
    contents
}

/// The number without leading bytes that only repeat the sign.
fn signed(mut contents: &[u8]) -> &[u8] {
    while let [sign @ (0x00 | 0xff), rest @ ..] = contents
        && rest.first().is_some_and(|next| next & 0x80 == sign & 0x80)
    {
        contents = rest;
    }
    contents
}

/// The keys of one map.
#[derive(Debug, Default)]
pub(super) struct Keys<'a> {
    keys: SmallVec<[Key<'a>; FEW]>,
}

impl<'a> Keys<'a> {
    /// Adds an encoded key.
    pub(super) fn add(&mut self, encoded: &'a [u8]) {
        self.keys.push(Key::of(encoded));
    }

    /// Adds a text key of a map in which strings and symbols are the same.
    pub(super) fn add_text(&mut self, encoded: &'a [u8]) {
        self.keys.push(Key { kind: format::SYMBOL_8, ..Key::of(encoded) });
    }

    /// Checks that no key is a duplicate.
    ///
    /// # Errors
    /// [`DecodeError`] for a duplicate.
    pub(super) fn check(mut self) -> Result<()> {
        let is_repeated = if self.keys.len() > FEW {
            self.keys.sort_unstable();
            self.keys.windows(2).any(|pair| matches!(pair, [one, other] if one == other))
        } else {
            self.keys
                .iter()
                .enumerate()
                .any(|(index, key)| self.keys.iter().take(index).any(|earlier| earlier == key))
        };
        if is_repeated { Err(DecodeError::new("a map with a key twice")) } else { Ok(()) }
    }
}

/// Checks that a key is not null.
///
/// # Errors
/// [`DecodeError`] if it is.
pub(super) fn check_not_null(encoded: &[u8]) -> Result<()> {
    match encoded.first() {
        None | Some(&format::NULL) => Err(DecodeError::new("a map with a null key")),
        Some(_) => Ok(()),
    }
}
