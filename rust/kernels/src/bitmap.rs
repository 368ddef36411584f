//! Bitmaps, least significant bit first: bit `i` is `byte[i / 8] >> (i % 8) & 1`.

use crate::error::{Result, part};

/// A bitmap that grows at its end and counts its unset bits.
#[derive(Debug, Default)]
pub struct BitmapBuilder {
    bytes: Vec<u8>,
    word: u64,
    filled: u32,
    ones: usize,
}

impl BitmapBuilder {
    /// Number of bits so far.
    pub fn len(&self) -> usize {
        self.bytes.len() * 8 + self.filled as usize
    }

    /// Whether nothing was appended yet.
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
    pub fn push_word(&mut self, bits: u64, count: u32) {
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
        let (words, rest) = items.as_chunks::<64>();
        for items in words {
            let mut word = 0u64;
            for (index, &item) in items.iter().enumerate() {
                word |= u64::from(bit(item)) << index;
            }
            self.push_word(word, 64);
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
        for _ in 0..count {
            self.push(bit);
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
        while done < count {
            let take = (count - done).min(56);
            let position = skip + done;
            let mut window = [0u8; 8];
            for (slot, &byte) in window.iter_mut().zip(bytes.iter().skip(position / 8)) {
                *slot = byte;
            }
            let mask = (1u64 << take) - 1;
            let bits = (u64::from_le_bytes(window) >> (position % 8)) & mask;
            self.push_word(bits, u32::try_from(take).unwrap_or(0));
            done += take;
        }
        Ok(())
    }

    /// The finished bitmap; unused bits of the last byte are zero.
    pub fn finish(mut self) -> Vec<u8> {
        let used = self.filled.div_ceil(8) as usize;
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

/// Bit `index` of `bitmap`; bits behind its end are unset.
#[inline]
pub fn bit(bitmap: &[u8], index: usize) -> bool {
    bitmap
        .get(index / 8)
        .is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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
}
