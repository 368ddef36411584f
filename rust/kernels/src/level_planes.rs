//! Levels as bit planes, 64 at a time: bit `i` of plane `k` is bit `k` of level `i`.
//!
//!     levels    0 2 1 0 3 …      plane 0    0 0 1 0 1 …      plane 1    0 1 0 0 1 …
//! A comparison with a level takes few operations for 64 entries. Bit-packed levels have this form
//! almost as they are stored: 64 adjacent ones lie in a row of a group, one in each of its 64 lanes,
//! so a bit of all lanes is a plane.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::bitpacking::{GROUP, block_of_row, packed_bytes};
use crate::block::{BlockPlan, decode_levels, runs};
use crate::error::{Result, ensure, out_of_range, part, rest};
use crate::rle;

/// Levels of a piece of a page.
#[derive(Debug, Default)]
pub struct LevelPlanes {
    /// Planes of a block: the bits of the highest level.
    width: usize,
    /// The planes of each block of 64 levels, one block after the other.
    planes: Vec<u64>,
    len: usize,
}

/// Memory that is used again for one block after the other.
#[derive(Debug, Default)]
pub struct Scratch {
    bytes: Vec<u8>,
    levels: Vec<u16>,
}

/// Levels of a block.
pub const BLOCK: usize = 64;

impl LevelPlanes {
    /// Number of levels.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no levels.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it is known from their bits that all levels are 0.
    pub fn is_zero(&self) -> bool {
        self.width == 0
    }

    /// Sets `len` levels, which are all 0.
    pub fn set_zeros(&mut self, len: usize) {
        self.reset(len, 0);
    }

    /// Sets the levels.
    pub fn set(&mut self, levels: &[u16]) {
        let width = width_of(levels.iter().copied());
        self.reset(levels.len(), width);
        self.copy(0, levels);
    }

    /// Sets the levels to those of a block of `count` 16-bit levels.
    pub fn decode(
        &mut self,
        plan: &BlockPlan,
        data: &[u8],
        count: usize,
        scratch: &mut Scratch,
    ) -> Result<()> {
        match plan {
            BlockPlan::OutOfLineBitpacking { bits: 16, packed } => {
                self.set_packed(data, *packed, count)
            }
            BlockPlan::Rle { bits: 16 } => self.set_runs(data, count),
            _ => {
                let Scratch { bytes, levels } = scratch;
                decode_levels(plan, data, count, bytes, levels)?;
                self.set(levels);
                Ok(())
            }
        }
    }

    /// A block of levels; its bits after the last level have no meaning.
    #[inline(always)]
    pub fn block(&self, number: usize) -> Block<'_> {
        let first = number * self.width;
        Block(self.planes.get(first..first + self.width).unwrap_or(&[])) // no planes: zeros
    }

    fn reset(&mut self, len: usize, width: usize) {
        self.planes.clear();
        self.planes.resize(len.div_ceil(BLOCK) * width, 0);
        (self.len, self.width) = (len, width);
    }

    /// Sets some levels, from the start of a block.
    fn copy(&mut self, first: usize, levels: &[u16]) {
        if self.width == 0 {
            return;
        }
        let blocks = self.planes.chunks_exact_mut(self.width);
        let blocks = blocks.skip(first / BLOCK).zip(levels.chunks(BLOCK));
        for (planes, levels) in blocks {
            let mut lanes = [0; BLOCK];
            for (lane, level) in lanes.iter_mut().zip(levels) {
                *lane = *level;
            }
            for (plane, bits) in planes.iter_mut().zip(transposed(&lanes)) {
                *plane = bits;
            }
        }
    }

    /// Sets the levels of groups that are packed to `packed` bits, and of a tail, which may not be.
    fn set_packed(&mut self, data: &[u8], packed: usize, count: usize) -> Result<()> {
        let most = format_args!("at most 16");
        ensure(packed <= 16, "bit-packed width, bits", packed, most)?;
        let bytes = packed_bytes(packed);
        let (groups, tail) = (count / GROUP, count % GROUP);
        let left = rest(data, groups * bytes, "bit-packed groups, bytes")?;
        let is_raw = left.len() == 2 * tail;
        let mut raw = [0; GROUP];
        for (level, word) in raw.iter_mut().zip(left.as_chunks::<2>().0) {
            *level = u16::from_le_bytes(*word);
        }
        let raw = part(&raw, 0, if is_raw { tail } else { 0 }, "levels")?;
        self.reset(count, packed.max(width_of(raw.iter().copied())));
        let whole = part(data, 0, groups * bytes, "bit-packed groups, bytes")?;
        self.set_groups(0, whole, packed);
        if is_raw {
            self.copy(groups * GROUP, raw);
            return Ok(());
        }
        let found = left.len();
        ensure(found == bytes, "bit-packed group, bytes", found, bytes)?;
        self.set_groups(groups, left, packed);
        Ok(())
    }

    /// Sets the levels of groups from a number on.
    fn set_groups(&mut self, first: usize, words: &[u8], packed: usize) {
        let planes = self.planes.chunks_mut(GROUP / BLOCK * self.width.max(1));
        Arch::new().dispatch(Groups {
            planes: planes.skip(first),
            width: self.width,
            words: words.chunks_exact(packed_bytes(packed.max(1))),
            packed,
        });
    }

    fn set_runs(&mut self, data: &[u8], count: usize) -> Result<()> {
        let (values, lengths) = runs(data)?;
        rle::check(values, lengths, 2, count)?;
        let (values, _) = values.as_chunks::<2>();
        let levels = values.iter().map(|value| u16::from_le_bytes(*value));
        self.reset(count, width_of(levels.clone()));
        let mut start = 0;
        for (level, &length) in levels.zip(lengths) {
            let end = count.min(start + usize::from(length));
            if level != 0 {
                self.set_run(start, end, level)?;
            }
            start = end;
        }
        Ok(())
    }

    fn set_run(&mut self, start: usize, end: usize, level: u16) -> Result<()> {
        let mut at = start;
        while at < end {
            let (block, skip) = (at / BLOCK, at % BLOCK);
            let taken = (end - at).min(BLOCK - skip);
            let bits = low_bits(taken) << skip;
            let planes = self.planes.get_mut(block * self.width..);
            let planes = planes.ok_or_else(|| out_of_range("levels"))?;
            for (bit, plane) in planes.iter_mut().take(self.width).enumerate() {
                if level >> bit & 1 == 1 {
                    *plane |= bits;
                }
            }
            at += taken;
        }
        Ok(())
    }
}

/// Which of the 64 entries of a block are among some entries.
#[inline(always)]
pub fn live_bits(entries: &Range<usize>, block: usize) -> u64 {
    let first = block * BLOCK;
    let end = low_bits(entries.end.saturating_sub(first));
    end & !low_bits(entries.start.saturating_sub(first))
}

/// The numbers of the blocks that contain entries.
#[inline(always)]
pub fn blocks_of(entries: &Range<usize>) -> Range<usize> {
    entries.start / BLOCK..entries.end.div_ceil(BLOCK)
}

/// The planes of 64 levels.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a>(&'a [u64]);

impl Block<'_> {
    /// Which levels are at most this one.
    #[inline(always)]
    pub fn at_most(self, level: u16) -> u64 {
        if usize::from(level) >> self.0.len() != 0 {
            return u64::MAX;
        }
        let planes = self.0.iter().enumerate();
        planes.fold(u64::MAX, |found, (bit, plane)| {
            if level >> bit & 1 == 1 {
                !plane | found
            } else {
                !plane & found
            }
        })
    }

    /// Which levels are at least this one.
    #[inline(always)]
    pub fn at_least(self, level: u16) -> u64 {
        match level.checked_sub(1) {
            Some(below) => !self.at_most(below),
            None => u64::MAX,
        }
    }

    /// Which levels are this one.
    #[inline(always)]
    pub fn equal(self, level: u16) -> u64 {
        self.at_least(level) & self.at_most(level)
    }
}

/// Bit-packed groups, and the planes of each.
struct Groups<P, W> {
    planes: P,
    /// Planes of a block, at least the packed ones.
    width: usize,
    words: W,
    packed: usize,
}

impl<'a, P, W> WithSimd for Groups<P, W>
where
    P: Iterator<Item = &'a mut [u64]>,
    W: Iterator<Item = &'a [u8]>,
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (planes, words) in self.planes.zip(self.words) {
            let (words, _) = words.as_chunks::<2>();
            let (mut row, mut bit) = (0, 0);
            for words in words.as_chunks::<BLOCK>().0 {
                for plane in transposed(&words.map(u16::from_le_bytes)) {
                    // Blocks after the last level are not there.
                    if let Some(slot) = planes.get_mut(block_of_row(row) * self.width + bit) {
                        *slot = plane;
                    }
                    bit += 1;
                    if bit == self.packed {
                        (row, bit) = (row + 1, 0);
                    }
                }
            }
        }
    }
}

/// The `count` lowest bits of a word, all of them from 64 on.
#[inline(always)]
pub fn low_bits(count: usize) -> u64 {
    match u32::try_from(count) {
        Ok(count @ ..64) => (1 << count) - 1,
        _ => u64::MAX,
    }
}

/// Bits that the highest level needs.
fn width_of(levels: impl Iterator<Item = u16>) -> usize {
    let bits = levels.fold(0, |all, level| all | level);
    16 - bits.leading_zeros() as usize
}

/// One word for each bit of the lanes.
#[inline(always)]
fn transposed(lanes: &[u16; BLOCK]) -> [u64; 16] {
    let low = lanes.map(|lane| lane.to_le_bytes()[0]);
    let high = lanes.map(|lane| lane.to_le_bytes()[1]);
    let (low, high) = (transposed_bytes(&low), transposed_bytes(&high));
    let mut planes = [0; 16];
    for (plane, bits) in planes.iter_mut().zip(low.into_iter().chain(high)) {
        *plane = bits;
    }
    planes
}

/// One word for each bit of the bytes.
#[inline(always)]
fn transposed_bytes(bytes: &[u8; BLOCK]) -> [u64; 8] {
    let mut squares = [[0; 8]; 8];
    for (square, rows) in squares.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *square = transposed_square(u64::from_le_bytes(*rows)).to_le_bytes();
    }
    let [a, b, c, d, e, f, g, h] = squares;
    let mut planes = [0; 8];
    let columns = a.iter().zip(b).zip(c).zip(d).zip(e).zip(f).zip(g).zip(h);
    for (plane, (((((((a, b), c), d), e), f), g), h)) in planes.iter_mut().zip(columns) {
        *plane = u64::from_le_bytes([*a, b, c, d, e, f, g, h]);
    }
    planes
}

/// Exchanges bit `j` of byte `i` for bit `i` of byte `j`: single bits, then pairs, then fours.
#[inline(always)]
fn transposed_square(rows: u64) -> u64 {
    let exchanged = |rows: u64, mask: u64, distance: u32| {
        let differ = (rows ^ rows >> distance) & mask;
        rows ^ differ ^ differ << distance
    };
    let rows = exchanged(rows, 0x00AA_00AA_00AA_00AA, 7);
    let rows = exchanged(rows, 0x0000_CCCC_0000_CCCC, 14);
    exchanged(rows, 0x0000_0000_F0F0_F0F0, 28)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use crate::block::encode_levels;

    fn of(planes: &LevelPlanes, entry: usize) -> u16 {
        (0..16).fold(0, |level, bit| {
            let plane = planes.block(entry / BLOCK).0.get(bit);
            let is_set = plane.is_some_and(|plane| plane >> (entry % BLOCK) & 1 == 1);
            level | u16::from(is_set) << bit
        })
    }

    fn levels(count: usize, most: usize, mean_run: usize) -> Vec<u16> {
        let level = |at: usize| (at / mean_run).wrapping_mul(0x9e37_79b9) >> 7 & 0xffff;
        let levels = (0..count).map(|at| level(at) % (most + 1));
        levels.map(|level| u16::try_from(level).unwrap()).collect()
    }

    #[test]
    fn every_block_plan_and_tail() {
        let mut scratch = Scratch::default();
        for (width, most) in [(1, 1), (2, 2), (2, 3), (3, 6), (5, 31), (16, 65_535)] {
            for count in [0, 1, 63, 64, 65, 320, 952, 1023, 1024, 1025, 3000] {
                let expected = levels(count, most, 1 + count % 9);
                for plan in [
                    BlockPlan::Flat { bits: 16 },
                    BlockPlan::Rle { bits: 16 },
                    BlockPlan::OutOfLineBitpacking {
                        bits: 16,
                        packed: width,
                    },
                ] {
                    let mut data = Vec::new();
                    encode_levels(&plan, &expected, &mut data).unwrap();
                    let mut planes = LevelPlanes::default();
                    planes.decode(&plan, &data, count, &mut scratch).unwrap();
                    let found: Vec<_> = (0..count).map(|at| of(&planes, at)).collect();
                    assert_eq!(found, expected, "{plan:?}");
                    if count > 0 {
                        let cut = &data[..data.len() - 1];
                        let found = planes.decode(&plan, cut, count, &mut scratch);
                        assert!(found.is_err(), "{plan:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_tail_may_have_more_bits_than_the_groups() {
        let mut expected = levels(1024, 1, 3);
        let plan = BlockPlan::OutOfLineBitpacking {
            bits: 16,
            packed: 1,
        };
        let mut data = Vec::new();
        encode_levels(&plan, &expected, &mut data).unwrap();
        data.extend([7, 0, 0, 1]);
        expected.extend([7, 256]);
        let mut planes = LevelPlanes::default();
        let mut scratch = Scratch::default();
        planes.decode(&plan, &data, 1026, &mut scratch).unwrap();
        let found: Vec<_> = (0..1026).map(|at| of(&planes, at)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn levels_without_bits_are_zeros() {
        let plan = BlockPlan::OutOfLineBitpacking {
            bits: 16,
            packed: 0,
        };
        let mut planes = LevelPlanes::default();
        let mut scratch = Scratch::default();
        planes.decode(&plan, &[], 2048, &mut scratch).unwrap();
        assert!(planes.is_zero());
        assert!(planes.decode(&plan, &[0], 2048, &mut scratch).is_err());
        assert_eq!((planes.len(), planes.block(0).at_most(0)), (2048, u64::MAX));
        let plan = BlockPlan::OutOfLineBitpacking {
            bits: 16,
            packed: 17,
        };
        assert!(planes.decode(&plan, &[], 0, &mut scratch).is_err());
    }

    #[test]
    fn comparisons_of_some_entries() {
        let levels = levels(300, 6, 2);
        let mut planes = LevelPlanes::default();
        planes.set(&levels);
        for entries in [0..300, 0..0, 7..9, 63..65, 64..128, 100..299] {
            for level in 0..10 {
                let found = |holds: fn(Block<'_>, u16) -> u64| {
                    let blocks = blocks_of(&entries).map(|number| {
                        let bits = holds(planes.block(number), level);
                        (bits & live_bits(&entries, number)).count_ones() as usize
                    });
                    blocks.sum::<usize>()
                };
                let expected = |holds: fn(&u16, &u16) -> bool| {
                    let own = levels[entries.clone()].iter();
                    own.filter(|own| holds(own, &level)).count()
                };
                assert_eq!(
                    found(|block, level| block.at_most(level)),
                    expected(u16::le)
                );
                assert_eq!(
                    found(|block, level| block.at_least(level)),
                    expected(u16::ge)
                );
                assert_eq!(found(|block, level| block.equal(level)), expected(u16::eq));
            }
        }
    }
}
