//! Distinct strings, and strings as indices into these.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::bitmap::bit;
use crate::error::{Corrupt, Result, signed};
use crate::mini_block_writer::OffsetsIn;

/// The distinct strings of an array.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Distinct {
    /// The index of each value among the distinct strings; 0 for nulls.
    pub indices: Vec<i32>,
    /// The first position of each distinct string.
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
}
