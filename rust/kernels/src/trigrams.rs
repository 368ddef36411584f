//! Trigrams: three adjacent letters or digits of a text, in lower case and folded to ASCII.
//!
//! A trigram is the number `(a * 37 + b) * 37 + c`, where `0` to `9` count 1 to 10, and `a` to `z`
//! count 11 to 36. Other characters are part of no trigram.

use std::collections::BTreeMap;

use roaring::{RoaringBitmap, RoaringTreemap};

use crate::analysis::folding::fold;
use crate::error::{Corrupt, Result, ensure};
use crate::offsets::OffsetsIn;
use crate::row_maps::{Finished, Packed};

const BASE: u32 = 37;
const COUNT: usize = 37 * 37 * 37;
/// Rows of all trigrams that are collected before they are compressed.
const MAX_PENDING: usize = 1 << 24;

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

/// The rows of each trigram, while they are collected.
#[derive(Debug)]
pub struct Postings {
    /// Lower halves of rows with the upper half `upper`, by trigram.
    pending: Vec<Vec<u32>>,
    num_pending: usize,
    upper: u32,
    compressed: BTreeMap<u32, RoaringTreemap>,
}

impl Default for Postings {
    fn default() -> Self {
        Self {
            pending: vec![Vec::new(); COUNT],
            num_pending: 0,
            upper: 0,
            compressed: BTreeMap::new(),
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
            self.add_text(text, row)?;
        }
        Ok(())
    }

    fn add_text(&mut self, text: &str, row: u64) -> Result<()> {
        let upper = u32::try_from(row >> 32).map_err(|_| Corrupt(format!("row {row}")))?;
        let lower =
            u32::try_from(row & u64::from(u32::MAX)).map_err(|_| Corrupt(format!("row {row}")))?;
        if upper != self.upper || self.num_pending > MAX_PENDING {
            self.compress();
            self.upper = upper;
        }
        let (pending, count) = (&mut self.pending, &mut self.num_pending);
        each(text, |trigram| {
            let list = usize::try_from(trigram)
                .ok()
                .and_then(|place| pending.get_mut(place));
            if let Some(list) = list
                && list.last() != Some(&lower)
            {
                list.push(lower);
                *count += 1;
            }
        });
        Ok(())
    }

    fn compress(&mut self) {
        for (trigram, list) in (0_u32..).zip(&mut self.pending) {
            if list.is_empty() {
                continue;
            }
            list.sort_unstable();
            let rows: RoaringBitmap = list.iter().copied().collect();
            *self.compressed.entry(trigram).or_default() |=
                RoaringTreemap::from_bitmaps([(self.upper, rows)]);
            *list = Vec::new();
        }
        self.num_pending = 0;
    }

    /// The trigrams in ascending order, their serialized sets of rows, and the ends of these.
    pub fn finish(&mut self) -> Result<Finished> {
        self.compress();
        let (mut keys, mut packed) = (Vec::with_capacity(self.compressed.len()), Packed::default());
        for (key, rows) in std::mem::take(&mut self.compressed) {
            packed.push(&rows)?;
            keys.push(key);
        }
        Ok((keys, packed.data, packed.ends))
    }
}

#[cfg(test)]
mod tests {
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
        let (keys, data, ends) = postings.finish().unwrap_or_default();
        assert_eq!(keys, of("abcd"));
        let bounds: Vec<usize> = ends
            .iter()
            .filter_map(|end| usize::try_from(*end).ok())
            .collect();
        let rows = crate::row_maps::unpack(&data, &bounds);
        assert_eq!(rows, Ok((vec![7, 1 << 40, 1 << 40], vec![0, 2, 3])));
        assert!(
            postings
                .add(OffsetsIn::Small(&[0, 9]), b"abc", &[1])
                .is_err()
        );
    }
}
