//! Strings by their index in a dictionary.

use std::hint::black_box;

use crate::bitmap::bit;
use crate::error::{Corrupt, Result, ensure, out_of_range, part};
use crate::offsets::OffsetsIn;
use crate::values::{Offsets, Values};

/// Strings of up to this many bytes are copied as whole words.
const SHORT: usize = 16;

/// Looks up one string per index; nulls become empty and may hold any index.
///
/// Indices are little-endian, of 1, 2, 4 or 8 bytes.
pub fn strings(
    indices: &[u8],
    width: usize,
    validity: Option<&[u8]>,
    offsets: OffsetsIn<'_>,
    data: &[u8],
) -> Result<Values> {
    let entries = entries(offsets, data)?;
    let rows = Rows { indices, validity };
    let offset_bits = 8 * offsets.width();
    match width {
        1 => rows.look_up::<1>(&entries, data, offset_bits),
        2 => rows.look_up::<2>(&entries, data, offset_bits),
        4 => rows.look_up::<4>(&entries, data, offset_bits),
        8 => rows.look_up::<8>(&entries, data, offset_bits),
        _ => Err(Corrupt(format!("dictionary indices of {width} bytes"))),
    }
}

/// A string of the dictionary; `block` begins with all of it if it is short.
#[derive(Clone, Copy)]
struct Entry {
    block: [u8; SHORT],
    start: usize,
    length: usize,
}

const EMPTY: Entry = Entry {
    block: [0; SHORT],
    start: 0,
    length: 0,
};

fn entries(offsets: OffsetsIn<'_>, data: &[u8]) -> Result<Vec<Entry>> {
    (0..offsets.count())
        .map(|index| {
            let (start, end) = (offsets.get(index)?, offsets.get(index + 1)?);
            let ordered = start <= end && end <= data.len();
            ensure(
                ordered,
                "dictionary offset",
                end,
                format_args!("{start} to {}", data.len()),
            )?;
            let mut entry = Entry {
                start,
                length: end - start,
                ..EMPTY
            };
            let string = part(data, start, end - start, "dictionary string")?;
            let kept = entry.block.iter_mut().zip(string);
            kept.for_each(|(to, from)| *to = *from);
            Ok(entry)
        })
        .collect()
}

/// Indices of rows, of which those that are null have no meaning.
struct Rows<'a> {
    indices: &'a [u8],
    validity: Option<&'a [u8]>,
}

impl Rows<'_> {
    /// Looks up all rows; nothing but the result has the size of the rows.
    fn look_up<const N: usize>(
        &self,
        entries: &[Entry],
        data: &[u8],
        offset_bits: usize,
    ) -> Result<Values> {
        let (words, _) = self.indices.as_chunks::<N>();
        match self.validity {
            None => copy(
                words.iter().map(|word| entries.get(number(word))),
                words.len(),
                data,
                offset_bits,
            ),
            Some(bitmap) => copy(
                words.iter().enumerate().map(|(row, word)| {
                    if bit(bitmap, row) {
                        entries.get(number(word))
                    } else {
                        Some(&EMPTY)
                    }
                }),
                words.len(),
                data,
                offset_bits,
            ),
        }
        .map_err(|error| self.explained::<N>(entries.len(), error))
    }

    /// Names the first index that the dictionary does not have, if there is one.
    fn explained<const N: usize>(&self, count: usize, error: Corrupt) -> Corrupt {
        let (words, _) = self.indices.as_chunks::<N>();
        let valid = |row: usize| self.validity.is_none_or(|bitmap| bit(bitmap, row));
        let mut numbers = words.iter().map(number).enumerate();
        match numbers.find(|&(row, index)| index >= count && valid(row)) {
            None => error,
            Some((_, index)) => Corrupt(format!(
                "dictionary index {index}: the dictionary has {count} values"
            )),
        }
    }
}

#[inline]
fn number<const N: usize>(word: &[u8; N]) -> usize {
    let number = word
        .iter()
        .rev()
        .fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    usize::try_from(number).unwrap_or(usize::MAX) // no dictionary has as many values
}

/// Copies the strings of rows; a row without an entry is an error.
fn copy<'a>(
    rows: impl Iterator<Item = Option<&'a Entry>> + Clone,
    count: usize,
    data: &[u8],
    offset_bits: usize,
) -> Result<Values> {
    let mut total = 0usize;
    let mut are_short = true;
    for entry in rows.clone() {
        let entry = entry.ok_or_else(missing)?;
        total = entry.length.saturating_add(total);
        are_short &= entry.length <= SHORT;
    }
    ensure_room(total.saturating_add(SHORT))?;
    let mut offsets = Offsets::with_capacity(offset_bits, count)?;
    offsets.extend_lengths(rows.clone().flatten().map(|entry| entry.length), total)?;
    let mut out = vec![0; total + SHORT];
    let mut filled = 0;
    for entry in rows.flatten() {
        let to = out.get_mut(filled..).ok_or_else(missing)?;
        if are_short || entry.length <= SHORT {
            *to.first_chunk_mut().ok_or_else(missing)? = entry.block;
        } else {
            let from = part(data, entry.start, entry.length, "dictionary string")?;
            to.get_mut(..entry.length)
                .ok_or_else(missing)?
                .copy_from_slice(from);
        }
        filled += entry.length;
    }
    out.truncate(total);
    Ok(Values::Variable { offsets, data: out })
}

/// Checks that memory for some bytes can be had: few rows may name a long string many times.
fn ensure_room(bytes: usize) -> Result<()> {
    let too_many = |_| {
        Corrupt(format!(
            "strings of a dictionary, bytes: no room for {bytes}"
        ))
    };
    let mut room = Vec::<u8>::new();
    let found = room.try_reserve_exact(bytes).map_err(too_many);
    black_box(room); // the compiler would leave out memory that nobody uses
    found
}

fn missing() -> Corrupt {
    out_of_range("dictionary string")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn short_long_empty_and_null() {
        let long = "x".repeat(40);
        let data = format!("ab{long}c");
        let offsets = OffsetsIn::Small(&[0, 2, 42, 42, 43]);
        let indices: Vec<u8> = [1i32, 0, 2, 9, 3]
            .iter()
            .flat_map(|i| i.to_le_bytes())
            .collect();
        let made = strings(&indices, 4, Some(&[0b1_0111]), offsets, data.as_bytes()).unwrap();
        let Values::Variable {
            offsets: Offsets::Small(offsets),
            data,
        } = made
        else {
            panic!()
        };
        assert_eq!(offsets, [0, 40, 42, 42, 42, 43]);
        assert_eq!(data, format!("{long}abc").as_bytes());
        assert!(strings(&indices, 4, None, OffsetsIn::Small(&[0, 1]), b"a").is_err());
    }

    #[test]
    fn more_strings_than_memory_are_an_error() {
        let (indices, data) = (vec![0; 1 << 24], vec![0; 1 << 24]);
        let found = strings(&indices, 1, None, OffsetsIn::Large(&[0, 1 << 24]), &data);
        assert!(found.unwrap_err().to_string().contains("no room"));
    }
}
