//! The first step of an analysis: a text is cut into pieces.
//!
//!     simple        runs of letters and digits of any script         foo_bar's 4.5 ─▶ foo bar s 4 5
//!     whitespace    runs without blanks of ASCII
//!     raw           the whole text, even if it is empty
//!     n-grams       all runs of `min` to `max` characters, or those at the start; all at position 0
//!     code          runs of letters, digits and `_`, and operators too, if requested
//!     words         words by the rules of Unicode, with dictionaries for scripts without blanks

use icu_segmenter::options::WordBreakInvariantOptions;
use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed};

use super::identifiers::{self, Parts};
use super::next;
use crate::error::Result;

/// How a text is cut.
#[derive(Debug, Clone)]
pub enum Base {
    Simple,
    Whitespace,
    Raw,
    Ngrams {
        min: usize,
        max: usize,
        prefix_only: bool,
    },
    Code {
        operators: bool,
        parts: Option<Parts>,
    },
    Words {
        segmenter: WordSegmenterBorrowed<'static>,
        /// Whether words are cut again at characters that are no letters and no digits.
        split: bool,
    },
}

impl Base {
    /// Words by the rules of Unicode.
    pub fn words(split: bool) -> Self {
        let segmenter = WordSegmenter::new_dictionary(WordBreakInvariantOptions::default());
        Self::Words { segmenter, split }
    }

    /// Hands each piece and its position to `found`.
    pub fn pieces(
        &self,
        text: &str,
        found: &mut impl FnMut(&str, u32) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Simple => numbered(text.split(separates), found),
            Self::Whitespace => numbered(text.split(|c: char| c.is_ascii_whitespace()), found),
            Self::Raw => found(text, 0),
            Self::Ngrams {
                min,
                max,
                prefix_only,
            } => ngrams(text, *min, *max, *prefix_only, found),
            Self::Code { operators, parts } => match parts {
                None => numbered(lexemes(text, *operators), found),
                Some(parts) => identifiers::split(lexemes(text, *operators), *parts, found),
            },
            Self::Words { segmenter, split } => {
                let words = words(*segmenter, text);
                if *split {
                    numbered(words.flat_map(|word| word.split(separates)), found)
                } else {
                    numbered(words.filter(|word| !word.chars().all(separates)), found)
                }
            }
        }
    }
}

fn separates(c: char) -> bool {
    !c.is_alphanumeric()
}

/// Numbers the pieces that are not empty.
fn numbered<'a>(
    pieces: impl Iterator<Item = &'a str>,
    found: &mut impl FnMut(&str, u32) -> Result<()>,
) -> Result<()> {
    let mut position = 0;
    for piece in pieces.filter(|piece| !piece.is_empty()) {
        found(piece, position)?;
        position = next(position)?;
    }
    Ok(())
}

fn ngrams(
    text: &str,
    min: usize,
    max: usize,
    prefix_only: bool,
    found: &mut impl FnMut(&str, u32) -> Result<()>,
) -> Result<()> {
    let starts = text.char_indices().map(|(start, _)| start);
    for start in starts.take(if prefix_only { 1 } else { usize::MAX }) {
        let (_, rest) = text.split_at(start);
        let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
        for end in ends.take(max).skip(min.saturating_sub(1)) {
            let (gram, _) = rest.split_at(end);
            found(gram, 0)?;
        }
    }
    Ok(())
}

/// Operators of more than one character, the longest first.
const OPERATORS: [&str; 40] = [
    ">>>=", "!==", "&&=", "**=", "//=", "<<=", "<=>", "===", ">>=", ">>>", "??=", "||=", "!=",
    "%=", "&&", "&=", "**", "*=", "++", "+=", "--", "-=", "->", "//", "/=", "::", ":=", "<-", "<<",
    "<=", "==", "=>", ">=", ">>", "??", "^=", "|=", "|>", "||", "~=",
];

fn is_identifier(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn is_operator(c: char) -> bool {
    "!%&*+-/:<=>?^|~".contains(c)
}

/// Identifiers and operators of a program.
fn lexemes(text: &str, operators: bool) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let begins = |c| is_identifier(c) || operators && is_operator(c);
        rest = rest.trim_start_matches(|c| !begins(c));
        let end = if rest.starts_with(is_identifier) {
            rest.find(|c| !is_identifier(c)).unwrap_or(rest.len())
        } else {
            let known = OPERATORS.iter().find(|known| rest.starts_with(**known));
            known.map_or(rest.len().min(1), |known| known.len())
        };
        let (piece, others) = rest.split_at(end);
        rest = others;
        (!piece.is_empty()).then_some(piece)
    })
}

/// All segments between two word boundaries, blanks and punctuation included.
fn words<'a>(
    segmenter: WordSegmenterBorrowed<'static>,
    text: &'a str,
) -> impl Iterator<Item = &'a str> {
    let ends: Vec<usize> = segmenter.segment_str(text).collect();
    let mut start = 0;
    ends.into_iter().filter_map(move |end| {
        let word = text.get(start..end);
        start = end;
        word
    })
}
