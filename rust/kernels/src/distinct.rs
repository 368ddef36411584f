//! Distinct strings or words, and values as indices into these.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;

use crate::bitmap::bit;
use crate::error::{Corrupt, Result, signed};
use crate::offsets::OffsetsIn;

/// The distinct values of an array.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Distinct {
    /// The index of each value among the distinct ones; 0 for nulls.
    pub indices: Vec<i32>,
    /// The first position of each distinct value.
    pub firsts: Vec<i64>,
}

/// Finds the distinct strings, in the order of their first positions.
///
/// `validity` is a bitmap and its first bit. None if more than `most` of them are distinct.
pub fn strings(
    offsets: OffsetsIn<'_>,
    data: &[u8],
    validity: Option<(&[u8], usize)>,
    most: usize,
) -> Result<Option<Distinct>> {
    if let Some((bitmap, first)) = validity {
        let bits = bitmap.len().saturating_mul(8).saturating_sub(first);
        if bits < offsets.count() {
            return Err(Corrupt(format!("validity: {bits} bits")));
        }
    }
    match offsets {
        OffsetsIn::Small(offsets) => of(offsets, data, validity, most),
        OffsetsIn::Large(offsets) => of(offsets, data, validity, most),
    }
}

fn of<T: Copy + TryInto<usize>>(
    offsets: &[T],
    data: &[u8],
    validity: Option<(&[u8], usize)>,
    most: usize,
) -> Result<Option<Distinct>> {
    let mut known: HashMap<&[u8], i32, RandomState> = HashMap::default();
    let mut found = Distinct {
        indices: Vec::with_capacity(offsets.len()),
        firsts: Vec::new(),
    };
    let Some((_, ends)) = offsets.split_first() else {
        return Ok(Some(found));
    };
    for (place, (&start, &end)) in offsets.iter().zip(ends).enumerate() {
        if validity.is_some_and(|(bitmap, first)| !bit(bitmap, first + place)) {
            found.indices.push(0);
            continue;
        }
        let value = string(data, start, end)
            .ok_or_else(|| Corrupt(format!("offsets of string {place} lead out of the data")))?;
        if let Some(&index) = known.get(value) {
            found.indices.push(index);
            continue;
        }
        if known.len() == most {
            return Ok(None);
        }
        let index = i32::try_from(known.len())
            .map_err(|_| Corrupt("more than 2^31 different strings".into()))?;
        known.insert(value, index);
        found.indices.push(index);
        found.firsts.push(signed(place, "string")?);
    }
    Ok(Some(found))
}

fn string<T: TryInto<usize>>(data: &[u8], start: T, end: T) -> Option<&[u8]> {
    data.get(start.try_into().ok()?..end.try_into().ok()?)
}

/// Finds the distinct words of 8 or 16 bytes, in the order of their first positions.
///
/// None if more than `most` of them are distinct.
pub fn words(data: &[u8], width: usize, most: usize) -> Result<Option<Distinct>> {
    match width {
        8 => of_words(
            data.as_chunks().0.iter().copied().map(u64::from_le_bytes),
            most,
        ),
        16 => of_words(
            data.as_chunks().0.iter().copied().map(u128::from_le_bytes),
            most,
        ),
        _ => Err(Corrupt(format!("distinct words of {width} bytes"))),
    }
}

const FIRST_SLOTS: usize = 1024;

/// A word, and its index among the distinct ones.
type Slot<T> = Option<(T, i32)>;

fn of_words<T: Copy + Eq + Hash>(
    words: impl ExactSizeIterator<Item = T>,
    most: usize,
) -> Result<Option<Distinct>> {
    let state = RandomState::default();
    let mut slots: Vec<Slot<T>> = vec![None; FIRST_SLOTS];
    let mut found = Distinct {
        indices: Vec::with_capacity(words.len()),
        firsts: Vec::new(),
    };
    for (place, word) in words.enumerate() {
        let next = found.firsts.len();
        let index = match slot(&mut slots, &state, word) {
            Some(Some((_, index))) => *index,
            Some(free) => {
                if next == most {
                    return Ok(None);
                }
                let index = i32::try_from(next)
                    .map_err(|_| Corrupt("more than 2^31 different words".into()))?;
                *free = Some((word, index));
                found.firsts.push(signed(place, "word")?);
                if 2 * found.firsts.len() > slots.len() {
                    slots = grown(&slots, &state);
                }
                index
            }
            None => return Err(Corrupt("a table of words is full".into())),
        };
        found.indices.push(index);
    }
    Ok(Some(found))
}

/// Returns the slot that contains a word, or the free one for it; there always is a free one.
fn slot<'a, T: Copy + Eq + Hash>(
    slots: &'a mut [Slot<T>],
    state: &RandomState,
    word: T,
) -> Option<&'a mut Slot<T>> {
    let most = slots.len().checked_sub(1)?;
    let [a, b, c, d, ..] = state.hash_one(word).to_be_bytes();
    let mut at = u32::from_be_bytes([a, b, c, d]) as usize & most;
    while matches!(slots.get(at), Some(Some((other, _))) if *other != word) {
        at = (at + 1) & most;
    }
    slots.get_mut(at)
}

/// Returns a table of twice as many slots with the same words.
fn grown<T: Copy + Eq + Hash>(slots: &[Slot<T>], state: &RandomState) -> Vec<Slot<T>> {
    let mut larger = vec![None; 2 * slots.len()];
    for known in slots.iter().flatten() {
        if let Some(free) = slot(&mut larger, state, known.0) {
            *free = Some(*known);
        }
    }
    larger
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_first_of_each() {
        let offsets = [0, 1, 2, 2, 3, 4];
        let found = strings(OffsetsIn::Small(&offsets), b"baba", None, 3);
        let expected = Distinct {
            indices: vec![0, 1, 2, 0, 1],
            firsts: vec![0, 1, 2],
        };
        assert_eq!(found.unwrap(), Some(expected));
        let found = strings(OffsetsIn::Small(&offsets), b"baba", None, 2);
        assert_eq!(found.unwrap(), None);
    }

    #[test]
    fn nulls_are_none_of_them() {
        let offsets = [0, 1, 2, 2, 3, 4];
        let validity = Some((&[0b0011_0100][..], 1));
        let found = strings(OffsetsIn::Large(&offsets), b"baba", validity, 3).unwrap();
        let found = found.unwrap();
        assert_eq!(found.indices, [0, 0, 0, 1, 0]);
        assert_eq!(found.firsts, [1, 3]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let few = Some((&[0xff][..], 4));
        assert!(strings(OffsetsIn::Small(&[0, 0, 0, 0, 0, 0]), b"", few, 9).is_err());
        assert!(strings(OffsetsIn::Small(&[0, 2]), b"a", None, 9).is_err());
        assert!(strings(OffsetsIn::Small(&[1, 0]), b"ab", None, 9).is_err());
        assert!(strings(OffsetsIn::Small(&[-1, 0]), b"ab", None, 9).is_err());
        let none = strings(OffsetsIn::Small(&[]), b"", None, 0).unwrap();
        assert_eq!(none, Some(Distinct::default()));
    }

    #[test]
    fn words_are_numbered_in_tables_that_grow() {
        let numbers: Vec<u64> = (0..9000).map(|i| i * i % 5003).collect();
        let mut firsts: Vec<u64> = Vec::new();
        let mut expected = Distinct::default();
        for (place, &number) in numbers.iter().enumerate() {
            let index = firsts.iter().position(|&n| n == number).unwrap_or_else(|| {
                firsts.push(number);
                expected.firsts.push(i64::try_from(place).unwrap());
                firsts.len() - 1
            });
            expected.indices.push(i32::try_from(index).unwrap());
        }
        let count = firsts.len();
        let narrow: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let wide: Vec<u8> = numbers
            .iter()
            .flat_map(|&n| u128::from(n).to_le_bytes())
            .collect();
        for (data, width) in [(narrow, 8), (wide, 16)] {
            assert_eq!(
                words(&data, width, count).unwrap().as_ref(),
                Some(&expected)
            );
            assert_eq!(words(&data, width, count - 1).unwrap(), None);
        }
        assert_eq!(words(&[], 8, 0).unwrap(), Some(Distinct::default()));
        assert!(words(&[], 4, 0).is_err());
    }
}
