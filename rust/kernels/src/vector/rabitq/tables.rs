//! Sums of a rotated query over the set bits of sign codes, by tables for four components each.
//!
//!     exact[t][c]    sum of h_{4t + b} over the bits b of c                 t = 0 .. D/4 - 1
//!     small[t][c]    round((exact[t][c] - least of t) / step), 0 .. 255
//!     base + step * sum of small    differs from the exact sum by at most `slack`
//!
//! The tables of both halves of a byte are adjacent, as the stored groups have them.

use super::packing::GROUP;

/// The tables of both halves of a byte.
type Pair = [f32; 32];

/// Tables of one rotated query.
pub struct Tables {
    exact: Vec<Pair>,
    small: Vec<[u8; 32]>,
    base: f32,
    step: f32,
    slack: f32,
}

impl Tables {
    /// Builds the tables of a query whose dimension is a multiple of 8.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn new(query: &[f32]) -> Self {
        let exact: Vec<Pair> = query.as_chunks::<8>().0.iter().map(pair).collect();
        let halves = || exact.iter().flat_map(|pair| pair.as_chunks::<16>().0);
        let width = halves()
            .map(|half| greatest(half) - least(half))
            .fold(0.0_f32, f32::max);
        let step = if width > 0.0 { width / 255.0 } else { 1.0 };
        let (mut base, mut slack) = (0.0, 0.0);
        let mut small = vec![[0; 32]; exact.len()];
        for (half, out) in halves().zip(
            small
                .iter_mut()
                .flat_map(|pair| pair.as_chunks_mut::<16>().0),
        ) {
            let low = least(half);
            let mut most = 0.0_f32;
            for (value, out) in half.iter().zip(out) {
                *out = ((value - low) / step).round() as u8;
                most = most.max((value - low - step * f32::from(*out)).abs());
            }
            base += low;
            slack += most;
        }
        let rounding = 1e-6 * query.iter().map(|value| value.abs()).sum::<f32>();
        Self {
            exact,
            small,
            base,
            step,
            slack: slack + rounding,
        }
    }

    /// The most by which a sum of `sums` differs from the exact one.
    pub fn slack(&self) -> f32 {
        self.slack
    }

    /// Approximate sums of a stored group of 32 rows.
    #[inline(always)]
    pub fn sums(&self, group: &[u8], adder: impl Adder) -> [f32; GROUP] {
        let columns = group.as_chunks::<GROUP>().0;
        let mut out = [0.0; GROUP];
        let mut total = [0u32; GROUP];
        // So many sums of bytes do not exceed 16 bits.
        for (columns, tables) in columns.chunks(128).zip(self.small.chunks(128)) {
            for (total, sum) in total.iter_mut().zip(adder.sums(columns, tables)) {
                *total += u32::from(sum);
            }
        }
        for (out, total) in out.iter_mut().zip(total) {
            #[allow(clippy::cast_precision_loss)]
            let total = total as f32;
            *out = self.base + self.step * total;
        }
        out
    }

    /// The exact sum of a row of a stored group.
    #[inline(always)]
    pub fn sum(&self, group: &[u8], row: usize) -> f32 {
        let (place, shift) = place(row);
        let columns = group.as_chunks::<GROUP>().0;
        let (mut low_sum, mut high_sum) = (0.0, 0.0);
        for (bytes, tables) in columns.iter().zip(&self.exact) {
            let (low, high) = bytes.split_at(16);
            let (low_table, high_table) = tables.split_at(16);
            low_sum += look_up(low_table, low, place, shift);
            high_sum += look_up(high_table, high, place, shift);
        }
        low_sum + high_sum
    }
}

/// Adds up the values of small tables for 32 rows.
pub trait Adder: Copy {
    /// The sums of at most 128 columns; the rows are in order.
    fn sums(self, columns: &[[u8; GROUP]], tables: &[[u8; 32]]) -> [u16; GROUP];
    /// A bit for each row whose number is not above a limit; none for NaN.
    fn not_above(self, numbers: &[f32; GROUP], limit: f32) -> u32;
}

/// Looks up one value after the other.
#[derive(Clone, Copy)]
pub struct Plain;

impl Adder for Plain {
    #[inline(always)]
    fn sums(self, columns: &[[u8; GROUP]], tables: &[[u8; 32]]) -> [u16; GROUP] {
        let mut even = [[0u16; 16]; 2];
        for (bytes, table) in columns.iter().zip(tables) {
            for (bytes, table) in bytes
                .as_chunks::<16>()
                .0
                .iter()
                .zip(table.as_chunks::<16>().0)
            {
                let [low, high] = &mut even;
                for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
                    *low += small(table, byte & 15);
                    *high += small(table, byte >> 4);
                }
            }
        }
        let [low, high] = even;
        in_order(&low, &high)
    }

    #[inline(always)]
    fn not_above(self, numbers: &[f32; GROUP], limit: f32) -> u32 {
        let bits = numbers.iter().enumerate();
        bits.fold(0, |bits, (row, &number)| {
            bits | u32::from(number <= limit) << row
        })
    }
}

fn small(table: &[u8; 16], code: u8) -> u16 {
    table
        .get(usize::from(code))
        .map_or(0, |&value| u16::from(value))
}

/// Sums by stored places of low and high halves, in the order of rows.
fn in_order(low: &[u16; 16], high: &[u16; 16]) -> [u16; GROUP] {
    let mut out = [0; GROUP];
    for (sums, out) in [low, high].into_iter().zip(out.as_chunks_mut::<16>().0) {
        let (first, second) = out.split_at_mut(8);
        for ((two, first), second) in sums.as_chunks::<2>().0.iter().zip(first).zip(second) {
            [*first, *second] = *two;
        }
    }
    out
}

#[cfg(target_arch = "x86_64")]
pub mod wide {
    //! Looks up 32 values at once.
    use std::arch::x86_64::_CMP_LE_OQ;

    use super::{Adder, GROUP};
    use pulp::x86::V3;

    impl Adder for V3 {
        #[inline(always)]
        fn sums(self, columns: &[[u8; GROUP]], tables: &[[u8; 32]]) -> [u16; GROUP] {
            let avx2 = self.avx2;
            let half = self.avx._mm256_set1_epi8(15);
            let byte = self.avx._mm256_set1_epi16(255);
            let zero = self.avx._mm256_setzero_si256();
            // Of low and high halves of bytes, at even and odd places.
            let mut sums = [zero; 4];
            for (&bytes, &table) in columns.iter().zip(tables) {
                let (bytes, table) = (pulp::cast(bytes), pulp::cast(table));
                let low = avx2._mm256_and_si256(bytes, half);
                let high = avx2._mm256_and_si256(avx2._mm256_srli_epi16::<4>(bytes), half);
                let low = avx2._mm256_shuffle_epi8(table, low);
                let high = avx2._mm256_shuffle_epi8(table, high);
                let [a, b, c, d] = sums;
                sums = [
                    avx2._mm256_add_epi16(a, avx2._mm256_and_si256(low, byte)),
                    avx2._mm256_add_epi16(b, avx2._mm256_srli_epi16::<8>(low)),
                    avx2._mm256_add_epi16(c, avx2._mm256_and_si256(high, byte)),
                    avx2._mm256_add_epi16(d, avx2._mm256_srli_epi16::<8>(high)),
                ];
            }
            let mut out = [0; GROUP];
            for (sum, out) in sums.into_iter().zip(out.as_chunks_mut::<8>().0) {
                let lanes: [[u16; 8]; 2] = pulp::cast(sum);
                let [first, second] = lanes;
                for ((out, a), b) in out.iter_mut().zip(first).zip(second) {
                    *out = a + b;
                }
            }
            out
        }

        #[inline(always)]
        fn not_above(self, numbers: &[f32; GROUP], limit: f32) -> u32 {
            let limit = self.avx._mm256_set1_ps(limit);
            let eights = numbers.as_chunks::<8>().0.iter().enumerate();
            eights.fold(0, |bits, (place, &eight)| {
                let is_below = self
                    .avx
                    ._mm256_cmp_ps::<_CMP_LE_OQ>(pulp::cast(eight), limit);
                let eight = self.avx._mm256_movemask_ps(is_below).cast_unsigned();
                bits | eight << (8 * place)
            })
        }
    }
}

/// The place of a row in 16 bytes, and the shift of its half.
fn place(row: usize) -> (usize, u32) {
    let place = 2 * (row % 8) + row % 16 / 8;
    (place, if row < 16 { 0 } else { 4 })
}

#[inline(always)]
fn look_up(table: &[f32], bytes: &[u8], place: usize, shift: u32) -> f32 {
    let code = bytes.get(place).map_or(0, |byte| byte >> shift & 15);
    table.get(usize::from(code)).map_or(0.0, |value| *value)
}

/// The tables of a byte.
fn pair(components: &[f32; 8]) -> Pair {
    let mut out = [0.0; 32];
    for (half, table) in components
        .as_chunks::<4>()
        .0
        .iter()
        .zip(out.as_chunks_mut::<16>().0)
    {
        for (code, value) in table.iter_mut().enumerate() {
            let set = half
                .iter()
                .enumerate()
                .filter(|(bit, _)| code >> bit & 1 == 1);
            *value = set.map(|(_, component)| component).sum();
        }
    }
    out
}

fn least(values: &[f32]) -> f32 {
    values
        .iter()
        .fold(f32::INFINITY, |least, &value| least.min(value))
}

fn greatest(values: &[f32]) -> f32 {
    values
        .iter()
        .fold(f32::NEG_INFINITY, |greatest, &value| greatest.max(value))
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        clippy::cast_precision_loss
    )]
    use super::super::packing;
    use super::*;

    fn agree(dimension: usize, adder: impl Adder) {
        let width = dimension / 8;
        let query: Vec<f32> = (0..dimension)
            .map(|i| ((i * 37 % 101) as f32 - 50.0) / 7.0)
            .collect();
        let rows: Vec<u8> = (0..GROUP * width).map(|i| (i * i % 251) as u8).collect();
        let packed = packing::pack(&rows, width).unwrap();
        let tables = Tables::new(&query);
        let sums = tables.sums(&packed, adder);
        for (row, codes) in rows.chunks(width).enumerate() {
            let expected: f32 = (0..dimension)
                .filter(|i| codes[i / 8] >> (i % 8) & 1 == 1)
                .map(|i| query[i])
                .sum();
            let found = tables.sum(&packed, row);
            assert!((found - expected).abs() < 1e-3 * dimension as f32);
            assert!((sums[row] - expected).abs() <= tables.slack() + 1e-3 * dimension as f32);
        }
    }

    #[test]
    fn sums_are_those_of_set_bits() {
        for dimension in [8, 64, 136, 3072] {
            agree(dimension, Plain);
            #[cfg(target_arch = "x86_64")]
            if let Some(simd) = pulp::x86::V3::try_new() {
                agree(dimension, simd);
            }
        }
    }

    #[test]
    fn numbers_not_above_a_limit_have_bits() {
        let mut numbers: [f32; GROUP] = std::array::from_fn(|row| (row * row % 17) as f32 - 8.0);
        numbers[3] = f32::NAN;
        numbers[9] = f32::INFINITY;
        numbers[31] = f32::NEG_INFINITY;
        for limit in [-8.0, 0.5, 9.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let expected = (0..GROUP).filter(|&row| numbers[row] <= limit);
            let expected = expected.fold(0u32, |bits, row| bits | 1 << row);
            assert_eq!(Plain.not_above(&numbers, limit), expected);
            #[cfg(target_arch = "x86_64")]
            if let Some(simd) = pulp::x86::V3::try_new() {
                assert_eq!(simd.not_above(&numbers, limit), expected);
            }
        }
    }

    #[test]
    fn queries_of_zeros_have_sums_of_zero() {
        let tables = Tables::new(&[0.0; 16]);
        assert_eq!(tables.sums(&[0xff; 64], Plain), [0.0; GROUP]);
    }
}
