//! Strings by their index in a dictionary.

use crate::bitmap::bit;
use crate::error::{Corrupt, Result, ensure, out_of_range, part};
use crate::mini_block_writer::OffsetsIn;
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
    let spans = spans(offsets, data)?;
    let rows = match width {
        1 => numbers::<1>(indices),
        2 => numbers::<2>(indices),
        4 => numbers::<4>(indices),
        8 => numbers::<8>(indices),
        _ => return Err(Corrupt(format!("dictionary indices of {width} bytes"))),
    };
    let mut picked = Vec::with_capacity(rows.len());
    for (row, index) in rows.into_iter().enumerate() {
        let valid = validity.is_none_or(|bitmap| bit(bitmap, row));
        picked.push(if valid {
            span(&spans, index)?
        } else {
            Span {
                start: 0,
                length: 0,
            }
        });
    }
    copy(&picked, data, 8 * offsets.width())
}

fn numbers<const N: usize>(indices: &[u8]) -> Vec<u64> {
    let (words, _) = indices.as_chunks::<N>();
    let number = |word: &[u8; N]| {
        word.iter()
            .rev()
            .fold(0u64, |value, byte| value << 8 | u64::from(*byte))
    };
    words.iter().map(number).collect()
}

#[derive(Clone, Copy)]
struct Span {
    start: usize,
    length: usize,
}

fn spans(offsets: OffsetsIn<'_>, data: &[u8]) -> Result<Vec<Span>> {
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
            Ok(Span {
                start,
                length: end - start,
            })
        })
        .collect()
}

fn copy(picked: &[Span], data: &[u8], offset_bits: usize) -> Result<Values> {
    let mut padded = data.to_vec();
    padded.resize(data.len() + SHORT, 0);
    let total = picked.iter().map(|span| span.length).sum::<usize>();
    let mut offsets = Offsets::with_capacity(offset_bits, picked.len())?;
    offsets.extend_lengths(picked.iter().map(|span| span.length), total)?;
    let mut out = vec![0; total + SHORT];
    let mut filled = 0;
    for &Span { start, length } in picked {
        if length <= SHORT {
            let from = padded
                .get(start..)
                .and_then(|bytes| bytes.first_chunk::<SHORT>());
            let to = out
                .get_mut(filled..)
                .and_then(|bytes| bytes.first_chunk_mut::<SHORT>());
            let (Some(from), Some(to)) = (from, to) else {
                return Err(out_of_range("dictionary string"));
            };
            *to = *from;
        } else {
            let from = part(data, start, length, "dictionary string")?;
            let to = out.get_mut(filled..filled + length);
            to.ok_or_else(|| out_of_range("dictionary string"))?
                .copy_from_slice(from);
        }
        filled += length;
    }
    out.truncate(total);
    Ok(Values::Variable { offsets, data: out })
}

#[inline]
fn span(spans: &[Span], index: u64) -> Result<Span> {
    let found = usize::try_from(index).ok().and_then(|at| spans.get(at));
    found.copied().ok_or_else(|| {
        Corrupt(format!(
            "dictionary index {index}: the dictionary has {} values",
            spans.len()
        ))
    })
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
}
