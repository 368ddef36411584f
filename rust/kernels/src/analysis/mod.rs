//! Text analysis: from documents to tokens and their positions.
//!
//!     text ──base──▶ pieces, with positions ──filters──▶ tokens, with the same positions
//!     "The quick foxes"    The@0 quick@1 foxes@2         quick@1 fox@2
//!
//! The filters, in this order: drop long pieces, lower case, stem, drop stop words, fold to ASCII.
//! A JSON document has a token `path,type,value` per value; only its strings are analysed.

mod base;
pub mod dictionary;
mod documents;
mod filters;
pub mod folding;
mod identifiers;
mod interner;
mod json;

use crate::error::{Result, out_of_range, signed};

pub use base::Base;
pub use documents::{Documents, Lists, Texts};
pub use filters::{Filters, stemmer};
pub use identifiers::Parts;

/// What a document consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    /// JSON text.
    Json,
    /// Values that are looked for in JSON documents: `path,type,value` with `;` between them.
    JsonQuery,
}

/// How documents are analysed.
pub struct Analyzer {
    pub base: Base,
    pub filters: Filters,
    pub form: Form,
}

/// A part of a document that may become a token.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Path and type of the JSON value that contains it; empty in texts.
    pub prefix: &'a str,
    pub text: &'a str,
    /// Whether it is a token as it is, without filters.
    pub verbatim: bool,
}

/// Takes a piece and its position, and returns whether it became a token.
pub trait Sink: FnMut(Piece<'_>, u32) -> Result<bool> {}
impl<F: FnMut(Piece<'_>, u32) -> Result<bool>> Sink for F {}

/// Tokens of documents, as text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Offsets of the tokens in `data`, and its length.
    pub offsets: Vec<i64>,
    pub data: Vec<u8>,
    pub positions: Vec<u32>,
    /// The number of tokens at the end of each document.
    pub ends: Vec<i64>,
}

/// Pieces of documents, each with its prefix.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// Offsets of the prefixes in their bytes, and these.
    pub prefixes: (Vec<i64>, Vec<u8>),
    pub texts: (Vec<i64>, Vec<u8>),
    /// Which of them no filter changes.
    pub verbatim: Vec<bool>,
    /// The number of pieces at the end of each document.
    pub ends: Vec<i64>,
}

impl Analyzer {
    /// The pieces of each document, to which no filter is applied; those of a null are none.
    pub fn cut(&self, documents: &Documents<'_>) -> Result<Pieces> {
        let mut made = Pieces {
            prefixes: (vec![0], Vec::new()),
            texts: (vec![0], Vec::new()),
            ..Pieces::default()
        };
        documents.each(|document| {
            if let Some(text) = document {
                self.pieces(text, &mut |piece: Piece<'_>, _| {
                    append(&mut made.prefixes, piece.prefix)?;
                    append(&mut made.texts, piece.text)?;
                    made.verbatim.push(piece.verbatim);
                    Ok(true)
                })?;
            }
            made.ends.push(signed(made.verbatim.len(), "pieces")?);
            Ok(())
        })?;
        Ok(made)
    }

    /// The tokens of each document; those of a null document are none.
    pub fn tokens(&self, documents: &Documents<'_>) -> Result<Tokens> {
        let mut made = Tokens {
            offsets: vec![0],
            ..Tokens::default()
        };
        documents.each(|document| {
            if let Some(text) = document {
                self.each_token(text, |prefix, token, position| {
                    made.data.extend_from_slice(prefix.as_bytes());
                    made.data.extend_from_slice(token.as_bytes());
                    made.offsets.push(signed(made.data.len(), "tokens")?);
                    made.positions.push(position);
                    Ok(())
                })?;
            }
            made.ends.push(signed(made.positions.len(), "tokens")?);
            Ok(())
        })?;
        Ok(made)
    }

    /// The tokens of one document and their positions.
    pub fn words(&self, text: &str) -> Result<Vec<(String, u32)>> {
        let mut words = Vec::new();
        self.each_token(text, |prefix, token, position| {
            words.push((format!("{prefix}{token}"), position));
            Ok(())
        })?;
        Ok(words)
    }

    /// Hands the tokens of one document, each after its prefix, to `take`.
    pub fn each_token(
        &self,
        text: &str,
        mut take: impl FnMut(&str, &str, u32) -> Result<()>,
    ) -> Result<()> {
        self.pieces(text, &mut |piece: Piece<'_>, position| {
            let token = self.token(piece);
            if let Some(token) = &token {
                take(piece.prefix, token, position)?;
            }
            Ok(token.is_some())
        })
    }

    /// Hands the pieces of one document to `sink`.
    fn pieces(&self, text: &str, sink: &mut impl Sink) -> Result<()> {
        match self.form {
            Form::Text => self.base.pieces(text, &mut |text, position| {
                let piece = Piece {
                    prefix: "",
                    text,
                    verbatim: false,
                };
                sink(piece, position).map(drop)
            }),
            Form::Json => json::document(&self.base, text, sink),
            Form::JsonQuery => json::query(&self.base, text, sink),
        }
    }

    /// The token of a piece, without its prefix; None if a filter drops it.
    fn token<'a>(&self, piece: Piece<'a>) -> Option<std::borrow::Cow<'a, str>> {
        if piece.verbatim {
            Some(piece.text.into())
        } else {
            self.filters.apply(piece.text)
        }
    }
}

fn append((offsets, data): &mut (Vec<i64>, Vec<u8>), text: &str) -> Result<()> {
    data.extend_from_slice(text.as_bytes());
    offsets.push(signed(data.len(), "pieces")?);
    Ok(())
}

/// Counts on, within what fits into a position.
fn next(position: u32) -> Result<u32> {
    position
        .checked_add(1)
        .ok_or_else(|| out_of_range("position of a token"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::offsets::OffsetsIn;
    use dictionary::Dictionary;
    use std::sync::Arc;

    fn analyzer(base: Base, form: Form) -> Analyzer {
        let filters = Filters {
            max_bytes: Some(9),
            lower_case: true,
            stemmer: stemmer("english"),
            stop_words: ["the".to_owned()].into_iter().collect(),
            ascii_folding: true,
        };
        Analyzer {
            base,
            filters,
            form,
        }
    }

    fn one<T>(text: &str, run: impl FnOnce(&Documents<'_>) -> Result<T>) -> Result<T> {
        let offsets = [0, text.len().try_into().unwrap()];
        run(&Documents {
            texts: Texts {
                offsets: OffsetsIn::Large(&offsets),
                data: text.as_bytes(),
                validity: None,
            },
            lists: None,
        })
    }

    fn found(base: Base, form: Form, text: &str) -> Vec<(String, u32)> {
        let analyzer = Arc::new(analyzer(base, form));
        let made = one(text, |documents| analyzer.tokens(documents)).unwrap();
        let offsets = OffsetsIn::Large(&made.offsets);
        let token = |row| crate::token_set::token_at(offsets, &made.data, row).unwrap();
        let mut dictionary = Dictionary::new(Arc::clone(&analyzer));
        let numbered = one(text, |documents| dictionary.analyze(documents)).unwrap();
        let numbers = dictionary.add((0..offsets.count()).map(|row| Ok(token(row))));
        assert_eq!(numbers.unwrap(), numbered.tokens);
        assert_eq!(numbered.positions, made.positions);
        let words = analyzer.words(text).unwrap();
        let text = |row| String::from_utf8(token(row).to_vec()).unwrap();
        let tokens = (0..offsets.count()).map(text);
        let found: Vec<_> = tokens.zip(made.positions.iter().copied()).collect();
        assert_eq!(found, words);
        found
    }

    #[test]
    fn positions_have_gaps_where_pieces_are_dropped() {
        let tokens = found(Base::Simple, Form::Text, "Running the_Größen 123456789 x");
        let expected = [("run", 0), ("grossen", 2), ("x", 4)].map(|(t, p)| (t.to_owned(), p));
        assert_eq!(tokens, expected);
    }

    #[test]
    fn parts_of_identifiers_have_positions_of_their_own() {
        let parts = Some(Parts {
            on_numerics: true,
            preserve_original: true,
        });
        let base = Base::Code {
            operators: true,
            parts,
        };
        let tokens = found(base, Form::Text, "aB2->XMLHttp _x_");
        let expected = [
            ("ab2", 0),
            ("a", 0),
            ("b", 1),
            ("2", 2),
            ("->", 3),
            ("xmlhttp", 4),
            ("xml", 4),
            ("http", 5),
            ("_x_", 6),
        ];
        assert_eq!(tokens, expected.map(|(t, p)| (t.to_owned(), p)));
    }

    #[test]
    fn values_of_json_count_their_tokens() {
        let text = r#"{"b":[1.50,"the Cats"],"a":{"c":null}}"#;
        let expected = [("a.c,null,null", 0), ("b,number,1.5", 1), ("b,str,cat", 2)];
        let expected = expected.map(|(t, p)| (t.to_owned(), p));
        assert_eq!(found(Base::Simple, Form::Json, text), expected);
        let query = "a.c,null,null;b,number,1.5;b,str,the cats";
        assert_eq!(found(Base::Simple, Form::JsonQuery, query), expected);
    }

    #[test]
    fn pieces_with_their_prefixes() {
        let analyzer = analyzer(Base::Raw, Form::JsonQuery);
        let made = one("a,str,The, x;b,null,null", |documents| {
            analyzer.cut(documents)
        })
        .unwrap();
        let expected = Pieces {
            prefixes: (vec![0, 6, 13], b"a,str,b,null,".to_vec()),
            texts: (vec![0, 6, 10], b"The, xnull".to_vec()),
            verbatim: vec![false, true],
            ends: vec![2],
        };
        assert_eq!(made, expected);
    }

    #[test]
    fn documents_that_are_damaged() {
        let analyzer = analyzer(Base::Raw, Form::Text);
        for (offsets, data) in [([0, 9], &b"x"[..]), ([1, 0], b"x"), ([0, 1], b"\xff")] {
            let texts = Texts {
                offsets: OffsetsIn::Small(&offsets),
                data,
                validity: None,
            };
            let documents = Documents { texts, lists: None };
            assert!(analyzer.tokens(&documents).is_err());
            let validity = Some((&[][..], 0));
            let texts = Texts { validity, ..texts };
            assert!(analyzer.tokens(&Documents { texts, lists: None }).is_err());
        }
    }
}
