//! Distinct strings or words, and values as indices into these.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

use crate::bitmap::bit;
use crate::error::{Corrupt, Result, signed};
use crate::offsets::OffsetsIn;
use crate::word_table::{Word, WordTable};

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
    require_bits(validity, offsets.count())?;
    match offsets {
        OffsetsIn::Small(offsets) => of(offsets, data, validity, most),
        OffsetsIn::Large(offsets) => of(offsets, data, validity, most),
    }
}

fn require_bits(validity: Option<(&[u8], usize)>, count: usize) -> Result<()> {
    let Some((bitmap, first)) = validity else {
        return Ok(());
    };
    let bits = bitmap.len().saturating_mul(8).saturating_sub(first);
    if bits < count {
        return Err(Corrupt(format!("validity: {bits} bits")));
    }
    Ok(())
}

fn of<T: Copy + TryInto<usize>>(
    offsets: &[T],
    data: &[u8],
    validity: Option<(&[u8], usize)>,
    most: usize,
) -> Result<Option<Distinct>> {
    let mut short: WordTable<u128> = WordTable::default();
    let mut long: HashMap<&[u8], i32, RandomState> = HashMap::default();
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
        let (value, padded) = string(data, start, end)
            .ok_or_else(|| Corrupt(format!("offsets of string {place} lead out of the data")))?;
        let next = found.firsts.len();
        let known = match padded {
            Some(word) => short.find(word)?,
            None => long.get(value).copied().ok_or(0),
        };
        let index = match (known, padded) {
            (Ok(index), _) => index,
            (Err(_), _) if next == most => return Ok(None),
            (Err(free), Some(word)) => short.add(word, free, next)?,
            (Err(_), None) => {
                let next = i32::try_from(next)
                    .map_err(|_| Corrupt("more than 2^31 different strings".into()))?;
                *long.entry(value).or_insert(next)
            }
        };
        if known.is_err() {
            found.firsts.push(signed(place, "string")?);
        }
        found.indices.push(index);
    }
    Ok(Some(found))
}

/// The bytes of a string; if there are less than 16, they and their number as a word, too.
fn string<T: TryInto<usize>>(data: &[u8], start: T, end: T) -> Option<(&[u8], Option<u128>)> {
    let start = start.try_into().ok()?;
    let value = data.get(start..end.try_into().ok()?)?;
    let length = value.len();
    if length >= 16 {
        return Some((value, None));
    }
    let word = match data.get(start..).and_then(|rest| rest.first_chunk::<16>()) {
        Some(bytes) => u128::from_le_bytes(*bytes) & ((1 << (8 * length)) - 1),
        None => value
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u128::from(*byte)),
    };
    Some((value, Some(word | u128::try_from(length).ok()? << 120)))
}

/// Finds the distinct words of 4, 8 or 16 bytes, in the order of their first positions.
///
/// None if more than `most` of them are distinct.
pub fn words(data: &[u8], width: usize, most: usize) -> Result<Option<Distinct>> {
    match width {
        4 => of_words(
            data.as_chunks().0,
            |word| u64::from(u32::from_le_bytes(*word)),
            most,
        ),
        8 => of_words(data.as_chunks().0, |word| u64::from_le_bytes(*word), most),
        16 => of_words(data.as_chunks().0, |word| u128::from_le_bytes(*word), most),
        _ => Err(Corrupt(format!("distinct words of {width} bytes"))),
    }
}

fn of_words<W, T: Word>(
    words: &[W],
    read: impl Fn(&W) -> T,
    most: usize,
) -> Result<Option<Distinct>> {
    let mut numbers = WordTable::default();
    let mut indices = vec![0; words.len()];
    let mut firsts = Vec::new();
    let mut place = 0;
    while let (Some(rest), Some(left)) = (words.get(place..), indices.get_mut(place..)) {
        let known = numbers.number_known(rest, &read, left);
        place += known;
        let (Some(word), Some(index)) = (rest.get(known), left.get_mut(known)) else {
            break;
        };
        if firsts.len() == most {
            return Ok(None);
        }
        let word = read(word);
        if let Err(free) = numbers.find(word)? {
            *index = numbers.add(word, free, firsts.len())?;
            firsts.push(signed(place, "word")?);
        }
        place += 1;
    }
    Ok(Some(Distinct { indices, firsts }))
}

/// What a sample shows: adjacent values from several stretches, without nulls.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The number of values.
    pub drawn: usize,
    /// The sum of the numbers of distinct values of each stretch.
    pub per_stretch: usize,
    /// The number of distinct values of all stretches.
    pub distinct: usize,
}

/// Samples words of 4, 8 or 16 bytes: stretches of `size` of them, at equal distances.
///
/// `validity` is a bitmap and its first bit.
pub fn sample_words(
    data: &[u8],
    width: usize,
    validity: Option<(&[u8], usize)>,
    stretches: usize,
    size: usize,
) -> Result<Sample> {
    match width {
        4 => sample_chunks::<4>(data, validity, stretches, size),
        8 => sample_chunks::<8>(data, validity, stretches, size),
        16 => sample_chunks::<16>(data, validity, stretches, size),
        _ => Err(Corrupt(format!("distinct words of {width} bytes"))),
    }
}

fn sample_chunks<const N: usize>(
    data: &[u8],
    validity: Option<(&[u8], usize)>,
    stretches: usize,
    size: usize,
) -> Result<Sample> {
    let words = data.as_chunks::<N>().0;
    sample(words.len(), validity, stretches, size, |place| {
        words.get(place)
    })
}

/// Samples columns of `num_words` words, which lie one after the other, as `sample_words`.
pub fn sample_words_each(
    data: &[u8],
    width: usize,
    validity: Option<(&[u8], usize)>,
    num_words: usize,
    stretches: usize,
    size: usize,
) -> Result<Vec<Sample>> {
    let column_bytes = width.saturating_mul(num_words);
    if column_bytes == 0 || !data.len().is_multiple_of(column_bytes) {
        let found = data.len();
        return Err(Corrupt(format!(
            "{found} bytes of columns of {column_bytes}"
        )));
    }
    data.chunks_exact(column_bytes)
        .enumerate()
        .map(|(number, column)| {
            let validity = validity.map(|(bitmap, first)| (bitmap, first + number * num_words));
            sample_words(column, width, validity, stretches, size)
        })
        .collect()
}

/// Samples strings as `sample_words`.
pub fn sample_strings(
    offsets: OffsetsIn<'_>,
    data: &[u8],
    validity: Option<(&[u8], usize)>,
    stretches: usize,
    size: usize,
) -> Result<Sample> {
    sample(offsets.count(), validity, stretches, size, |place| {
        let (start, end) = (offsets.get(place).ok()?, offsets.get(place + 1).ok()?);
        data.get(start..end)
    })
}

fn sample<T: Eq + Hash>(
    count: usize,
    validity: Option<(&[u8], usize)>,
    stretches: usize,
    size: usize,
    value: impl Fn(usize) -> Option<T>,
) -> Result<Sample> {
    if size.saturating_mul(stretches) > count {
        return Err(Corrupt(format!(
            "{stretches} stretches of {size} of {count}"
        )));
    }
    require_bits(validity, count)?;
    let mut found = Sample::default();
    let mut known: HashMap<T, usize, RandomState> =
        HashMap::with_capacity_and_hasher(size * stretches, RandomState::default());
    for stretch in 0..stretches {
        let start = count / stretches * stretch;
        for place in start..start + size {
            if validity.is_some_and(|(bitmap, first)| !bit(bitmap, first + place)) {
                continue;
            }
            let value = value(place).ok_or_else(|| {
                Corrupt(format!("offsets of string {place} lead out of the data"))
            })?;
            found.drawn += 1;
            if known.insert(value, stretch) != Some(stretch) {
                found.per_stretch += 1;
            }
        }
    }
    found.distinct = known.len();
    Ok(found)
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
    fn strings_of_all_lengths() {
        let texts: Vec<Vec<u8>> = (0..40)
            .map(|n| [vec![0; n % 20], vec![b'a'; n / 20]].concat())
            .collect();
        let mut offsets = vec![0];
        let mut data = Vec::new();
        for text in texts.iter().chain(&texts) {
            data.extend(text);
            offsets.push(i32::try_from(data.len()).unwrap());
        }
        let found = strings(OffsetsIn::Small(&offsets), &data, None, 40).unwrap();
        let expected: Vec<i32> = (0..40).chain(0..40).collect();
        assert_eq!(found.unwrap().indices, expected);
        let found = sample_strings(OffsetsIn::Small(&offsets), &data, None, 2, 40).unwrap();
        assert_eq!(
            (found.drawn, found.per_stretch, found.distinct),
            (80, 80, 40)
        );
    }

    #[test]
    fn samples_of_words() {
        let words: Vec<u8> = [1_u64, 1, 9, 2, 1, 9]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        let found = sample_words(&words, 8, None, 2, 2).unwrap();
        assert_eq!((found.drawn, found.per_stretch, found.distinct), (4, 3, 2));
        let found = sample_words(&words, 8, Some((&[0b1_0101], 0)), 2, 2).unwrap();
        assert_eq!((found.drawn, found.per_stretch, found.distinct), (2, 2, 1));
        assert!(sample_words(&words, 8, None, 2, 4).is_err());
        assert!(sample_words(&words, 8, Some((&[0xff], 3)), 2, 2).is_err());
        assert!(sample_words(&words, 2, None, 1, 1).is_err());
        let twice = words.repeat(2);
        let count = words.len() / 8;
        let each = sample_words_each(&twice, 8, Some((&[0b1_0101, 0xff], 0)), count, 1, count);
        let own =
            |first| sample_words(&words, 8, Some((&[0b1_0101, 0xff], first)), 1, count).unwrap();
        assert_eq!(each.unwrap(), [own(0), own(count)]);
        assert!(sample_words_each(&twice, 8, None, 2 * count + 1, 1, 1).is_err());
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
        assert!(words(&[], 2, 0).is_err());
    }
}
