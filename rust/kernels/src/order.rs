//! The stable order of keys, by a radix sort that only looks at the bits in which they differ;
//! places in sorted strings; and pairs of equal keys.
//!
//! ```text
//! key - least key | place     in one u64 if both fit, else in two
//! ```

use std::cmp::Ordering;

use crate::error::{Result, ensure, out_of_range, part, rest, signed, size};
use crate::even_keys::{BLOCK, EvenKeys, Number};
use crate::offsets::OffsetsIn;

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

/// Keys in ascending order, each with its value; values of equal keys keep their order.
pub fn sort_pairs(keys: &[u64], values: &[u64]) -> Result<(Vec<u64>, Vec<u64>)> {
    ensure(
        keys.len() == values.len(),
        "values",
        values.len(),
        keys.len(),
    )?;
    let (Some(&least), Some(&most)) = (keys.iter().min(), keys.iter().max()) else {
        return Ok((Vec::new(), Vec::new()));
    };
    if keys.is_sorted() {
        return Ok((keys.to_vec(), values.to_vec()));
    }
    let key_bits = u64::BITS - (most - least).leading_zeros();
    let place_bits = usize::BITS - (keys.len() - 1).leading_zeros();
    if key_bits + place_bits > u64::BITS {
        let items = keys.iter().map(|key| key - least);
        let sorted = sort(
            items.zip(values.iter().copied()).collect(),
            key_bits,
            |item: (u64, u64)| item.0,
        )?;
        return Ok(sorted
            .into_iter()
            .map(|(key, value)| (key + least, value))
            .unzip());
    }
    let items = keys.iter().zip(0_u64..);
    let items = items.map(|(key, place)| (key - least) << place_bits | place);
    let mut sorted = sort(items.collect(), key_bits, |item| item >> place_bits)?;
    let mask = (1 << place_bits) - 1;
    let found = sorted.iter().map(|item| {
        let place = size(item & mask, "place")?;
        let value = values.get(place).copied();
        value.ok_or_else(|| out_of_range("place of a value"))
    });
    let found = found.collect::<Result<Vec<u64>>>()?;
    for item in &mut sorted {
        *item = (*item >> place_bits) + least;
    }
    Ok((sorted, found))
}

/// The pairs of equal items of some wanted ones and of keys: the places in both, which ascend.
pub fn equal_pairs<T: Number>(wanted: &[T], keys: &[T]) -> Result<(Vec<i64>, Vec<i64>)> {
    let (mut places, mut found) = (Vec::with_capacity(wanted.len()), Vec::new());
    for (place, (one, start)) in wanted.iter().zip(first_places(wanted, keys)?).enumerate() {
        let equal = rest(keys, start, "keys")?
            .iter()
            .take_while(|key| *key == one);
        for (step, _) in equal.enumerate() {
            places.push(signed(place, "keys")?);
            found.push(signed(start + step, "keys")?);
        }
    }
    Ok((places, found))
}

/// The place of the first of some ascending keys that is not less than each wanted one.
fn first_places<T: Number>(wanted: &[T], keys: &[T]) -> Result<Vec<usize>> {
    let is_sparse = keys.len() / wanted.len().max(1) >= SPARSE_KEYS;
    let mut even = EvenKeys::new(keys, wanted.len()).filter(|_| is_sparse);
    let (mut places, mut start) = (Vec::with_capacity(wanted.len()), 0);
    for block in wanted.chunks(BLOCK) {
        even = even.filter(EvenKeys::are_even);
        if let Some(even) = &mut even {
            even.guess(block);
        }
        for (place, one) in block.iter().enumerate() {
            let guessed = even
                .as_mut()
                .and_then(|even| even.first_not_less(place, *one));
            start = match guessed {
                Some(first) => first,
                None => start + first_not_less(rest(keys, start, "keys")?, one)?,
            };
            places.push(start);
        }
    }
    Ok(places)
}

/// Keys for each wanted one, above which places are guessed rather than all keys passed.
const SPARSE_KEYS: usize = 32;

/// Ascending keys, their references, and the ascending keys that are searched for among them.
pub type Sought<'a, T> = (&'a [T], &'a [u64], &'a [T]);

/// The references of the keys of some pages that equal one of those that are searched for.
pub fn equal_rows<T: Ord>(pages: &[Sought<'_, T>]) -> Result<Vec<u64>> {
    let mut found = Vec::with_capacity(pages.len());
    for &(keys, references, wanted) in pages {
        ensure(
            keys.len() == references.len(),
            "references of keys",
            references.len(),
            keys.len(),
        )?;
        let is_near = keys.len() / wanted.len().max(1) < NEAR_KEYS;
        let mut start = 0;
        for block in wanted.chunks(BLOCK) {
            let mut places = [0; BLOCK];
            if is_near {
                for (place, one) in places.iter_mut().zip(block) {
                    start += first_not_less(rest(keys, start, "keys")?, one)?;
                    *place = start;
                }
            } else {
                halve_together(keys, block, &mut places);
            }
            for (first, one) in places.into_iter().zip(block) {
                let equal = rest(keys, first, "keys")?;
                let count = equal.iter().take_while(|key| *key == one).count();
                found.extend_from_slice(part(references, first, count, "references")?);
            }
        }
    }
    Ok(found)
}

/// Sets the place of the first of some ascending keys that is not less than each wanted one.
///
/// Halving waits for each load. Those of different wanted keys are waited for together.
fn halve_together<T: Ord>(keys: &[T], wanted: &[T], places: &mut [usize]) {
    let is_less = |place: usize, one: &T| keys.get(place).is_some_and(|key| key < one);
    let mut size = keys.len();
    while size > 1 {
        let half = size / 2;
        for (place, one) in places.iter_mut().zip(wanted) {
            let next = *place + half;
            *place = if is_less(next - 1, one) { next } else { *place };
        }
        size -= half;
    }
    for (place, one) in places.iter_mut().zip(wanted) {
        *place += usize::from(is_less(*place, one));
    }
}

/// Keys that are skipped together: two lines of a cache, which it fetches ahead.
const STRIDE: usize = 16;
/// Keys between two wanted ones that are skipped rather than halved: halving waits for each load.
const NEAR_KEYS: usize = 512;
/// So many strides are tried before the steps grow.
const MAX_STRIDES: usize = 64;

/// The place of the first of some ascending keys that is not less; near places are found fastest.
fn first_not_less<T: Ord>(keys: &[T], wanted: &T) -> Result<usize> {
    let is_less = |place: usize| keys.get(place).is_some_and(|key| key < wanted);
    let (mut low, mut step) = (0, STRIDE);
    for _ in 0..MAX_STRIDES {
        if !is_less(low + STRIDE - 1) {
            break;
        }
        low += STRIDE;
    }
    while is_less(low + step - 1) {
        low += step;
        step *= 2;
    }
    let near = part(keys, low, step.min(keys.len() - low), "keys")?;
    Ok(low + near.partition_point(|key| key < wanted))
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
        self.offsets.value(self.data, row, "string")
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
    fn pairs_are_sorted() {
        for wide in [0, u64::MAX] {
            let found = sort_pairs(&[7, wide, 7, 3], &[1, 2, 3, u64::MAX]);
            let mut expected = vec![(7, 1), (wide, 2), (7, 3), (3, u64::MAX)];
            expected.sort_by_key(|pair| pair.0);
            assert_eq!(found, Ok(expected.into_iter().unzip()));
        }
        assert_eq!(sort_pairs(&[], &[]), Ok((vec![], vec![])));
        assert!(sort_pairs(&[1], &[]).is_err());
    }

    #[test]
    fn equal_keys_are_paired() {
        let found = equal_pairs(&[1, 4, 4, 9], &[0, 1, 1, 3, 4, 5, 6, 7, 8]);
        assert_eq!(found, Ok((vec![0, 0, 1, 2], vec![1, 2, 4, 4])));
        assert_eq!(equal_pairs(&[5_u32], &[]), Ok((vec![], vec![])));
        for step in [1, 7] {
            let keys: Vec<u32> = (0..1000).map(|key| key * step).collect();
            let found = equal_pairs(&[0, step, 50 * step, 999 * step, 1000 * step], &keys);
            assert_eq!(found, Ok((vec![0, 1, 2, 3], vec![0, 1, 50, 999])));
        }
    }

    #[test]
    fn rows_of_equal_keys() {
        let pages = [
            (&[1, 1, 3, 4][..], &[10, 11, 12, 13][..], &[1, 2, 4][..]),
            (&[], &[], &[4]),
            (&[4, 5], &[14, 15], &[4, 4]),
        ];
        assert_eq!(equal_rows(&pages), Ok(vec![10, 11, 13, 14, 14]));
        let keys: Vec<u32> = (0..9000).map(|key| key / 3 * 2).collect();
        let references: Vec<u64> = (0..9000).collect();
        let found = equal_rows(&[(&keys[..], &references[..], &[0, 7, 8, 5998, 5999][..])]);
        let expected = [0, 1, 2, 12, 13, 14, 8997, 8998, 8999];
        assert_eq!(found, Ok(expected.to_vec()));
        assert!(equal_rows(&[(&[1_u32][..], &[][..], &[1][..])]).is_err());
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
