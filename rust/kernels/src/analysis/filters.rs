//! What becomes of a piece of text: a token, or nothing.

use std::borrow::Cow;
use std::collections::HashSet;

use foldhash::fast::RandomState;
use frostem::{Algorithm, Stemmer};

use super::folding;

/// The filters of an analysis, in the order in which they are applied.
#[derive(Clone)]
pub struct Filters {
    /// Pieces of this many bytes, or more, are dropped.
    pub max_bytes: Option<usize>,
    pub lower_case: bool,
    pub stemmer: Option<Stemmer>,
    /// Dropped if a token is one of them, after stemming.
    pub stop_words: HashSet<String, RandomState>,
    pub ascii_folding: bool,
}

impl Filters {
    /// The token of a piece; None if it is dropped. A token may be empty.
    pub fn apply<'a>(&self, piece: &'a str) -> Option<Cow<'a, str>> {
        if self.max_bytes.is_some_and(|most| piece.len() >= most) {
            return None;
        }
        let mut token = Cow::Borrowed(piece);
        if self.lower_case && piece.chars().any(|c| !c.is_ascii_lowercase()) {
            // Each character by itself: a final sigma is a sigma.
            token = Cow::Owned(piece.chars().flat_map(char::to_lowercase).collect());
        }
        if let Some(stemmer) = &self.stemmer {
            let stem = stemmer.stem(&token).into_owned();
            token = Cow::Owned(stem);
        }
        if self.stop_words.contains(token.as_ref()) {
            return None;
        }
        if self.ascii_folding && !token.is_ascii() {
            token = Cow::Owned(folding::fold(&token));
        }
        Some(token)
    }
}

/// The stemmer of a language, by its name in English and in lower case.
pub fn stemmer(language: &str) -> Option<Stemmer> {
    let algorithm = match language {
        "arabic" => Algorithm::Arabic,
        "danish" => Algorithm::Danish,
        "dutch" => Algorithm::Dutch,
        "english" => Algorithm::English,
        "finnish" => Algorithm::Finnish,
        "french" => Algorithm::French,
        "german" => Algorithm::German,
        "greek" => Algorithm::Greek,
        "hungarian" => Algorithm::Hungarian,
        "italian" => Algorithm::Italian,
        "norwegian" => Algorithm::Norwegian,
        "portuguese" => Algorithm::Portuguese,
        "romanian" => Algorithm::Romanian,
        "russian" => Algorithm::Russian,
        "spanish" => Algorithm::Spanish,
        "swedish" => Algorithm::Swedish,
        "tamil" => Algorithm::Tamil,
        "turkish" => Algorithm::Turkish,
        _ => return None,
    };
    Some(Stemmer::new(algorithm))
}
