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

use super::LANES;
use super::product::lowest;

/// The rows of a block: one for each bit of a mask.
pub const ROWS: usize = 32;

/// The blocks that are tested together.
pub const BLOCKS: usize = 8;

/// Less than 255, by more than the rounding of products.
pub const STEPS: f64 = 254.99;

/// Small entries serve smaller limits too, down to this share of theirs.
pub const SHARE: f64 = 0.9;

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

    /// By how much a limit exceeds the least sum; None if it does not, or for rows that are not
    /// there.
    pub fn gap_of(
        &self,
        limit: f64,
        num_rows: usize,
        first: usize,
        num_blocks: usize,
    ) -> Option<f64> {
        let gap = limit - self.base;
        let end = first.checked_add(num_blocks * ROWS)?;
        let is_of_use = gap > 0.0 && gap < f64::from(f32::MAX);
        (is_of_use && num_rows > 0 && end <= num_rows).then_some(gap)
    }
}

#[cfg(target_arch = "x86_64")]
pub mod wide {
    //! Looks up the entries of 32 rows at once.
    use std::arch::x86_64::{__m128i, __m256, __m256i};
    use std::slice::ChunksExact;

    use pulp::NullaryFnOnce;
    use pulp::x86::V3;

    use super::{BLOCKS, Filter, LANES, ROWS, SHARE, STEPS};

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
    }

    /// How many steps some values are above a low one, rounded down, and at most 255.
    #[inline(always)]
    pub fn steps(simd: V3, values: &[f32; LANES], low: f32, scale: f32) -> [u8; LANES] {
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
pub mod examples {
    //! Tables of entries, and codes of rows.
    #![allow(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss
    )]
    use super::{Filter, LANES};

    pub struct Example {
        pub entries: Vec<f32>,
        pub codes: Vec<u8>,
        pub num_codes: usize,
        pub num_tables: usize,
        pub columns: usize,
        pub num_rows: usize,
    }

    impl Example {
        pub fn new(num_codes: usize, columns: usize, num_rows: usize) -> Self {
            let num_tables = if num_codes == 16 {
                2 * columns
            } else {
                columns
            };
            Self {
                entries: (0..num_tables * num_codes)
                    .map(|i| ((i * i * 31 + i * 17) % 1009) as f32 / 64.0 - 3.0)
                    .collect(),
                codes: (0..columns * num_rows)
                    .map(|i| (i * i * 7 + i * 13 % 251) as u8)
                    .collect(),
                num_codes,
                num_tables,
                columns,
                num_rows,
            }
        }

        pub fn filter(&self) -> Filter {
            filter_of(&self.entries, self.num_codes)
        }

        /// Limits of a filter, from few rows within them to all.
        pub fn limits(&self, filter: &Filter) -> impl Iterator<Item = f64> + use<> {
            let (base, most) = (filter.base, 8.0 * self.num_tables as f64);
            [0.9, 0.5, 0.49, 0.2, 0.01, 3.0]
                .into_iter()
                .map(move |share| base * (1.0 - share) + share * most)
        }

        pub fn byte(&self, column: usize, row: usize) -> usize {
            usize::from(self.codes[column * self.num_rows + row])
        }

        /// The exact sum of a row.
        pub fn sum(&self, row: usize) -> f64 {
            let entry =
                |table: usize, code: usize| f64::from(self.entries[table * self.num_codes + code]);
            let of_column = |column: usize| {
                let byte = self.byte(column, row);
                if self.num_codes == 16 {
                    entry(2 * column, byte & 15) + entry(2 * column + 1, byte >> 4)
                } else {
                    entry(column, byte)
                }
            };
            (0..self.columns).map(of_column).sum()
        }
    }

    pub fn filter_of(entries: &[f32], num_codes: usize) -> Filter {
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
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_precision_loss)]
    use super::examples::{Example, filter_of};
    use super::*;

    fn agree(example: &Example) {
        let mut filter = example.filter();
        let (codes, num_rows) = (&example.codes, example.num_rows);
        for limit in example.limits(&filter) {
            let mut masks = vec![0; num_rows / ROWS];
            if !filter.keep(codes, num_rows, 0, limit, &mut masks) {
                continue; // on machines without AVX2
            }
            let mut sums = vec![[0; ROWS]; num_rows / ROWS];
            assert!(filter.add_up(codes, num_rows, 0, limit, &mut sums));
            for (mask, sums) in masks.iter().zip(&sums) {
                for (bit, &sum) in sums.iter().enumerate() {
                    assert_eq!(mask >> bit & 1 == 1, sum < u8::MAX);
                }
            }
            for (block, mask) in masks.iter().enumerate() {
                for bit in 0..ROWS {
                    let sum = example.sum(block * ROWS + bit);
                    assert!(mask >> bit & 1 == 1 || sum > limit);
                    // Entries of 4 bits are not grouped: rounding keeps rows, and entries that
                    // were made for a greater limit.
                    let steps = 255.0 * (1.0 / SHARE - 1.0) + example.num_tables as f64 + 1.0;
                    let slack = (limit - filter.base) * steps / 250.0;
                    let is_far = example.num_codes == 16 && sum > limit + slack;
                    assert!(!(is_far && mask >> bit & 1 == 1));
                }
            }
        }
    }

    #[test]
    fn no_row_within_the_limit_is_left_out() {
        for columns in [1, 2, 7, 16, 50] {
            for num_rows in [32, 33, 63, 256, 300, 320] {
                agree(&Example::new(16, columns, num_rows));
                agree(&Example::new(256, columns, num_rows));
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
