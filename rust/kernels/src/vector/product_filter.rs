//! Rows of product codes that may be within a limit, found by small tables.
//!
//!     least[t][n]    8 bits: the least entry of the codes n, n + 16, n + 32, … of a sub-vector
//!                    4 bits: the entry of the code n
//!     small[t][n]    floor((least[t][n] - least of t) * scale), at most 255
//!     scale          255 steps are a little less than the limit - the least sum
//!
//! A row is left out if its small entries add up to 255 or more. A table is looked up for 32 rows at
//! once, by the lower half of a byte of 8 bits and by both halves of 4 bits. Few rows are kept if
//! codewords whose numbers have equal lower halves are near to each other, as training orders them;
//! in any other order the result is the same, but more rows are kept.
//!
//! Where many rows are kept, as of vectors without clusters, they are tested by the entries of all
//! 256 codes, which are 16 tables for each sub-vector. As each entry loses half a step, their steps
//! are finer: 85 for each 8 columns. The sum of 8 columns has 8 bits, which may cut it off, and the
//! sum of these has 16. A row is left out if it is the number of all steps or more.

use super::LANES;
use super::product::lowest;

/// The rows of a block: one for each bit of a mask.
pub const ROWS: usize = 32;

/// The blocks that are tested together.
pub const BLOCKS: usize = 8;

/// Less than 255, by more than the rounding of products.
const STEPS: f64 = 254.99;

/// So many columns have a sum of fine entries of 8 bits.
const COLUMNS: usize = 8;

/// So many fine steps of a gap fall upon `COLUMNS` columns.
const FINE_STEPS: u16 = 85;

/// So many blocks of which many rows are kept are worth fine entries.
const DENSE: usize = 3;

/// Small entries serve smaller limits too, down to this share of theirs.
const SHARE: f64 = 0.9;

/// The tables of a query.
#[derive(Default)]
pub struct Filter {
    least: Vec<[f32; LANES]>,
    lows: Vec<f32>,
    base: f64,
    /// For each of `least`, twice.
    small: Vec<[u8; ROWS]>,
    /// The limit of the small entries, minus `base`; 0 if there are none.
    gap: f64,
    /// For each sub-vector, the entries of all codes, if they have 8 bits.
    fine: Vec<[u8; 256]>,
    /// As `gap`, of the fine entries.
    fine_gap: f64,
}

impl Filter {
    /// Takes over the least entries of each sub-vector.
    pub fn set(&mut self, least: &[[f32; LANES]]) {
        self.least.clear();
        self.least.extend_from_slice(least);
        self.lows.clear();
        self.lows.extend(self.least.iter().map(lowest));
        self.base = self.lows.iter().copied().map(f64::from).sum();
        self.gap = 0.0;
        self.fine_gap = 0.0;
    }

    /// The least entry of each sub-vector.
    pub fn lows(&self) -> &[f32] {
        &self.lows
    }

    /// Sets the bits of the rows that may be within a limit, block after block.
    ///
    /// Columns of `num_rows` codes; the first row of the first block is `first`. Returns false if
    /// this machine cannot do it quickly, or for blocks that are not in the columns.
    pub fn keep(
        &mut self,
        codes: &[u8],
        num_rows: usize,
        first: usize,
        limit: f64,
        masks: &mut [u32],
    ) -> bool {
        let Some(gap) = self.gap_of(limit, num_rows, first, masks.len()) else {
            return false;
        };
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = pulp::x86::V3::try_new() {
            let columns = codes.chunks_exact(num_rows);
            simd.vectorize(wide::Keep(
                wide::Rows::new(simd, self, columns, first, gap),
                masks,
            ));
            return true;
        }
        false
    }

    /// Writes the sums of small entries that serve a limit, at most 255, block after block.
    ///
    /// See [`Self::keep`].
    pub fn add_up(
        &mut self,
        codes: &[u8],
        num_rows: usize,
        first: usize,
        limit: f64,
        sums: &mut [[u8; ROWS]],
    ) -> bool {
        let Some(gap) = self.gap_of(limit, num_rows, first, sums.len()) else {
            return false;
        };
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = pulp::x86::V3::try_new() {
            let columns = codes.chunks_exact(num_rows);
            simd.vectorize(wide::Sums(
                wide::Rows::new(simd, self, columns, first, gap),
                sums,
            ));
            return true;
        }
        false
    }

    /// Clears the bits of further rows that cannot be within a limit, in blocks with more than `few`.
    ///
    /// Given the entries of all codes of 8 bits. See [`Self::keep`].
    #[allow(clippy::too_many_arguments)]
    pub fn thin(
        &mut self,
        entries: &[f32],
        codes: &[u8],
        num_rows: usize,
        first: usize,
        limit: f64,
        few: u32,
        masks: &mut [u32],
    ) {
        let num_dense = masks.iter().filter(|mask| mask.count_ones() > few).count();
        let Some(gap) = self.gap_of(limit, num_rows, first, masks.len()) else {
            return;
        };
        if num_dense == 0 || num_dense < DENSE && self.fine_gap == 0.0 {
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = pulp::x86::V3::try_new() {
            simd.vectorize(wide::Thin {
                simd,
                filter: self,
                lines: entries.as_chunks().0,
                columns: codes.chunks_exact(num_rows),
                first,
                gap,
                few,
                masks,
            });
        }
    }

    /// By how much a limit exceeds the least sum; None if it does not, or for rows that are not
    /// there.
    fn gap_of(&self, limit: f64, num_rows: usize, first: usize, num_blocks: usize) -> Option<f64> {
        let gap = limit - self.base;
        let end = first.checked_add(num_blocks * ROWS)?;
        let is_of_use = gap > 0.0 && gap < f64::from(f32::MAX);
        (is_of_use && num_rows > 0 && end <= num_rows).then_some(gap)
    }

    /// How many fine steps are a gap.
    #[allow(clippy::cast_possible_truncation)] // at most 255
    fn num_fine_steps(&self) -> u16 {
        let num_sums = self.lows.len().div_ceil(COLUMNS).min(255) as u16;
        (num_sums * FINE_STEPS).max(255)
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    //! Looks up the entries of 32 rows at once.
    use std::arch::x86_64::{__m128i, __m256, __m256i};
    use std::slice::ChunksExact;

    use pulp::NullaryFnOnce;
    use pulp::x86::V3;

    use super::{BLOCKS, COLUMNS, Filter, LANES, ROWS, SHARE, STEPS};

    impl Filter {
        /// Makes small entries that serve a limit.
        #[inline(always)]
        #[allow(clippy::cast_possible_truncation)]
        fn set_small(&mut self, simd: V3, gap: f64) {
            if self.gap >= gap && self.gap * SHARE <= gap {
                return;
            }
            self.gap = gap;
            self.small.resize(self.least.len(), [0; ROWS]);
            let scale = (STEPS / gap) as f32;
            let each = self.small.iter_mut().zip(&self.least).zip(&self.lows);
            for ((small, least), &low) in each {
                let steps = steps(simd, least, low, scale);
                *small = pulp::cast([steps, steps]);
            }
        }

        /// Makes fine entries that serve a limit.
        #[inline(always)]
        #[allow(clippy::cast_possible_truncation)]
        fn set_fine(&mut self, simd: V3, lines: &[[f32; 256]], gap: f64) {
            if self.fine_gap >= gap && self.fine_gap * SHARE <= gap {
                return;
            }
            self.fine_gap = gap;
            self.fine.resize(self.lows.len(), [0; 256]);
            let scale = (STEPS / 255.0 * f64::from(self.num_fine_steps()) / gap) as f32;
            for ((fine, line), &low) in self.fine.iter_mut().zip(lines).zip(&self.lows) {
                let (out, _) = fine.as_chunks_mut::<LANES>();
                for (out, values) in out.iter_mut().zip(line.as_chunks::<LANES>().0) {
                    *out = steps(simd, values, low, scale);
                }
            }
        }
    }

    /// How many steps some values are above a low one, rounded down, and at most 255.
    #[inline(always)]
    fn steps(simd: V3, values: &[f32; LANES], low: f32, scale: f32) -> [u8; LANES] {
        let (avx, avx2) = (simd.avx, simd.avx2);
        let (low, scale) = (avx._mm256_set1_ps(low), avx._mm256_set1_ps(scale));
        let most = avx._mm256_set1_ps(255.0);
        let mut halves = [avx._mm256_setzero_si256(); 2];
        let values: [__m256; 2] = pulp::cast(*values);
        for (half, values) in halves.iter_mut().zip(values) {
            let steps = avx._mm256_mul_ps(avx._mm256_sub_ps(values, low), scale);
            *half = avx._mm256_cvttps_epi32(avx._mm256_min_ps(steps, most));
        }
        let [first, last] = halves;
        let mixed = avx2._mm256_packs_epi32(first, last);
        let [first, last]: [__m128i; 2] =
            pulp::cast(avx2._mm256_permute4x64_epi64::<0b11_01_10_00>(mixed));
        pulp::cast(simd.sse2._mm_packus_epi16(first, last))
    }

    /// Rows from `first` on.
    pub struct Rows<'a> {
        simd: V3,
        filter: &'a mut Filter,
        columns: ChunksExact<'a, u8>,
        first: usize,
        gap: f64,
    }

    /// Writes a mask for each block of rows.
    pub struct Keep<'a>(pub Rows<'a>, pub &'a mut [u32]);

    /// Writes the sums of each block of rows.
    pub struct Sums<'a>(pub Rows<'a>, pub &'a mut [[u8; ROWS]]);

    impl NullaryFnOnce for Keep<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Self(rows, masks) = self;
            let (avx, avx2) = (rows.simd.avx, rows.simd.avx2);
            let full = avx._mm256_set1_epi8(-1);
            rows.each(masks, |sum| {
                let is_above = avx2._mm256_cmpeq_epi8(sum, full);
                !avx2._mm256_movemask_epi8(is_above).cast_unsigned()
            });
        }
    }

    impl NullaryFnOnce for Sums<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Self(rows, sums) = self;
            rows.each(sums, pulp::cast);
        }
    }

    /// Clears bits of blocks of rows; see `Filter::thin`.
    pub struct Thin<'a> {
        pub simd: V3,
        pub filter: &'a mut Filter,
        pub lines: &'a [[f32; 256]],
        pub columns: ChunksExact<'a, u8>,
        pub first: usize,
        pub gap: f64,
        pub few: u32,
        pub masks: &'a mut [u32],
    }

    impl NullaryFnOnce for Thin<'_> {
        type Output = ();

        /// The tables of some columns serve all blocks before those of the next ones are needed.
        #[inline(always)]
        fn call(self) {
            self.filter.set_fine(self.simd, self.lines, self.gap);
            let (avx, avx2) = (self.simd.avx, self.simd.avx2);
            let zero = avx._mm256_setzero_si256();
            let limit = self.filter.num_fine_steps().cast_signed();
            let limit = avx._mm256_set1_epi16(limit);
            for (masks, start) in self
                .masks
                .chunks_mut(BLOCKS)
                .zip((self.first..).step_by(BLOCKS * ROWS))
            {
                let mut sums = [[zero; 2]; BLOCKS];
                let mut columns = self.columns.clone();
                for tables in self.filter.fine.chunks(COLUMNS) {
                    let blocks = (start..).step_by(ROWS).zip(&*masks).zip(&mut sums);
                    for ((first, mask), [low, high]) in blocks {
                        if mask.count_ones() > self.few {
                            let some = sum_of(self.simd, tables, columns.clone(), first);
                            *low =
                                avx2._mm256_adds_epi16(*low, avx2._mm256_unpacklo_epi8(some, zero));
                            *high = avx2
                                ._mm256_adds_epi16(*high, avx2._mm256_unpackhi_epi8(some, zero));
                        }
                    }
                    columns.nth(COLUMNS - 1);
                }
                for (mask, sums) in masks.iter_mut().zip(sums) {
                    if mask.count_ones() > self.few {
                        let [low, high] = sums;
                        let low = avx2._mm256_cmpgt_epi16(limit, low);
                        let high = avx2._mm256_cmpgt_epi16(limit, high);
                        let is_below = avx2._mm256_packs_epi16(low, high);
                        *mask &= avx2._mm256_movemask_epi8(is_below).cast_unsigned();
                    }
                }
            }
        }
    }

    /// The sums of the entries of some columns, of 32 rows.
    #[inline(always)]
    fn sum_of(
        simd: V3,
        tables: &[[u8; 256]],
        columns: ChunksExact<'_, u8>,
        first: usize,
    ) -> __m256i {
        let mut sum = simd.avx._mm256_setzero_si256();
        for (table, column) in tables.iter().zip(columns) {
            let codes = column.get(first..).and_then(|bytes| bytes.first_chunk());
            let codes: [u8; ROWS] = codes.copied().unwrap_or_default();
            let entries = entries_of(simd, table, pulp::cast(codes));
            sum = simd.avx2._mm256_adds_epu8(sum, entries);
        }
        sum
    }

    /// The entries of 32 codes.
    ///
    /// A shuffle gives 0 where the highest bit of its number is set. So the four tables of which the
    /// bits 4 and 5 of a code choose one are looked up by four numbers, and the results are united.
    /// The bits 6 and 7 choose one of four such results.
    #[inline(always)]
    fn entries_of(simd: V3, table: &[u8; 256], codes: __m256i) -> __m256i {
        let (avx, avx2) = (simd.avx, simd.avx2);
        let lower = avx2._mm256_and_si256(codes, avx._mm256_set1_epi8(0x3f));
        let mut numbers = [lower; 4];
        for (numbers, upper) in numbers.iter_mut().zip([0x00, 0x10, 0x20, 0x30]) {
            let other = avx2._mm256_xor_si256(lower, avx._mm256_set1_epi8(upper));
            *numbers = avx2._mm256_add_epi8(other, avx._mm256_set1_epi8(0x70));
        }
        let [mut first, mut second, mut third, mut last] = [avx._mm256_setzero_si256(); 4];
        let quarters = [&mut first, &mut second, &mut third, &mut last];
        for (quarter, tables) in quarters.into_iter().zip(table.as_chunks::<64>().0) {
            for (table, &numbers) in tables.as_chunks::<16>().0.iter().zip(&numbers) {
                let table = avx2._mm256_broadcastsi128_si256(pulp::cast(*table));
                let entries = avx2._mm256_shuffle_epi8(table, numbers);
                *quarter = avx2._mm256_or_si256(*quarter, entries);
            }
        }
        let bit6 = avx2._mm256_slli_epi16::<1>(codes);
        let low = avx2._mm256_blendv_epi8(first, second, bit6);
        let high = avx2._mm256_blendv_epi8(third, last, bit6);
        avx2._mm256_blendv_epi8(low, high, codes)
    }

    impl<'a> Rows<'a> {
        pub fn new(
            simd: V3,
            filter: &'a mut Filter,
            columns: ChunksExact<'a, u8>,
            first: usize,
            gap: f64,
        ) -> Self {
            Self {
                simd,
                filter,
                columns,
                first,
                gap,
            }
        }

        /// Writes what is made of the sums of each block.
        #[inline(always)]
        fn each<T>(self, out: &mut [T], of_sum: impl Fn(__m256i) -> T) {
            self.filter.set_small(self.simd, self.gap);
            let (all, rest) = out.as_chunks_mut::<BLOCKS>();
            let mut first = self.first;
            for out in all {
                for (out, sum) in out.iter_mut().zip(self.sums::<BLOCKS>(first)) {
                    *out = of_sum(sum);
                }
                first += BLOCKS * ROWS;
            }
            for out in rest {
                let [sum] = self.sums::<1>(first);
                *out = of_sum(sum);
                first += ROWS;
            }
        }

        #[inline(always)]
        fn sums<const N: usize>(&self, first: usize) -> [__m256i; N] {
            let (avx, avx2) = (self.simd.avx, self.simd.avx2);
            let half = avx._mm256_set1_epi8(15);
            let mut sums = [avx._mm256_setzero_si256(); N];
            let small = &self.filter.small;
            let per_column = small.len() / self.columns.len().max(1);
            let tables = small.chunks_exact(per_column.max(1));
            for (column, tables) in self.columns.clone().zip(tables) {
                let bytes = column.get(first..).unwrap_or_default();
                let blocks = bytes.as_chunks::<ROWS>().0.first_chunk::<N>();
                let Some(blocks) = blocks else { break };
                let [low, high] = [tables.first(), tables.get(1)];
                let low = pulp::cast(low.copied().unwrap_or_default());
                match high {
                    None => {
                        for (sum, &block) in sums.iter_mut().zip(blocks) {
                            let codes = avx2._mm256_and_si256(pulp::cast(block), half);
                            let entries = avx2._mm256_shuffle_epi8(low, codes);
                            *sum = avx2._mm256_adds_epu8(*sum, entries);
                        }
                    }
                    Some(&high) => {
                        let high = pulp::cast(high);
                        for (sum, &block) in sums.iter_mut().zip(blocks) {
                            let block = pulp::cast(block);
                            let codes = avx2._mm256_and_si256(block, half);
                            let entries = avx2._mm256_shuffle_epi8(low, codes);
                            let codes = avx2._mm256_srli_epi16::<4>(block);
                            let codes = avx2._mm256_and_si256(codes, half);
                            let others = avx2._mm256_shuffle_epi8(high, codes);
                            let entries = avx2._mm256_adds_epu8(entries, others);
                            *sum = avx2._mm256_adds_epu8(*sum, entries);
                        }
                    }
                }
            }
            sums
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss
    )]
    use super::*;

    fn filter_of(entries: &[f32], num_codes: usize) -> Filter {
        let mut filter = Filter::default();
        let least = entries.chunks(num_codes).map(|own| {
            std::array::from_fn(|lane| {
                let own = own.iter().skip(lane).step_by(LANES);
                own.copied().fold(f32::INFINITY, f32::min)
            })
        });
        filter.set(&least.collect::<Vec<_>>());
        filter
    }

    fn agree(num_codes: usize, columns: usize, num_rows: usize) {
        let tables = if num_codes == 16 {
            2 * columns
        } else {
            columns
        };
        let entries: Vec<f32> = (0..tables * num_codes)
            .map(|i| ((i * i * 31 + i * 17) % 1009) as f32 / 64.0 - 3.0)
            .collect();
        let codes: Vec<u8> = (0..columns * num_rows)
            .map(|i| (i * i * 7 + i * 13 % 251) as u8)
            .collect();
        let sum_of = |row: usize| -> f64 {
            let of_column = |column: usize| -> f64 {
                let byte = usize::from(codes[column * num_rows + row]);
                let entry =
                    |table: usize, code: usize| f64::from(entries[table * num_codes + code]);
                if num_codes == 16 {
                    entry(2 * column, byte & 15) + entry(2 * column + 1, byte >> 4)
                } else {
                    entry(column, byte)
                }
            };
            (0..columns).map(of_column).sum()
        };
        let mut filter = filter_of(&entries, num_codes);
        for share in [0.9, 0.5, 0.49, 0.2, 0.01, 3.0] {
            let limit = filter.base * (1.0 - share) + share * 8.0 * tables as f64;
            let mut masks = vec![0; num_rows / ROWS];
            if !filter.keep(&codes, num_rows, 0, limit, &mut masks) {
                continue; // on machines without AVX2
            }
            let mut sums = vec![[0; ROWS]; num_rows / ROWS];
            assert!(filter.add_up(&codes, num_rows, 0, limit, &mut sums));
            for (mask, sums) in masks.iter().zip(&sums) {
                for (bit, &sum) in sums.iter().enumerate() {
                    assert_eq!(mask >> bit & 1 == 1, sum < u8::MAX);
                }
            }
            for (block, mask) in masks.iter().enumerate() {
                for bit in 0..ROWS {
                    let sum = sum_of(block * ROWS + bit);
                    assert!(mask >> bit & 1 == 1 || sum > limit);
                    // Entries of 4 bits are not grouped: rounding keeps rows, and entries that
                    // were made for a greater limit.
                    let steps = 255.0 * (1.0 / SHARE - 1.0) + tables as f64 + 1.0;
                    let slack = (limit - filter.base) * steps / 250.0;
                    let is_far = num_codes == 16 && sum > limit + slack;
                    assert!(!(is_far && mask >> bit & 1 == 1));
                }
            }
            if num_codes == 256 {
                let lows = filter.lows.clone();
                let entry = |column: usize, row: usize| {
                    let code = usize::from(codes[column * num_rows + row]);
                    f64::from(entries[column * 256 + code] - lows[column])
                };
                let mut masks = vec![u32::MAX; num_rows / ROWS];
                filter.thin(&entries, &codes, num_rows, 0, limit, 0, &mut masks);
                let gap = limit - filter.base;
                let steps = f64::from(filter.num_fine_steps());
                for (block, mask) in masks.iter().enumerate() {
                    for bit in 0..ROWS {
                        let row = block * ROWS + bit;
                        let is_kept = mask >> bit & 1 == 1;
                        assert!(is_kept || sum_of(row) > limit);
                        // Sums of few columns are cut off at 255 steps.
                        let sums = (0..columns).step_by(COLUMNS).map(|first| {
                            let own = first..columns.min(first + COLUMNS);
                            let sum: f64 = own.map(|column| entry(column, row)).sum();
                            sum.min(250.0 * gap / steps)
                        });
                        let slack = gap * (1.0 / SHARE - 1.0 + (columns + 3) as f64 * 1.2 / steps);
                        let is_far = sums.sum::<f64>() > gap + slack;
                        assert!(!(is_far && is_kept && masks.len() >= DENSE));
                    }
                }
            }
        }
    }

    #[test]
    fn no_row_within_the_limit_is_left_out() {
        for columns in [1, 2, 7, 16, 50] {
            for num_rows in [32, 33, 63, 256, 300, 320] {
                agree(16, columns, num_rows);
                agree(256, columns, num_rows);
            }
        }
    }

    #[test]
    fn what_cannot_be_tested_is_refused() {
        let mut filter = filter_of(&[1.0; 256], 256);
        let mut keep = |rows, first, limit| filter.keep(&[0; 64], rows, first, limit, &mut [0]);
        assert!(!keep(64, 33, 2.0));
        assert!(!keep(64, usize::MAX, 2.0));
        assert!(!keep(0, 0, 2.0));
        for limit in [0.5, 1.0, f64::INFINITY, f64::NAN] {
            assert!(!keep(64, 0, limit));
        }
    }
}
