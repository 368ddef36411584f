//! Inverted indices: posting lists, positions, scores and the search for the best documents.
//!
//!     occurrences (token, document, position) ──▶ `growing` ──▶ entries (document, frequency)
//!     entries ──▶ `writing` ──▶ blocks, positions, impacts          one row per token
//!     blocks ──▶ `posting` ──▶ `cursor` ──▶ `clause` ──▶ `tree` ──▶ `top`    the best k documents
//!
//! Documents are numbered from 0 in each partition. An entry is a document of a token with the
//! number of times that the token occurs in it.

pub mod best;
pub mod blocks;
pub mod bm25;
pub mod candidates;
pub mod choice;
pub mod clause;
pub mod common;
pub mod cursor;
pub mod documents;
pub mod entries;
pub mod grades;
pub mod greatest;
pub mod growing;
pub mod impacts;
pub mod lanes;
pub mod lists;
pub mod marks;
pub mod norms;
pub mod own_positions;
pub mod phrase;
pub mod phrase_word;
pub mod positions;
pub mod posting;
pub mod promising;
pub mod top;
pub mod tree;
pub mod varint;
pub mod writing;
