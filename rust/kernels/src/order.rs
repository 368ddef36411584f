//! The stable order of keys, by a radix sort that only looks at the bits in which they differ; and
//! places in sorted strings.
//!
//! ```text
//! key - least key | place     in one u64 if both fit, else in two
//! ```

use std::cmp::Ordering;

use crate::error::{Corrupt, Result, part, signed, size};
use crate::mini_block_writer::OffsetsIn;

/// Most bits of a digit: the counts of 2048 digits stay in the fastest cache.
const DIGIT_BITS: u32 = 11;

/// The places of keys in ascending order; equal keys keep theirs.
pub fn stable_order(keys: &[u64]) -> Result<Vec<i64>> {
    let (Some(&least), Some(&most)) = (keys.iter().min(), keys.iter().max()) else {
        return Ok(Vec::new());
    };
    if keys.is_sorted() {
        return (0..keys.len()).map(|place| signed(place, "keys")).collect();
    }
    let key_bits = u64::BITS - (most - least).leading_zeros();
    let place_bits = usize::BITS - (keys.len() - 1).leading_zeros();
    let places = 0_u64..;
    if key_bits + place_bits <= u64::BITS {
        let items = keys.iter().zip(places);
        let items = items.map(|(key, place)| (key - least) << place_bits | place);
        let sorted = sort(items.collect(), key_bits, |item| item >> place_bits)?;
        let mask = (1 << place_bits) - 1;
        return Ok(sorted
            .iter()
            .map(|item| (item & mask).cast_signed())
            .collect());
    }
    let items = keys.iter().zip(places);
    let items = items.map(|(key, place)| (key - least, place));
    let sorted = sort(items.collect(), key_bits, |item| item.0)?;
    Ok(sorted.iter().map(|item| item.1.cast_signed()).collect())
}

/// Sorts items by the lowest bits of their keys, digit by digit from the lowest one.
fn sort<T: Copy + Default>(
    mut items: Vec<T>,
    key_bits: u32,
    key: impl Fn(T) -> u64,
) -> Result<Vec<T>> {
    let passes = key_bits.div_ceil(DIGIT_BITS).max(1);
    let digit_bits = key_bits.div_ceil(passes);
    let mask = (1_u64 << digit_bits) - 1;
    let mut target = vec![T::default(); items.len()];
    for pass in 0..passes {
        let shift = pass * digit_bits;
        let digit = |item: T| size((key(item) >> shift) & mask, "digit");
        distribute(&items, &mut target, 1 << digit_bits, digit)?;
        std::mem::swap(&mut items, &mut target);
    }
    Ok(items)
}

/// Copies items to a target in the order of their digits, of which there are `num_digits`.
fn distribute<T: Copy>(
    items: &[T],
    target: &mut [T],
    num_digits: usize,
    digit: impl Fn(T) -> Result<usize>,
) -> Result<()> {
    let mut ends = vec![0_usize; num_digits];
    for &item in items {
        if let Some(count) = ends.get_mut(digit(item)?) {
            *count += 1;
        }
    }
    let mut total = 0;
    for end in &mut ends {
        total += std::mem::replace(end, total);
    }
    for &item in items {
        if let Some(end) = ends.get_mut(digit(item)?) {
            if let Some(slot) = target.get_mut(*end) {
                *slot = item;
            }
            *end += 1;
        }
    }
    Ok(())
}

/// Strings: ends in the bytes of all of them.
#[derive(Clone, Copy)]
pub struct Strings<'a> {
    pub offsets: OffsetsIn<'a>,
    pub data: &'a [u8],
}

impl<'a> Strings<'a> {
    fn get(&self, row: usize) -> Result<&'a [u8]> {
        let (start, stop) = (self.offsets.get(row)?, self.offsets.get(row + 1)?);
        let length = stop
            .checked_sub(start)
            .ok_or_else(|| Corrupt(format!("offsets {start} and {stop} of string {row}")))?;
        part(self.data, start, length, "string")
    }
}

/// How many of some ascending strings are less than each wanted one; or equal, too, if `after`.
pub fn places(strings: Strings<'_>, wanted: Strings<'_>, after: bool) -> Result<Vec<i64>> {
    (0..wanted.offsets.count())
        .map(|row| place(strings, wanted.get(row)?, after))
        .collect()
}

fn place(strings: Strings<'_>, wanted: &[u8], after: bool) -> Result<i64> {
    let (mut low, mut high) = (0, strings.offsets.count());
    while low < high {
        let middle = low.midpoint(high);
        match strings.get(middle)?.cmp(wanted) {
            Ordering::Less => low = middle + 1,
            Ordering::Equal if after => low = middle + 1,
            _ => high = middle,
        }
    }
    signed(low, "strings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_keep_their_order() {
        for wide in [0, u64::MAX] {
            let keys = [7, wide, 7, 3, 3, 9];
            let mut expected: Vec<i64> = (0..6).collect();
            expected.sort_by_key(|&place| keys.get(usize::try_from(place).unwrap_or(0)));
            assert_eq!(stable_order(&keys), Ok(expected));
        }
        assert_eq!(stable_order(&[]), Ok(vec![]));
        assert_eq!(stable_order(&[5, 5]), Ok(vec![0, 1]));
    }

    #[test]
    fn strings_are_found() {
        let strings = Strings {
            offsets: OffsetsIn::Small(&[0, 1, 2, 4]),
            data: b"aabc",
        };
        let wanted = Strings {
            offsets: OffsetsIn::Large(&[0, 0, 1, 2, 4]),
            data: b"abbd",
        };
        assert_eq!(places(strings, wanted, false), Ok(vec![0, 0, 2, 3]));
        assert_eq!(places(strings, wanted, true), Ok(vec![0, 2, 2, 3]));
        let damaged = Strings {
            offsets: OffsetsIn::Small(&[0, 9]),
            data: b"a",
        };
        assert!(places(damaged, wanted, true).is_err());
    }
}
