//! Identifiers of programs, cut into parts.
//!
//!     getUserName_12ab  ──▶  get User Name 12 ab      with `on_numerics`, else … 12ab
//!     XMLHttpRequest    ──▶  XML Http Request
//!
//! The whole identifier has the position of its first part, and the next piece follows the last.

use super::next;
use crate::error::Result;

/// How identifiers are cut into parts.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// Whether a part ends where digits begin or end.
    pub on_numerics: bool,
    /// Whether the whole identifier is a piece, too, at the position of its first part.
    pub preserve_original: bool,
}

/// Hands each piece, and the parts of those that have more than one, to `found`.
pub fn split<'a>(
    pieces: impl Iterator<Item = &'a str>,
    parts: Parts,
    found: &mut impl FnMut(&str, u32) -> Result<()>,
) -> Result<()> {
    let mut position = 0;
    let mut cut = Vec::new();
    for piece in pieces {
        cut.clear();
        for segment in piece.split('_').filter(|segment| !segment.is_empty()) {
            cut_segment(segment, parts.on_numerics, &mut cut);
        }
        if cut.len() < 2 || parts.preserve_original {
            found(piece, position)?;
        }
        if cut.len() < 2 {
            position = next(position)?;
            continue;
        }
        for part in &cut {
            found(part, position)?;
            position = next(position)?;
        }
    }
    Ok(())
}

/// Cuts where upper case begins, before the last of several upper-case letters that lower case
/// follows, and at digits.
fn cut_segment<'a>(segment: &'a str, on_numerics: bool, cut: &mut Vec<&'a str>) {
    let mut rest = segment;
    let mut start = 0;
    let mut last = None;
    let mut chars = segment.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let follows = chars.peek().map(|&(_, c)| c);
        if last.is_some_and(|last| begins(last, c, follows, on_numerics)) {
            let (part, others) = rest.split_at(at - start);
            cut.push(part);
            (rest, start) = (others, at);
        }
        last = Some(c);
    }
    cut.push(rest);
}

/// Whether a part begins with `c`.
fn begins(last: char, c: char, follows: Option<char>, on_numerics: bool) -> bool {
    if on_numerics && last.is_ascii_digit() != c.is_ascii_digit() {
        return true;
    }
    let acronym_ends = last.is_uppercase() && follows.is_some_and(char::is_lowercase);
    c.is_uppercase() && (last.is_lowercase() || acronym_ends)
}
