//! Sizes of fixed-width values in each encoding, which the writer compares.

use pulp::{Arch, Simd, WithSimd};

use crate::bitpacking::{self, GROUP, packed_bytes};
use crate::error::{Corrupt, Result};

/// Bytes that each encoding needs for one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedCosts {
    pub rle_bytes: usize,
    pub inline_bitpacking_bytes: usize,
}

/// Most values of one run-length encoded chunk.
pub const RLE_CHUNK: usize = 4096;

/// Costs of a page of values of 8, 16, 32 or 64 bits.
pub fn fixed_costs(data: &[u8], bits: usize) -> Result<FixedCosts> {
    match bits {
        8 => Ok(costs::<1>(data, bitpacking::words8::width_of)),
        16 => Ok(costs::<2>(data, bitpacking::words16::width_of)),
        32 => Ok(costs::<4>(data, bitpacking::words32::width_of)),
        64 => Ok(costs::<8>(data, bitpacking::words64::width_of)),
        _ => Err(Corrupt(format!("statistics of values of {bits} bits"))),
    }
}

/// Costs of run-length encoding and of bit-packing for columns of `column_bytes`, one after the
/// other.
pub fn fixed_costs_each(
    data: &[u8],
    bits: usize,
    column_bytes: usize,
) -> Result<(Vec<i64>, Vec<i64>)> {
    if column_bytes == 0 || !data.len().is_multiple_of(column_bytes) {
        let found = data.len();
        return Err(Corrupt(format!(
            "{found} bytes of columns of {column_bytes}"
        )));
    }
    let (mut runs, mut packed) = (Vec::new(), Vec::new());
    for column in data.chunks_exact(column_bytes) {
        let costs = fixed_costs(column, bits)?;
        for (found, bytes) in [
            (&mut runs, costs.rle_bytes),
            (&mut packed, costs.inline_bitpacking_bytes),
        ] {
            found.push(i64::try_from(bytes).map_err(|_| Corrupt(format!("{bytes} bytes")))?);
        }
    }
    Ok((runs, packed))
}

/// Number of runs of equal values of 8, 16, 32 or 64 bits.
pub fn count_runs(data: &[u8], bits: usize) -> Result<usize> {
    match bits {
        8 => Ok(changes(data.as_chunks::<1>().0)),
        16 => Ok(changes(data.as_chunks::<2>().0)),
        32 => Ok(changes(data.as_chunks::<4>().0)),
        64 => Ok(changes(data.as_chunks::<8>().0)),
        _ => Err(Corrupt(format!("runs of values of {bits} bits"))),
    }
    .map(|changes| changes + usize::from(!data.is_empty()))
}

/// Pairs whose differences a byte can count.
const COUNTED: usize = 128;

#[inline(always)]
fn changes<const N: usize>(values: &[[u8; N]]) -> usize {
    let [_, following @ ..] = values else {
        return 0;
    };
    // Counters as narrow as the values: more of them fit into a register.
    if N == 1 {
        let blocks = values.chunks(COUNTED).zip(following.chunks(COUNTED));
        return blocks
            .map(|(values, following)| {
                let pairs = values.iter().zip(following);
                usize::from(pairs.map(|(a, b)| u8::from(a != b)).sum::<u8>())
            })
            .sum();
    }
    values.iter().zip(following).filter(|(a, b)| a != b).count()
}

fn costs<const N: usize>(data: &[u8], width_of: impl Fn(&[[u8; N]]) -> usize) -> FixedCosts {
    let (values, _) = data.as_chunks::<N>();
    Arch::new().dispatch(Costs { values, width_of })
}

struct Costs<'a, const N: usize, F> {
    values: &'a [[u8; N]],
    width_of: F,
}

impl<const N: usize, F: Fn(&[[u8; N]]) -> usize> WithSimd for Costs<'_, N, F> {
    type Output = FixedCosts;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> FixedCosts {
        // Two passes: alternating between both sums waits for memory at each chunk.
        let (mut rle_bytes, mut inline_bitpacking_bytes) = (0, 0);
        for chunk in self.values.chunks(RLE_CHUNK) {
            rle_bytes += runs(chunk) * (N + 1);
        }
        for group in self.values.chunks(GROUP) {
            inline_bitpacking_bytes += N + packed_bytes((self.width_of)(group));
        }
        FixedCosts {
            rle_bytes,
            inline_bitpacking_bytes,
        }
    }
}

/// Number of runs of at most 255 equal values.
#[inline(always)]
fn runs<const N: usize>(values: &[[u8; N]]) -> usize {
    let changes = changes(values);
    if changes * 16 > values.len() {
        return changes + 1;
    }
    values
        .chunk_by(|a, b| a == b)
        .map(|run| run.len().div_ceil(255))
        .sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn runs_go_on_across_chunks() {
        let mut values = 7u16.to_le_bytes().repeat(5000);
        assert_eq!(count_runs(&values, 16).unwrap(), 1);
        values.extend([1, 0, 7, 0]);
        assert_eq!(count_runs(&values, 16).unwrap(), 3);
        assert_eq!(count_runs(&[], 16).unwrap(), 0);
    }

    #[test]
    fn constant_and_counting_values() {
        let constant = 7u32.to_le_bytes().repeat(5000);
        let made = fixed_costs(&constant, 32).unwrap();
        assert_eq!(made.rle_bytes, (17 + 4) * 5);
        assert_eq!(made.inline_bitpacking_bytes, 5 * (4 + 128 * 3));
        let counting: Vec<u8> = (0..1024u32).flat_map(u32::to_le_bytes).collect();
        let made = fixed_costs(&counting, 32).unwrap();
        assert_eq!(made.rle_bytes, 1024 * 5);
        assert_eq!(made.inline_bitpacking_bytes, 4 + 1280);
    }
}
