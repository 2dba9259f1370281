//! Search for a run of characters with wildcards in one pass over a text: one bit for each position in the run that a
//! match may have reached (the "shift-and" algorithm).

use smallvec::{SmallVec, smallvec};

/// Bits in a block.
const BITS: usize = 64;
/// Runs of 1024 characters, the usual maximum length of an expression, need no allocation during the search.
const BLOCKS_USUAL: usize = 16;

/// A run of characters with wildcards. It is never empty.
#[derive(Debug, Clone)]
pub(super) struct Gaps {
    /// `None` matches any character.
    characters: Box<[Option<char>]>,
    blocks: Box<[Block]>,
}

/// The characters accepted at up to [`BITS`] positions of a run.
#[derive(Debug, Clone)]
struct Block {
    /// The positions that accept any character.
    any: u64,
    /// The positions that accept each character, in the order of the characters.
    exactly: Box<[(char, u64)]>,
}

impl Gaps {
    pub(super) fn new(characters: Vec<Option<char>>) -> Self {
        let blocks = characters.chunks(BITS).map(Block::new).collect();
        Self { characters: characters.into(), blocks }
    }

    /// Number of blocks to be processed for each character.
    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The rest after this run if the text starts with it.
    pub(super) fn strip_from_start<'a>(&self, text: &'a str) -> Option<&'a str> {
        let mut characters = text.chars();
        let is_here = self.characters.iter().all(|wanted| takes(*wanted, characters.next()));
        is_here.then_some(characters.as_str())
    }

    pub(super) fn is_end_of(&self, text: &str) -> bool {
        let mut characters = text.chars();
        self.characters.iter().rev().all(|wanted| takes(*wanted, characters.next_back()))
    }

    /// The rest after the first occurrence of this run in the text.
    pub(super) fn skip_to_end<'a>(&self, text: &'a str) -> Option<&'a str> {
        let mut reached: SmallVec<[u64; BLOCKS_USUAL]> = smallvec![0; self.blocks.len()];
        let last = 1_u64 << (self.characters.len().saturating_sub(1) % BITS);
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            // The run may start at any character.
            let mut carried = 1;
            for (reached, block) in reached.iter_mut().zip(&self.blocks) {
                let next = *reached << 1 | carried;
                carried = *reached >> (BITS - 1);
                *reached = if next == 0 { 0 } else { next & block.takes(character) };
            }
            if reached.last().is_some_and(|reached| reached & last != 0) {
                return Some(characters.as_str());
            }
        }
        None
    }
}

fn takes(wanted: Option<char>, found: Option<char>) -> bool {
    found.is_some_and(|found| wanted.is_none_or(|wanted| wanted == found))
}

impl Block {
    fn new(characters: &[Option<char>]) -> Self {
        let (mut any, mut exactly) = (0, std::collections::BTreeMap::new());
        for (place, character) in characters.iter().enumerate() {
            match character {
                Some(character) => *exactly.entry(*character).or_default() |= 1 << place,
                None => any |= 1 << place,
            }
        }
        Self { any, exactly: exactly.into_iter().collect() }
    }

    /// The positions that accept a character.
    fn takes(&self, character: char) -> u64 {
        let found = self.exactly.binary_search_by_key(&character, |(known, _)| *known);
        let exactly = found.ok().and_then(|index| self.exactly.get(index));
        self.any | exactly.map_or(0, |(_, places)| *places)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_longer_than_a_block_are_found_across_blocks() {
        for length in [1, 63, 64, 65, 128, 130, 1500] {
            let mut run = vec![Some('x'); length];
            run.push(None);
            let gaps = Gaps::new(run);
            let text = format!("{}y{}\u{fc}rest", "x".repeat(length - 1), "x".repeat(length));
            assert_eq!(gaps.skip_to_end(&text), Some("rest"), "{length}");
            assert_eq!(gaps.skip_to_end(&"x".repeat(length)), None, "{length}");
        }
    }

    proptest! {
        #[test]
        fn one_pass_finds_the_same_as_a_search_at_each_place(
            text in "[ab\u{e4}]{0,200}",
            run in prop::collection::vec(prop_oneof![Just(None), Just(Some('a')), Just(Some('\u{e4}'))], 1..140),
        ) {
            let gaps = Gaps::new(run);
            let mut starts = text.char_indices();
            let slow = starts.find_map(|(at, _)| gaps.strip_from_start(&text[at..]));
            prop_assert_eq!(gaps.skip_to_end(&text), slow);
        }
    }
}
