//! Bit-packed values as words of fewer bits, if they fit.

use crate::bitpacking::{words16, words32, words64};
use crate::error::{Corrupt, Result, ensure};

/// Appends the values of one group as words of fewer bits, which hold `width` bits.
#[allow(clippy::cast_possible_truncation)] // the other bits are zero
pub fn append(
    packed: &[u8],
    bits: usize,
    width: usize,
    narrow_bits: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    ensure(
        width <= narrow_bits,
        "bit-packed width, bits",
        width,
        format_args!("at most {narrow_bits}"),
    )?;
    macro_rules! append {
        ($words:ident, $narrow:ty) => {
            $words::append_as(packed, width, out, |word| (word as $narrow).to_le_bytes())
        };
    }
    match (bits, narrow_bits) {
        (16, 8) => append!(words16, u8),
        (32, 8) => append!(words32, u8),
        (32, 16) => append!(words32, u16),
        (64, 8) => append!(words64, u8),
        (64, 16) => append!(words64, u16),
        (64, 32) => append!(words64, u32),
        _ => Err(Corrupt(format!(
            "bit-packed words of {bits} bits, as words of {narrow_bits}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )]
    use super::*;
    use crate::bitpacking::{GROUP, packed_bytes};

    #[test]
    fn narrow_words_have_the_same_values() {
        let values: Vec<u64> = (0..GROUP as u64).map(|n| n.wrapping_mul(n) >> 3).collect();
        for (bits, narrow) in [(16, 8), (32, 8), (32, 16), (64, 8), (64, 16), (64, 32)] {
            for width in [0, 1, 3, narrow - 1, narrow] {
                let low = |value: &u64| value & ((1u64 << width) - 1);
                let mut packed = Vec::new();
                match bits {
                    16 => {
                        let values: Vec<_> = values
                            .iter()
                            .map(|v| (low(v) as u16).to_le_bytes())
                            .collect();
                        words16::pack(values.as_slice().try_into().unwrap(), width, &mut packed)
                    }
                    32 => {
                        let values: Vec<_> = values
                            .iter()
                            .map(|v| (low(v) as u32).to_le_bytes())
                            .collect();
                        words32::pack(values.as_slice().try_into().unwrap(), width, &mut packed)
                    }
                    _ => {
                        let values: Vec<_> = values.iter().map(|v| low(v).to_le_bytes()).collect();
                        words64::pack(values.as_slice().try_into().unwrap(), width, &mut packed)
                    }
                }
                .unwrap();
                let mut out = vec![7];
                append(&packed, bits, width, narrow, &mut out).unwrap();
                let expected = values.iter().flat_map(|value| {
                    let bytes = low(value).to_le_bytes();
                    bytes.into_iter().take(narrow / 8)
                });
                assert!(
                    out.iter().copied().skip(1).eq(expected),
                    "{bits}, {narrow}, {width}"
                );
            }
        }
        let packed = vec![0; packed_bytes(9)];
        assert!(append(&packed, 32, 9, 8, &mut Vec::new()).is_err());
        assert!(append(&packed, 32, 9, 32, &mut Vec::new()).is_err());
    }
}
