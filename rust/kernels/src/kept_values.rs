//! The values and bits that a bitmap keeps.
//!
//!     values    a b c d e        bitmap    1 1 0 0 1        kept    a b e
//! Bits are in the order of the rows, least significant first.

use crate::bitmap::{BitmapBuilder, bit, word_at};
use crate::error::{Corrupt, Result, ensure, part};

/// Bits of a word, of which the rows are processed together.
const WORD_BITS: usize = 64;

/// The kept values of `width` bytes each; the bit of the first one is number `first` of the bitmap.
pub fn values(data: &[u8], width: usize, bitmap: &[u8], first: usize) -> Result<Vec<u8>> {
    match width {
        1 => of_width::<1>(data, bitmap, first),
        2 => of_width::<2>(data, bitmap, first),
        4 => of_width::<4>(data, bitmap, first),
        8 => of_width::<8>(data, bitmap, first),
        16 => of_width::<16>(data, bitmap, first),
        _ => Err(Corrupt(format!("values of {width} bytes to keep"))),
    }
}

fn of_width<const N: usize>(data: &[u8], bitmap: &[u8], first: usize) -> Result<Vec<u8>> {
    let (values, rest) = data.as_chunks::<N>();
    ensure(rest.is_empty(), "bytes after the last value", rest.len(), 0)?;
    check(bitmap, first, values.len())?;
    let num_kept = words(bitmap, first, values.len()).map(u64::count_ones);
    let mut kept: Vec<[u8; N]> = Vec::with_capacity(num_kept.sum::<u32>() as usize);
    let blocks = values.chunks(WORD_BITS);
    for (block, mut word) in blocks.zip(words(bitmap, first, values.len())) {
        if word.count_ones() as usize == block.len() {
            kept.extend_from_slice(block);
            continue;
        }
        while word != 0 {
            kept.extend(block.get(word.trailing_zeros() as usize));
            word &= word - 1;
        }
    }
    Ok(kept.into_flattened())
}

/// The kept ones of `count` bits from bit `start`.
pub fn bits(
    data: &[u8],
    start: usize,
    count: usize,
    bitmap: &[u8],
    first: usize,
) -> Result<Vec<u8>> {
    check(bitmap, first, count)?;
    check(data, start, count)?;
    let mut kept = BitmapBuilder::default();
    let blocks = (start..).step_by(WORD_BITS);
    for (block, mut word) in blocks.zip(words(bitmap, first, count)) {
        if word == u64::MAX {
            kept.push_word(word_at(data, block), WORD_BITS);
            continue;
        }
        let (mut found, mut num_found) = (0, 0);
        while word != 0 {
            let place = word.trailing_zeros() as usize;
            found |= u64::from(bit(data, block + place)) << num_found;
            num_found += 1;
            word &= word - 1;
        }
        kept.push_word(found, num_found);
    }
    Ok(kept.finish())
}

/// The next bits of a bitmap, 64 at a time; the last word has only those of `count` bits.
fn words(bitmap: &[u8], first: usize, count: usize) -> impl Iterator<Item = u64> {
    (0..count).step_by(WORD_BITS).map(move |done| {
        let size = (count - done).min(WORD_BITS);
        word_at(bitmap, first + done) & u64::MAX >> (WORD_BITS - size)
    })
}

/// Checks that a bitmap has `count` bits from bit `first` on.
fn check(bitmap: &[u8], first: usize, count: usize) -> Result<()> {
    let end = first.saturating_add(count);
    part(bitmap, 0, end.div_ceil(8), "bitmap of kept values, bytes").map(|_| ())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]
    use super::*;

    fn bytes(count: usize, factor: usize) -> Vec<u8> {
        (0..count).map(|n| ((n * factor) >> 3) as u8).collect()
    }

    #[test]
    fn what_is_kept_is_what_the_bits_say() -> Result<()> {
        let dense: Vec<u8> = (0..40)
            .map(|n| if n % 11 == 3 { 0xF7 } else { 0xFF })
            .collect();
        for bitmap in [bytes(40, 251), dense, vec![0; 40]] {
            for (count, first) in [(0, 0), (1, 5), (56, 0), (57, 3), (300, 7)] {
                let rows: Vec<usize> = (0..count).filter(|row| bit(&bitmap, first + row)).collect();
                for width in [1, 2, 4, 8, 16] {
                    let data = bytes(count * width, 77);
                    let expected = rows.iter().flat_map(|row| &data[row * width..][..width]);
                    let found = values(&data, width, &bitmap, first)?;
                    assert_eq!(found, expected.copied().collect::<Vec<_>>());
                }
                let data = bytes(40, 97);
                let found = bits(&data, 2, count, &bitmap, first)?;
                assert_eq!(found.len(), rows.len().div_ceil(8));
                for (place, row) in rows.iter().enumerate() {
                    assert_eq!(bit(&found, place), bit(&data, 2 + row));
                }
            }
        }
        Ok(())
    }

    #[test]
    fn lengths_are_checked() {
        assert!(values(&[0; 9], 2, &[0xFF; 9], 0).is_err());
        assert!(values(&[0; 9], 3, &[0xFF; 9], 0).is_err());
        assert!(values(&[0; 64], 4, &[0xFF], 0).is_err());
        assert!(bits(&[0; 2], 1, 16, &[0xFF; 9], 0).is_err());
        assert!(bits(&[0; 2], 0, 16, &[0xFF], 0).is_err());
    }
}
