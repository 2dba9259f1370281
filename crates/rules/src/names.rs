//! Names of properties: compared case-insensitively, including letters beyond ASCII.

/// A name prepared for frequent comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// The original spelling.
    written: Box<str>,
    /// Its letters folded to one case, if some are beyond ASCII.
    folded: Option<Box<str>>,
}

impl Name {
    pub(crate) fn new(written: &str) -> Self {
        let folded = (!written.is_ascii()).then(|| written.chars().map(fold).collect::<String>().into());
        Self { written: written.into(), folded }
    }

    pub(crate) fn written(&self) -> &str {
        &self.written
    }

    /// Whether a message's property has this name.
    #[inline]
    pub(crate) fn is(&self, other: &str) -> bool {
        match &self.folded {
            None => self.written.eq_ignore_ascii_case(other),
            Some(folded) => !other.is_ascii() && folded.chars().eq(other.chars().map(fold)),
        }
    }
}

/// Whether two names are equal.
pub(crate) fn same(left: &str, right: &str) -> bool {
    match (left.is_ascii(), right.is_ascii()) {
        (true, true) => left.eq_ignore_ascii_case(right),
        // No letter beyond ASCII folds into ASCII, or vice versa.
        (true, false) | (false, true) => false,
        (false, false) => left.chars().map(fold).eq(right.chars().map(fold)),
    }
}

/// Folds a letter to the case in which names are compared: its simple upper case, like .NET's "ordinal, ignoring case"
/// (which leaves the dotless i and the long s unchanged). Names are equal when all their letters fold to the same.
pub(crate) fn fold(letter: char) -> char {
    match letter {
        'ı' | 'ſ' => letter,
        // Their simple upper case is one letter, while the full one, which Rust provides, is two.
        '\u{1F80}'..='\u{1F87}' | '\u{1F90}'..='\u{1F97}' | '\u{1FA0}'..='\u{1FA7}' => later(letter, 8),
        '\u{1FB3}' | '\u{1FC3}' | '\u{1FF3}' => later(letter, 9),
        _ => {
            let mut upper = letter.to_uppercase();
            match (upper.next(), upper.next()) {
                (Some(upper), None) => upper,
                _ => letter,
            }
        }
    }
}

fn later(letter: char, by: u32) -> char {
    char::from_u32(u32::from(letter) + by).unwrap_or(letter)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_the_same_regardless_of_case() {
        let pairs = [
            ("Color", "cOLOR"),
            ("Größe", "GRÖßE"),
            ("σίγμα", "ΣΊΓΜΑ"),
            ("ς", "σ"),
            ("Имя", "имЯ"),
            ("ᾳ", "ᾼ"),
            ("ᾀ", "ᾈ"),
            ("𐐀", "𐐨"),
            ("[x]", "[X]"),
            ("", ""),
        ];
        for (left, right) in pairs {
            assert!(same(left, right) && same(right, left), "{left} {right}");
            assert!(Name::new(left).is(right) && Name::new(right).is(left), "{left} {right}");
        }
    }

    #[test]
    fn letters_that_only_look_alike_are_different() {
        for (left, right) in
            [("ı", "I"), ("ſ", "s"), ("\u{212A}", "k"), ("ß", "ss"), ("ß", "ẞ"), ("a", "aa"), ("é", "e")]
        {
            assert!(!same(left, right) && !Name::new(left).is(right), "{left} {right}");
        }
    }

    proptest! {
        #[test]
        fn no_letter_folds_in_or_out_of_ascii(letter: char) {
            prop_assert_eq!(fold(letter).is_ascii(), letter.is_ascii());
            prop_assert_eq!(fold(fold(letter)), fold(letter));
        }

        #[test]
        fn a_prepared_name_equals_the_name(left in "[aAbBüÜσςΣ]{0,3}", right in "[aAbBüÜσςΣ]{0,3}") {
            prop_assert_eq!(Name::new(&left).is(&right), same(&left, &right));
        }
    }
}
