//! End offsets that encode whether each entry is null (strings and lists of version 2.0).
//!
//!     stored[i] = end of entry i                  valid
//!     stored[i] = end of entry i + adjustment     null; the adjustment is larger than any end
//!
//! Entry `i` begins where entry `i - 1` ends, null or not; the first one of a page at zero.

use std::ops::Range;

use crate::bitmap::BitmapBuilder;
use crate::error::{Corrupt, Result, ensure, out_of_range, part, size};
use crate::offsets::Offsets;

/// Some entries of a page.
#[derive(Debug)]
pub struct Entries {
    /// `n + 1` offsets into the joined ranges of values, from zero.
    pub offsets: Offsets,
    /// Where the values of each range of entries lie in the page.
    pub spans: Vec<[i64; 2]>,
    /// None if all are valid.
    pub validity: Option<Vec<u8>>,
    pub null_count: usize,
}

/// Reads ranges of entries.
///
/// `stored` has, for each range, the preceding word and then the words of its entries; a range that
/// begins with entry 0 has no preceding word.
pub fn entries(
    stored: &[u8],
    adjustment: u64,
    ranges: &[Range<usize>],
    offset_bits: usize,
) -> Result<Entries> {
    let (words, rest) = stored.as_chunks::<8>();
    let wanted: usize = ranges
        .iter()
        .map(|range| range.len() + usize::from(range.start > 0))
        .sum();
    ensure(
        rest.is_empty() && words.len() == wanted,
        "end offsets",
        words.len(),
        wanted,
    )?;
    ensure(
        adjustment > 0 || wanted == 0,
        "null adjustment",
        adjustment,
        "at least 1",
    )?;
    let mut made = Builder {
        offsets: Offsets::with_capacity(offset_bits, wanted)?,
        validity: BitmapBuilder::default(),
        total: 0,
    };
    let mut spans = Vec::with_capacity(ranges.len());
    let mut at = 0;
    for range in ranges {
        let lead = usize::from(range.start > 0);
        let own = part(words, at, lead + range.len(), "end offsets")?;
        at += own.len();
        let (before, own) = own
            .split_at_checked(lead)
            .ok_or_else(|| out_of_range("end offsets"))?;
        let first = before
            .first()
            .map_or(0, |word| u64::from_le_bytes(*word) % adjustment);
        let end = made.push(first, own, adjustment)?;
        spans.push([position(first)?, position(end)?]);
    }
    let null_count = made.validity.zeros();
    Ok(Entries {
        offsets: made.offsets,
        spans,
        validity: (null_count > 0).then(|| made.validity.finish()),
        null_count,
    })
}

struct Builder {
    offsets: Offsets,
    validity: BitmapBuilder,
    total: u64,
}

impl Builder {
    /// Adds adjacent entries that begin at `first` and returns where they end.
    fn push(&mut self, first: u64, words: &[[u8; 8]], adjustment: u64) -> Result<u64> {
        self.validity
            .extend_with(words, |word| u64::from_le_bytes(word) < adjustment);
        let mut previous = first;
        let shift = first.wrapping_sub(self.total);
        for word in words {
            let stored = u64::from_le_bytes(*word);
            let end = if stored < adjustment {
                stored
            } else {
                stored % adjustment
            };
            if end < previous {
                return Err(Corrupt(format!("end offset {end} behind {previous}")));
            }
            self.offsets
                .push(size(end.wrapping_sub(shift), "offset")?)?;
            previous = end;
        }
        self.total = previous.wrapping_sub(shift);
        Ok(previous)
    }
}

fn position(n: u64) -> Result<i64> {
    i64::try_from(n).map_err(|_| Corrupt(format!("end offset {n} is out of range")))
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::single_range_in_vec_init
    )]
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn whole_page() {
        let made = entries(&bytes(&[5, 16, 5, 10]), 11, &[0..4], 32).unwrap();
        assert!(matches!(&made.offsets, Offsets::Small(o) if *o == [0, 5, 5, 5, 10]));
        assert_eq!(made.spans, [[0, 10]]);
        assert_eq!((made.validity.unwrap(), made.null_count), (vec![0b1101], 1));
    }

    #[test]
    fn ranges_have_a_word_in_front() {
        // ab | XXX hidden below a null | c | de
        let stored = bytes(&[2, 5 + 9, 6, 8]);
        let made = entries(&stored[8..], 9, &[2..4], 64).unwrap();
        assert!(matches!(&made.offsets, Offsets::Large(o) if *o == [0, 1, 3]));
        assert_eq!((made.spans, made.validity), (vec![[5, 8]], None));
        let two = [&stored[..8], &stored[16..]].concat();
        let made = entries(&two, 9, &[0..1, 3..4], 32).unwrap();
        assert!(matches!(&made.offsets, Offsets::Small(o) if *o == [0, 2, 4]));
        assert_eq!(made.spans, [[0, 2], [6, 8]]);
    }

    #[test]
    fn damage() {
        assert!(entries(&bytes(&[5, 4]), 11, &[0..2], 32).is_err());
        assert!(entries(&bytes(&[5]), 0, &[0..1], 32).is_err());
        assert!(entries(&bytes(&[5]), 6, &[0..2], 32).is_err());
        assert!(entries(&bytes(&[1 << 33]), u64::MAX, &[0..1], 32).is_err());
        assert!(entries(&bytes(&[u64::MAX - 1]), u64::MAX, &[0..1], 64).is_err());
        assert!(entries(&[], 0, &[], 32).is_ok());
    }
}
