//! Trigrams: three adjacent letters or digits of a text, in lower case and folded to ASCII.
//!
//! A trigram is the number `(a * 37 + b) * 37 + c`, where `0` to `9` count 1 to 10, and `a` to `z`
//! count 11 to 36. Other characters are part of no trigram.

use crate::analysis::folding::fold;
use crate::error::{Corrupt, Result, ensure, out_of_range};
use crate::offsets::OffsetsIn;
use crate::row_run::Run;
use crate::row_set_writer::{Form, Packed};

const BASE: u32 = 37;
const COUNT: usize = 37 * 37 * 37;
/// In the place of a trigram: the rows without a text.
const NULLS: u32 = 0;

/// The distinct trigrams of a text, in ascending order.
pub fn of(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    each(text, |trigram| found.push(trigram));
    found.sort_unstable();
    found.dedup();
    found
}

fn each(text: &str, mut take: impl FnMut(u32)) {
    let (mut first, mut second) = (None, None);
    for character in fold(&text.to_lowercase()).chars() {
        let third = digit(character);
        if let (Some(a), Some(b), Some(c)) = (first, second, third) {
            take((a * BASE + b) * BASE + c);
        }
        (first, second) = (second, third);
    }
}

fn digit(character: char) -> Option<u32> {
    match character {
        '0'..='9' => Some(u32::from(character) - u32::from('0') + 1),
        'a'..='z' => Some(u32::from(character) - u32::from('a') + 11),
        _ => None,
    }
}

/// The rows of each trigram, while they are collected, and those without a text.
#[derive(Debug)]
pub struct Postings {
    runs: Vec<Run>,
    num_taken: usize,
}

impl Default for Postings {
    fn default() -> Self {
        Self {
            runs: vec![Run::default(); COUNT],
            num_taken: 0,
        }
    }
}

impl Postings {
    /// Adds texts, each with its row.
    pub fn add(&mut self, offsets: OffsetsIn<'_>, data: &[u8], rows: &[u64]) -> Result<()> {
        ensure(
            offsets.count() == rows.len(),
            "rows",
            rows.len(),
            offsets.count(),
        )?;
        for (place, &row) in rows.iter().enumerate() {
            let text = std::str::from_utf8(offsets.value(data, place, "text")?)
                .map_err(|error| Corrupt(format!("text {place} is not UTF-8: {error}")))?;
            each(text, |trigram| self.push(trigram, row));
        }
        Ok(())
    }

    /// Adds rows without a text.
    pub fn add_nulls(&mut self, rows: &[u64]) {
        for &row in rows {
            self.push(NULLS, row);
        }
    }

    #[inline]
    fn push(&mut self, trigram: u32, row: u64) {
        if let Some(run) = self.runs.get_mut(trigram as usize) {
            run.push(row);
        }
    }

    /// The next trigrams in ascending order and their serialized sets of rows, of at least
    /// `wanted_bytes` unless they are the last; `NULLS` for the rows without a text.
    pub fn take(&mut self, wanted_bytes: usize) -> Result<(Vec<u32>, Packed)> {
        let (mut keys, mut packed) = (Vec::new(), Packed::default());
        let left = self.runs.iter_mut().enumerate().skip(self.num_taken);
        for (trigram, run) in left {
            if packed.data.len() >= wanted_bytes {
                break;
            }
            self.num_taken = trigram + 1;
            if run.is_empty() {
                continue;
            }
            packed.push_run(Form::Set, &std::mem::take(run))?;
            keys.push(u32::try_from(trigram).map_err(|_| out_of_range("trigram"))?);
        }
        Ok((keys, packed))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn known_trigrams() {
        assert_eq!(of("abc"), [15516]);
        assert_eq!(of("ÀBC x-y 1é2"), [of("1e2"), of("abc")].concat());
        assert!(of("ab").is_empty());
    }

    #[test]
    fn rows_of_texts() {
        let mut postings = Postings::default();
        let added = postings.add(OffsetsIn::Small(&[0, 4, 7]), b"abcdabc", &[1 << 40, 7]);
        assert_eq!(added, Ok(()));
        postings.add_nulls(&[2]);
        let outside = postings.add(OffsetsIn::Small(&[0, 9]), b"abc", &[1]);
        assert!(outside.is_err());
        let (keys, packed) = postings.take(1).unwrap();
        assert_eq!(
            (keys, rows_of(&packed)),
            (vec![NULLS], (vec![2], vec![0, 1]))
        );
        let (keys, packed) = postings.take(1 << 20).unwrap();
        assert_eq!(keys, of("abcd"));
        assert_eq!(rows_of(&packed), (vec![7, 1 << 40, 1 << 40], vec![0, 2, 3]));
        assert!(postings.take(1).unwrap().0.is_empty());
    }

    fn rows_of(packed: &Packed) -> (Vec<u64>, Vec<i64>) {
        let ends = packed.ends.iter().map(|end| usize::try_from(*end).unwrap());
        crate::row_maps::unpack(&packed.data, &ends.collect::<Vec<_>>()).unwrap()
    }
}
