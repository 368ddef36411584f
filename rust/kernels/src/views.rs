//! Views of strings, as Arrow holds them: 16 bytes each, little-endian.
//!
//!     0..4    length                    4..16   all bytes of a string of up to 12, zero filled
//!                                       4..8    the first bytes of a longer one
//!                                       8..12   the number of its buffer, here always 0
//!                                       12..16  where it begins in this buffer
//!
//! The numbers are signed, so a buffer has less than 2^31 bytes.

use crate::error::{Result, ensure, out_of_range, part};
use crate::offsets::OffsetsIn;

/// One view; the default is that of an empty string.
pub type View = [u8; 16];

/// Strings of up to this many bytes are within their view.
const INLINE: usize = 12;

/// Views of all strings of a buffer, adjacent.
pub fn of_strings(offsets: OffsetsIn<'_>, data: &[u8]) -> Result<Vec<u8>> {
    let count = offsets.count();
    require_small(data)?;
    let mut views: Vec<View> = Vec::with_capacity(count);
    let (mut start, mut is_ordered) = (if count > 0 { offsets.get(0)? } else { 0 }, true);
    let mut view_to = |end: usize| {
        is_ordered &= start <= end && end <= data.len();
        let view = view(data, start, end);
        start = end;
        view
    };
    match offsets {
        OffsetsIn::Small(offsets) => {
            let ends = offsets.iter().skip(1);
            views.extend(ends.map(|&end| view_to(usize::try_from(end).unwrap_or(usize::MAX))));
        }
        OffsetsIn::Large(offsets) => {
            let ends = offsets.iter().skip(1);
            views.extend(ends.map(|&end| view_to(usize::try_from(end).unwrap_or(usize::MAX))));
        }
    }
    let expected = "ascending ones within the data";
    ensure(is_ordered, "string offsets", "others", expected)?;
    Ok(views.into_flattened())
}

/// The view of one string of a buffer.
pub fn view_at(offsets: OffsetsIn<'_>, index: usize, data: &[u8]) -> Result<View> {
    require_small(data)?;
    let (start, end) = (offsets.get(index)?, offsets.get(index + 1)?);
    let length = end.checked_sub(start);
    part(
        data,
        start,
        length.ok_or_else(|| out_of_range("string"))?,
        "string",
    )?;
    Ok(view(data, start, end))
}

fn require_small(data: &[u8]) -> Result<()> {
    let is_small = i32::try_from(data.len()).is_ok();
    ensure(is_small, "bytes of strings", data.len(), "less than 2^31")
}

/// The view of the bytes from `start` to `end` of a small buffer; any other if they are not in it.
#[inline]
#[allow(clippy::cast_possible_truncation)] // the buffer is small
fn view(data: &[u8], start: usize, end: usize) -> View {
    let length = end.wrapping_sub(start);
    let rest = data.get(start..).unwrap_or_default();
    let (first, others) = match rest.first_chunk() {
        Some(bytes) => words(*bytes),
        None => last_words(rest),
    };
    let (first, others) = match MASKS.get(length) {
        Some((mask, other_mask)) => (first & mask, others & other_mask),
        None => (first, (start as u64) << 32),
    };
    let [a, b, c, d] = (length as u32).to_le_bytes();
    let [e, f, g, h] = first.to_le_bytes();
    let [i, j, k, l, m, n, o, p] = others.to_le_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

/// The first bytes of a string as two words.
#[inline]
fn words([a, b, c, d, others @ ..]: [u8; INLINE]) -> (u32, u64) {
    (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(others))
}

#[cold]
fn last_words(rest: &[u8]) -> (u32, u64) {
    let mut bytes = [0; INLINE];
    for (slot, &byte) in bytes.iter_mut().zip(rest) {
        *slot = byte;
    }
    words(bytes)
}

/// The bits of the first bytes in these words, by their number.
const MASKS: [(u32, u64); INLINE + 1] = {
    const ALL: (u32, u64) = (u32::MAX, u64::MAX);
    [
        (0, 0),
        (ALL.0 >> 24, 0),
        (ALL.0 >> 16, 0),
        (ALL.0 >> 8, 0),
        (ALL.0, 0),
        (ALL.0, ALL.1 >> 56),
        (ALL.0, ALL.1 >> 48),
        (ALL.0, ALL.1 >> 40),
        (ALL.0, ALL.1 >> 32),
        (ALL.0, ALL.1 >> 24),
        (ALL.0, ALL.1 >> 16),
        (ALL.0, ALL.1 >> 8),
        ALL,
    ]
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn string<'a>(view: &'a View, data: &'a [u8]) -> &'a [u8] {
        let length = u32::from_le_bytes(view[..4].try_into().unwrap()) as usize;
        if length <= INLINE {
            assert!(view[4 + length..].iter().all(|&byte| byte == 0));
            return &view[4..4 + length];
        }
        let start = u32::from_le_bytes(view[12..].try_into().unwrap()) as usize;
        assert_eq!(view[4..8], data[start..start + 4]);
        assert_eq!(view[8..12], [0; 4]);
        &data[start..start + length]
    }

    #[test]
    fn strings_of_every_length() {
        let texts: Vec<Vec<u8>> = (0u8..40).map(|n| vec![b'a' + n % 26; n.into()]).collect();
        let data = texts.concat();
        let mut ends = vec![0i32];
        for text in &texts {
            ends.push(ends.last().unwrap() + i32::try_from(text.len()).unwrap());
        }
        let large: Vec<i64> = ends.iter().copied().map(i64::from).collect();
        let views = of_strings(OffsetsIn::Small(&ends), &data).unwrap();
        assert_eq!(views, of_strings(OffsetsIn::Large(&large), &data).unwrap());
        let (views, _) = views.as_chunks::<16>();
        assert_eq!(views.len(), texts.len());
        for (index, (view, text)) in views.iter().zip(&texts).enumerate() {
            assert_eq!(string(view, &data), text);
            assert_eq!(
                *view,
                view_at(OffsetsIn::Small(&ends), index, &data).unwrap()
            );
        }
        assert!(of_strings(OffsetsIn::Small(&[]), &data).unwrap().is_empty());
    }

    #[test]
    fn offsets_outside_of_the_data() {
        for offsets in [[0, 4, 3], [0, 3, 6], [0, -1, 3], [-2, 1, 3], [4, 2, 5]] {
            assert!(of_strings(OffsetsIn::Small(&offsets), b"abcde").is_err());
            let both = [0, 1].map(|index| view_at(OffsetsIn::Small(&offsets), index, b"abcde"));
            assert!(both.iter().any(Result::is_err));
        }
    }
}
