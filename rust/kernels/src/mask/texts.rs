//! Sets of texts or bytes, which are ordered by their bytes.
//!
//!     Within     from one text to another
//!     Among      some texts
//!     Like       ab%cd%ef: a prefix, parts in this order, a suffix
//!     Wild       a_c%: patterns of characters
//! The texts of a chunk are adjacent, so a part is searched in all of them at once.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use memchr::memmem::Finder;

use super::pattern::Pattern;
use super::wildcards::Wildcards;
use crate::bitmap::BitmapBuilder;
use crate::error::{Result, ensure, part};

#[derive(Debug, Clone)]
pub enum Texts {
    /// Texts from the first to the second, both included; None for no bound.
    Within(Option<Vec<u8>>, Option<Vec<u8>>),
    Among(Among),
    Like(Pattern),
    Wild(Wildcards),
    And(Box<Texts>, Box<Texts>),
    Not(Box<Texts>),
}

/// Texts, and the lengths that any of them has.
#[derive(Debug, Clone)]
pub struct Among {
    texts: HashSet<Vec<u8>, RandomState>,
    /// Bit n: one of the texts has n bytes, modulo 64.
    lengths: u64,
}

/// Adjacent texts.
#[derive(Debug, Clone, Copy)]
pub struct Strings<'a> {
    /// Where each of them begins, and the end of the last one.
    ends: &'a [usize],
    data: &'a [u8],
}

impl<'a> Strings<'a> {
    pub fn new(ends: &'a [usize], data: &'a [u8]) -> Result<Self> {
        let last = ends.last().copied().unwrap_or(0);
        let is_sorted = ends.is_sorted() && last <= data.len();
        ensure(is_sorted, "string offsets", "others", "ascending offsets")?;
        Ok(Self { ends, data })
    }

    /// `count` texts from number `first` on.
    pub fn part(&self, first: usize, count: usize) -> Result<impl Iterator<Item = &'a [u8]>> {
        let ends = part(self.ends, first, count + 1, "string offsets")?;
        Ok(Self { ends, ..*self }.iter())
    }

    fn len(&self) -> usize {
        self.ends.len().saturating_sub(1)
    }

    fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (ends, data) = (self.ends, self.data);
        ends.windows(2).map(move |pair| match pair {
            [start, end] => data.get(*start..*end).unwrap_or(&[]), // checked above
            _ => &[],
        })
    }
}

impl Texts {
    pub fn among(texts: impl Iterator<Item = Vec<u8>>) -> Self {
        let texts: HashSet<_, _> = texts.collect();
        let lengths = texts
            .iter()
            .fold(0, |all, text| all | length_bit(text.len()));
        Self::Among(Among { texts, lengths })
    }

    pub fn and(&self, other: &Self) -> Self {
        Self::And(Box::new(self.clone()), Box::new(other.clone()))
    }

    pub fn or(&self, other: &Self) -> Self {
        if let (Self::Among(one), Self::Among(two)) = (self, other) {
            return Self::among(one.texts.union(&two.texts).cloned());
        }
        self.not().and(&other.not()).not()
    }

    pub fn not(&self) -> Self {
        match self {
            Self::Not(inner) => (**inner).clone(),
            _ => Self::Not(Box::new(self.clone())),
        }
    }

    /// Appends the bit of each text.
    pub fn test(&self, strings: &Strings<'_>, out: &mut BitmapBuilder) {
        let (words, mut left) = (self.words(strings), strings.len());
        for word in words {
            let count = left.min(64);
            out.push_word(word & (u64::MAX >> (64 - count)), count);
            left -= count;
        }
    }

    /// A bit per text; those after the last one are undefined.
    fn words(&self, strings: &Strings<'_>) -> Vec<u64> {
        match self {
            Self::Within(None, None) => vec![u64::MAX; strings.len().div_ceil(64)],
            Self::Within(low, None) => {
                let low = low.as_deref().unwrap_or(&[]);
                each(strings, |text| text >= low)
            }
            Self::Within(None, Some(high)) => each(strings, |text| text <= high.as_slice()),
            Self::Within(Some(low), Some(high)) => {
                let range = low.as_slice()..=high.as_slice();
                each(strings, |text| range.contains(&text))
            }
            Self::Among(among) => among.words(strings),
            Self::Like(pattern) => match pattern.only_part() {
                Some(part) => containing(strings, part),
                None => each(strings, |text| pattern.matches(text)),
            },
            Self::Wild(pattern) => each(strings, |text| pattern.matches(text)),
            Self::And(one, two) => {
                let mut words = one.words(strings);
                if words.iter().any(|word| *word != 0) {
                    for (word, other) in words.iter_mut().zip(two.words(strings)) {
                        *word &= other;
                    }
                }
                words
            }
            Self::Not(inner) => {
                let mut words = inner.words(strings);
                words.iter_mut().for_each(|word| *word = !*word);
                words
            }
        }
    }
}

impl Among {
    /// The text, if it is only one.
    pub fn only(&self) -> Option<&[u8]> {
        let first = self.texts.iter().next().filter(|_| self.texts.len() == 1);
        first.map(Vec::as_slice)
    }

    fn words(&self, strings: &Strings<'_>) -> Vec<u64> {
        if let Some(only) = self.only() {
            return each(strings, |text| text == only);
        }
        each(strings, |text| {
            self.lengths & length_bit(text.len()) != 0 && self.texts.contains(text)
        })
    }
}

fn length_bit(length: usize) -> u64 {
    1 << (length % 64)
}

fn each(strings: &Strings<'_>, is_in: impl Fn(&[u8]) -> bool) -> Vec<u64> {
    let mut words = vec![0; strings.len().div_ceil(64)];
    let mut texts = strings.iter();
    for word in &mut words {
        for (place, text) in texts.by_ref().take(64).enumerate() {
            *word |= u64::from(is_in(text)) << place;
        }
    }
    words
}

/// The texts that contain a part, which is searched in all of them together.
fn containing(strings: &Strings<'_>, part: &Finder<'_>) -> Vec<u64> {
    let mut words = vec![0u64; strings.len().div_ceil(64)];
    let size = part.needle().len();
    let (mut text, mut at) = (0, strings.ends.first().copied().unwrap_or(0));
    let end = strings.ends.last().copied().unwrap_or(0);
    if size == 0 {
        words.fill(u64::MAX);
        return words;
    }
    while let Some(found) = strings.data.get(at..end).and_then(|left| part.find(left)) {
        let first = at + found;
        while strings.ends.get(text + 1).is_some_and(|&end| end <= first) {
            text += 1;
        }
        let Some(&stop) = strings.ends.get(text + 1) else {
            break;
        };
        if first + size <= stop
            && let Some(word) = words.get_mut(text / 64)
        {
            *word |= 1 << (text % 64);
        }
        // No later match can end in this text. Texts shorter than the part would each be searched
        // up to the length of the part.
        text += 1;
        while let Some(&[start, end]) = strings.ends.get(text..).and_then(<[_]>::first_chunk)
            && end - start < size
        {
            text += 1;
        }
        at = strings.ends.get(text).copied().unwrap_or(end);
    }
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]
    use super::*;
    use crate::bitmap::bit;

    #[test]
    fn a_part_is_found_within_texts_only() -> Result<()> {
        let data = b"aaaaaaabaabaaaabbaaaaab".repeat(9);
        for (stride, size) in [(1, 1), (2, 3), (5, 3), (7, 4), (11, 30), (70, 30)] {
            let ends = (0..=data.len()).filter(|end| end * end % stride < 2);
            let ends: Vec<usize> = ends.chain([data.len(); 3]).collect();
            let part = &data[..size];
            let texts = Texts::Like(Pattern::new(b"", &[part.to_vec()], b""));
            let mut bits = BitmapBuilder::default();
            texts.test(&Strings::new(&ends, &data)?, &mut bits);
            let bits = bits.finish();
            for (row, pair) in ends.windows(2).enumerate() {
                let text = &data[pair[0]..pair[1]];
                let expected = text.windows(size).any(|window| window == part);
                assert_eq!(bit(&bits, row), expected, "row {row}, {stride}, {size}");
            }
        }
        Ok(())
    }
}
