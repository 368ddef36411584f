//! Bitmaps, least significant bit first: bit `i` is `byte[i / 8] >> (i % 8) & 1`.

use crate::error::{Result, ensure, out_of_range, part, rest, signed};

/// A bitmap that grows at its end and counts its unset bits.
#[derive(Debug, Default)]
pub struct BitmapBuilder {
    bytes: Vec<u8>,
    word: u64,
    filled: usize,
    ones: usize,
}

impl BitmapBuilder {
    /// Number of bits so far.
    pub fn len(&self) -> usize {
        self.bytes.len() * 8 + self.filled
    }

    /// Whether the bitmap is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of unset bits so far.
    pub fn zeros(&self) -> usize {
        self.len() - self.ones - self.word.count_ones() as usize
    }

    /// Appends one bit.
    #[inline]
    pub fn push(&mut self, bit: bool) {
        self.word |= u64::from(bit) << self.filled;
        self.filled += 1;
        if self.filled == 64 {
            self.flush();
        }
    }

    /// Appends the low `count` (1..=64) bits of `bits`; the others must be zero.
    #[inline]
    pub fn push_word(&mut self, bits: u64, count: usize) {
        self.word |= bits << self.filled;
        let free = 64 - self.filled;
        if count < free {
            self.filled += count;
            return;
        }
        self.flush();
        self.word = if free == 64 { 0 } else { bits >> free };
        self.filled = count - free;
    }

    /// Appends one bit per item.
    pub fn extend_with<T: Copy>(&mut self, items: &[T], bit: impl Fn(T) -> bool) {
        let (blocks, rest) = items.as_chunks::<64>();
        for items in blocks {
            self.push_word(mask64(items, &bit), 64);
        }
        for &item in rest {
            self.push(bit(item));
        }
    }

    /// Appends `count` bits of one value.
    pub fn extend_constant(&mut self, bit: bool, mut count: usize) {
        let word = if bit { u64::MAX } else { 0 };
        while count >= 64 {
            self.push_word(word, 64);
            count -= 64;
        }
        if count > 0 {
            self.push_word(word >> (64 - count), count);
        }
    }

    /// Appends `count` bits of `bitmap` from bit `start`.
    pub fn extend_from(&mut self, bitmap: &[u8], start: usize, count: usize) -> Result<()> {
        let bytes = part(
            bitmap,
            start / 8,
            (start % 8 + count).div_ceil(8),
            "bitmap, bytes",
        )?;
        let skip = start % 8;
        let mut done = 0;
        if skip == 0 {
            for word in bytes.as_chunks::<8>().0.iter().take(count / 64) {
                self.push_word(u64::from_le_bytes(*word), 64);
                done += 64;
            }
        }
        while done < count {
            let take = (count - done).min(56);
            let position = skip + done;
            let left = rest(bytes, position / 8, "bitmap, bytes")?;
            let window = match left.first_chunk::<8>() {
                Some(whole) => *whole,
                None => last_window(left),
            };
            let mask = (1u64 << take) - 1;
            let bits = (u64::from_le_bytes(window) >> (position % 8)) & mask;
            self.push_word(bits, take);
            done += take;
        }
        Ok(())
    }

    /// The finished bitmap; unused bits of the last byte are zero.
    pub fn finish(mut self) -> Vec<u8> {
        let used = self.filled.div_ceil(8);
        let tail = self.word.to_le_bytes();
        self.bytes.extend(tail.iter().take(used));
        self.bytes
    }

    fn flush(&mut self) {
        self.ones += self.word.count_ones() as usize;
        self.bytes.extend_from_slice(&self.word.to_le_bytes());
        self.word = 0;
        self.filled = 0;
    }
}

fn last_window(bytes: &[u8]) -> [u8; 8] {
    let mut window = [0; 8];
    for (slot, &byte) in window.iter_mut().zip(bytes) {
        *slot = byte;
    }
    window
}

/// One bit per item.
///
/// The flags become bytes first, which vectorises; a product then gathers eight of them at once.
#[inline(always)]
pub fn mask64<T: Copy>(items: &[T; 64], flag: impl Fn(T) -> bool) -> u64 {
    let mut flags = [0u8; 64];
    for (slot, &item) in flags.iter_mut().zip(items) {
        *slot = u8::from(flag(item));
    }
    let (groups, _) = flags.as_chunks::<8>();
    let mut mask = 0;
    for (index, group) in groups.iter().enumerate() {
        let byte = u64::from_le_bytes(*group).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= byte << (8 * index);
    }
    mask
}

/// The bits of `bits` at which `keep` is set, moved together to the low end.
#[inline]
pub fn compress64(bits: u64, keep: u64) -> u64 {
    let count = keep.count_ones();
    let (set, unset) = (bits & keep, !bits & keep);
    let fewest = set.count_ones().min(unset.count_ones());
    if 64 - count < fewest {
        close_holes(bits & keep, keep)
    } else if fewest == set.count_ones() {
        ranked(set, keep)
    } else {
        let all = u64::MAX.checked_shr(64 - count).unwrap_or_default();
        all & !ranked(unset, keep)
    }
}

/// Moves bits, which are among those to keep, one by one to their number among these.
#[inline]
fn ranked(mut bits: u64, keep: u64) -> u64 {
    let mut moved = 0;
    while bits != 0 {
        let lowest = bits & bits.wrapping_neg();
        moved |= 1 << (keep & (lowest - 1)).count_ones();
        bits ^= lowest;
    }
    moved
}

#[inline]
fn close_holes(mut bits: u64, keep: u64) -> u64 {
    let mut holes = !keep;
    while holes != 0 {
        let top = 63 - holes.leading_zeros();
        let low = (1u64 << top) - 1;
        bits = (bits & low) | ((bits >> 1) & !low);
        holes &= low;
    }
    bits
}

/// Bit `index` of `bitmap`; bits after its end are unset.
#[inline]
pub fn bit(bitmap: &[u8], index: usize) -> bool {
    bitmap
        .get(index / 8)
        .is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

/// The 64 bits of `bitmap` from bit `first` on; bits after its end are unset.
#[inline]
pub fn word_at(bitmap: &[u8], first: usize) -> u64 {
    let bytes = bitmap.get(first / 8..).unwrap_or_default();
    let mut word = [0; 16];
    if let Some(whole) = bytes.first_chunk::<9>() {
        for (slot, byte) in word.iter_mut().zip(whole) {
            *slot = *byte;
        }
    } else {
        for (slot, byte) in word.iter_mut().zip(bytes) {
            *slot = *byte;
        }
    }
    let bits = u128::from_le_bytes(word) >> (first % 8);
    #[allow(clippy::cast_possible_truncation)]
    let low = bits as u64;
    low
}

/// The places of the bits that are set, among `count` bits from `start`; the first one is `first`.
pub fn places(bitmap: &[u8], start: usize, count: usize, first: i64) -> Result<Vec<i64>> {
    let end = start.checked_add(count).map(|end| end.div_ceil(8));
    let bytes = end.and_then(|end| bitmap.get(..end));
    let bytes = bytes.ok_or_else(|| out_of_range("bits"))?;
    let last = signed(count, "bits")?.checked_add(first);
    ensure(
        last.is_some(),
        "place of the first bit",
        first,
        "a lower one",
    )?;
    let words = (0..count).step_by(64).map(|done| {
        let word = word_at(bytes, start + done);
        match count - done {
            left @ ..64 => word & ((1 << left) - 1),
            _ => word,
        }
    });
    let words = words.collect::<Vec<_>>();
    let ones: u32 = words.iter().copied().map(u64::count_ones).sum();
    let mut out = Vec::with_capacity(ones as usize);
    for (mut word, place) in words.into_iter().zip((first..).step_by(64)) {
        if word == u64::MAX {
            out.extend(place..place + 64);
            continue;
        }
        while word != 0 {
            out.push(place + i64::from(word.trailing_zeros()));
            word &= word - 1;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )]
    use super::*;

    #[test]
    fn masks_and_their_compression() {
        let items: [u16; 64] = std::array::from_fn(|i| (i * i % 7) as u16);
        let mask = mask64(&items, |item| item > 2);
        assert!((0..64).all(|i| (mask >> i & 1 == 1) == (items[i] > 2)));
        for keep in [0, u64::MAX, 1, 1 << 63, 0x0f0f_1234_5678_9abc] {
            let kept: Vec<u64> = (0..64)
                .filter(|i| keep >> i & 1 == 1)
                .map(|i| mask >> i & 1)
                .collect();
            let made = compress64(mask, keep);
            assert!(
                kept.iter()
                    .enumerate()
                    .all(|(i, bit)| made >> i & 1 == *bit)
            );
            assert!(kept.len() == 64 || made >> kept.len() == 0);
        }
    }

    #[test]
    fn words_at_any_bit() {
        let source: Vec<u8> = (0..20u8).map(|i| i.wrapping_mul(37) ^ 0x5a).collect();
        for first in 0..170 {
            let word = word_at(&source, first);
            assert!((0..64).all(|i| (word >> i & 1 == 1) == bit(&source, first + i)));
        }
    }

    #[test]
    fn every_offset_and_length() {
        let source: Vec<u8> = (0..40u8).map(|i| i.wrapping_mul(37) ^ 0x5a).collect();
        for start in 0..20 {
            for count in [0, 1, 7, 8, 9, 55, 56, 57, 63, 64, 65, 130, 200] {
                for lead in [0, 1, 63, 64] {
                    let mut builder = BitmapBuilder::default();
                    builder.extend_constant(true, lead);
                    builder.extend_from(&source, start, count).unwrap();
                    assert_eq!(builder.len(), lead + count);
                    let zeros = (0..count).filter(|i| !bit(&source, start + i)).count();
                    assert_eq!(builder.zeros(), zeros);
                    let made = builder.finish();
                    assert_eq!(made.len(), (lead + count).div_ceil(8));
                    assert!((0..count).all(|i| bit(&made, lead + i) == bit(&source, start + i)));
                }
            }
        }
    }

    #[test]
    fn places_of_bits() {
        let bits: Vec<bool> = (0..300)
            .map(|i| i % 3 == 0 || (70..210).contains(&i))
            .collect();
        let mut builder = BitmapBuilder::default();
        bits.iter().for_each(|&bit| builder.push(bit));
        let bitmap = builder.finish();
        for (start, count) in [(0, 300), (0, 0), (3, 64), (5, 130), (290, 10), (7, 63)] {
            let own = (0..).zip(&bits[start..start + count]);
            let expected: Vec<i64> = own.filter(|(_, bit)| **bit).map(|(i, _)| i - 9).collect();
            assert_eq!(places(&bitmap, start, count, -9).unwrap(), expected);
        }
        assert!(places(&bitmap, 0, 305, 0).is_err());
        assert!(places(&bitmap, usize::MAX, 2, 0).is_err());
        assert!(places(&bitmap, 0, 9, i64::MAX).is_err());
    }
}
