//! The places of rows in the strings of a dictionary: their index, or one place for all nulls.

use pulp::{Simd, WithSimd};

use crate::bitmap::word_at;
use crate::level_planes::low_bits;

/// Finds the places of rows; returns the greatest index of a row that is not null.
pub struct Places<'a, const N: usize> {
    pub words: &'a [[u8; N]],
    /// The number of the first row in the bitmap.
    pub first: usize,
    pub validity: Option<&'a [u8]>,
    /// The place of null.
    pub null: u32,
    pub places: &'a mut [u32],
}

impl<const N: usize> WithSimd for Places<'_, N> {
    type Output = Option<u32>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Option<u32> {
        for (place, word) in self.places.iter_mut().zip(self.words) {
            *place = index(word);
        }
        let Some(bitmap) = self.validity else {
            return self.places.iter().copied().reduce(u32::max);
        };
        let (mut most, mut num_valid) = (0, 0);
        let first_rows = (self.first..).step_by(64);
        for (first, places) in first_rows.zip(self.places.chunks_mut(64)) {
            let valid = word_at(bitmap, first) & low_bits(places.len());
            num_valid |= valid;
            for (bit, place) in places.iter_mut().enumerate() {
                let kept = u32::from(valid >> bit & 1 == 1).wrapping_neg();
                most = most.max(*place & kept);
                *place = *place & kept | self.null & !kept;
            }
        }
        (num_valid != 0).then_some(most)
    }
}

/// An index; no dictionary has as many values as the greatest one.
#[inline(always)]
fn index<const N: usize>(word: &[u8; N]) -> u32 {
    let bytes = word.iter().rev();
    let number = bytes.fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::bitmap::bit;
    use pulp::Arch;

    fn places<const N: usize>(indices: &[u64], first: usize, bitmap: Option<&[u8]>) {
        let words = indices
            .iter()
            .map(|index| *index.to_le_bytes().first_chunk::<N>().unwrap());
        let words: Vec<_> = words.collect();
        let mut found = vec![0; indices.len()];
        let most = Arch::new().dispatch(Places {
            words: &words,
            first,
            validity: bitmap,
            null: 77,
            places: &mut found,
        });
        let is_valid = |row: usize| bitmap.is_none_or(|bitmap| bit(bitmap, first + row));
        let own = |index: u64| u32::try_from(index).unwrap_or(u32::MAX);
        let rows = || indices.iter().map(|&index| own(index)).enumerate();
        let expected = rows().map(|(row, index)| if is_valid(row) { index } else { 77 });
        assert_eq!(found, expected.collect::<Vec<_>>());
        let valid = rows().filter(|(row, _)| is_valid(*row));
        assert_eq!(most, valid.map(|(_, index)| index).max());
    }

    #[test]
    fn nulls_may_have_any_index() {
        let bitmap: Vec<u8> = (0..140u8).map(|byte| byte.wrapping_mul(37)).collect();
        for count in [0, 1, 63, 64, 65, 1000] {
            let indices: Vec<u64> = (0..count).map(|row| row * row % 251).collect();
            for bitmap in [None, Some(bitmap.as_slice()), Some(&[]), Some(&[0; 140])] {
                for first in [0, 64, 128] {
                    places::<1>(&indices, first, bitmap);
                    places::<2>(&indices, first, bitmap);
                    places::<4>(&indices, first, bitmap);
                    places::<8>(&indices, first, bitmap);
                }
            }
        }
        places::<8>(&[3, 1 << 40, u64::MAX], 0, None);
    }
}
