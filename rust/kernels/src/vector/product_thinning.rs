//! A finer test of rows of product codes that the small tables of `product_filter` keep.
//!
//! Where many rows are kept, as of vectors without clusters, they are tested by the entries of all
//! 256 codes, which are 16 tables for each sub-vector. As each entry loses half a step, their steps
//! are finer: 85 for each 8 columns. The sum of 8 columns has 8 bits, which may cut it off, and the
//! sum of these has 16. A row is left out if it is the number of all steps or more.

use super::product_filter::Filter;

/// So many columns have a sum of entries of 8 bits.
const COLUMNS: usize = 8;

/// So many steps of a gap fall upon `COLUMNS` columns.
const STEPS_OF_COLUMNS: u16 = 85;

/// So many blocks of which many rows are kept are worth these entries.
const DENSE: usize = 3;

/// The entries of a query.
#[derive(Default)]
pub struct Thinner {
    /// For each sub-vector, those of all codes, if they have 8 bits.
    entries: Vec<[u8; 256]>,
    /// The limit of the entries, minus the least sum; 0 if there are none.
    gap: f64,
}

impl Thinner {
    /// Forgets the entries, after the filter was set.
    pub fn clear(&mut self) {
        self.gap = 0.0;
    }

    /// Clears the bits of further rows that cannot be within a limit, in blocks with more than `few`.
    ///
    /// Given the filter that set the bits by [`Filter::keep`], and the entries of all codes of 8
    /// bits.
    #[allow(clippy::too_many_arguments)]
    pub fn thin(
        &mut self,
        filter: &Filter,
        entries: &[f32],
        codes: &[u8],
        num_rows: usize,
        first: usize,
        limit: f64,
        few: u32,
        masks: &mut [u32],
    ) {
        let num_dense = masks.iter().filter(|mask| mask.count_ones() > few).count();
        let Some(gap) = filter.gap_of(limit, num_rows, first, masks.len()) else {
            return;
        };
        if num_dense == 0 || num_dense < DENSE && self.gap == 0.0 {
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = pulp::x86::V3::try_new() {
            simd.vectorize(wide::Thin {
                simd,
                thinner: self,
                lows: filter.lows(),
                lines: entries.as_chunks().0,
                columns: codes.chunks_exact(num_rows),
                first,
                gap,
                few,
                masks,
            });
        }
    }
}

/// How many steps are a gap.
#[allow(clippy::cast_possible_truncation)] // at most 255
fn num_steps(num_columns: usize) -> u16 {
    let num_sums = num_columns.div_ceil(COLUMNS).min(255) as u16;
    (num_sums * STEPS_OF_COLUMNS).max(255)
}

#[cfg(target_arch = "x86_64")]
mod wide {
    //! Looks up the entries of 32 rows at once.
    use std::arch::x86_64::__m256i;
    use std::slice::ChunksExact;

    use pulp::NullaryFnOnce;
    use pulp::x86::V3;

    use super::super::LANES;
    use super::super::product_filter::wide::steps;
    use super::super::product_filter::{BLOCKS, ROWS, SHARE, STEPS};
    use super::{COLUMNS, Thinner, num_steps};

    impl Thinner {
        /// Makes entries that serve a limit.
        #[inline(always)]
        #[allow(clippy::cast_possible_truncation)]
        fn set(&mut self, simd: V3, lines: &[[f32; 256]], lows: &[f32], gap: f64) {
            if self.gap >= gap && self.gap * SHARE <= gap {
                return;
            }
            self.gap = gap;
            self.entries.resize(lows.len(), [0; 256]);
            let scale = (STEPS / 255.0 * f64::from(num_steps(lows.len())) / gap) as f32;
            for ((entries, line), &low) in self.entries.iter_mut().zip(lines).zip(lows) {
                let (out, _) = entries.as_chunks_mut::<LANES>();
                for (out, values) in out.iter_mut().zip(line.as_chunks::<LANES>().0) {
                    *out = steps(simd, values, low, scale);
                }
            }
        }
    }

    /// Clears bits of blocks of rows; see `Thinner::thin`.
    pub struct Thin<'a> {
        pub simd: V3,
        pub thinner: &'a mut Thinner,
        pub lows: &'a [f32],
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
            self.thinner.set(self.simd, self.lines, self.lows, self.gap);
            let (avx, avx2) = (self.simd.avx, self.simd.avx2);
            let zero = avx._mm256_setzero_si256();
            let limit = num_steps(self.lows.len()).cast_signed();
            let limit = avx._mm256_set1_epi16(limit);
            for (masks, start) in self
                .masks
                .chunks_mut(BLOCKS)
                .zip((self.first..).step_by(BLOCKS * ROWS))
            {
                let mut sums = [[zero; 2]; BLOCKS];
                let mut columns = self.columns.clone();
                for tables in self.thinner.entries.chunks(COLUMNS) {
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
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, clippy::cast_precision_loss)]
    use super::super::product_filter::examples::Example;
    use super::super::product_filter::{ROWS, SHARE};
    use super::*;

    fn agree(example: &Example) {
        let mut filter = example.filter();
        let mut thinner = Thinner::default();
        let (codes, num_rows, columns) = (&example.codes, example.num_rows, example.columns);
        let (lows, base) = (filter.lows().to_vec(), filter.lows().iter().copied());
        let base: f64 = base.map(f64::from).sum();
        let steps = f64::from(num_steps(columns));
        let entry = |column: usize, row: usize| {
            let own = 256 * column + example.byte(column, row);
            f64::from(example.entries[own] - lows[column])
        };
        for limit in example.limits(&filter) {
            if !filter.keep(codes, num_rows, 0, limit, &mut vec![0; num_rows / ROWS]) {
                continue; // on machines without AVX2
            }
            let mut masks = vec![u32::MAX; num_rows / ROWS];
            let entries = &example.entries;
            thinner.thin(&filter, entries, codes, num_rows, 0, limit, 0, &mut masks);
            let gap = limit - base;
            for (block, mask) in masks.iter().enumerate() {
                for bit in 0..ROWS {
                    let row = block * ROWS + bit;
                    let is_kept = mask >> bit & 1 == 1;
                    assert!(is_kept || example.sum(row) > limit);
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

    #[test]
    fn no_row_within_the_limit_is_left_out() {
        for columns in [1, 2, 7, 16, 50] {
            for num_rows in [32, 33, 63, 256, 300, 320] {
                agree(&Example::new(256, columns, num_rows));
            }
        }
    }
}
