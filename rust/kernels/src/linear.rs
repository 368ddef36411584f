//! Values packed back to back, least significant bit first (`bitpacked` of version 2.0).
//!
//!     value i     bits i * width .. (i + 1) * width of the buffer

use crate::error::{Result, ensure, out_of_range, part, rest};

/// Unpacks `count` values from bit `first` on into words of `bits`; signed values are extended.
pub fn unpack(
    data: &[u8],
    first: usize,
    width: usize,
    bits: usize,
    signed: bool,
    count: usize,
) -> Result<Vec<u8>> {
    ensure(
        matches!(bits, 8 | 16 | 32 | 64) && (1..=bits).contains(&width),
        "bit-packed width, bits",
        width,
        format_args!("1 to {bits} of 8, 16, 32 or 64"),
    )?;
    let end = count.saturating_mul(width).saturating_add(first);
    part(data, 0, end.div_ceil(8), "bit-packed values, bytes")?;
    let mut out = Vec::with_capacity(count * (bits / 8));
    for index in 0..count {
        let value = word_at(data, first + index * width, width)?;
        let value = if signed { extend(value, width) } else { value };
        let bytes = value.to_le_bytes();
        out.extend_from_slice(part(&bytes, 0, bits / 8, "word")?);
    }
    Ok(out)
}

/// The `width` (at most 64) bits from bit `start`.
fn word_at(data: &[u8], start: usize, width: usize) -> Result<u64> {
    let bytes = rest(data, start / 8, "bit-packed values, bytes")?;
    let word = bytes
        .iter()
        .take(9)
        .rev()
        .fold(0u128, |word, byte| word << 8 | u128::from(*byte));
    let mask = (1u128 << width) - 1;
    u64::try_from(word >> (start % 8) & mask).map_err(|_| out_of_range("bit-packed value"))
}

/// Extends the sign: copies the topmost packed bit into all bits above it.
fn extend(value: u64, width: usize) -> u64 {
    if width >= 64 || value >> (width - 1) & 1 == 0 {
        value
    } else {
        value | u64::MAX << width
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn three_bits() {
        // 1 2 3 4 5
        let packed = [0b1101_0001, 0b0101_1000];
        assert_eq!(unpack(&packed, 0, 3, 8, false, 5).unwrap(), [1, 2, 3, 4, 5]);
        assert_eq!(unpack(&packed, 6, 3, 8, false, 2).unwrap(), [3, 4]);
        assert_eq!(
            unpack(&packed, 9, 3, 16, true, 2).unwrap(),
            [252, 255, 253, 255]
        );
        assert!(unpack(&packed, 0, 3, 8, false, 6).is_err());
        assert!(unpack(&packed, 0, 9, 8, false, 1).is_err());
        assert!(unpack(&packed, 0, 64, 64, true, usize::MAX).is_err());
    }

    #[test]
    fn whole_words() {
        let words = [u64::MAX, 1].map(u64::to_le_bytes).concat();
        assert_eq!(unpack(&words, 0, 64, 64, true, 2).unwrap(), words);
        assert_eq!(unpack(&words, 4, 64, 64, false, 1).unwrap()[7], 0x1f);
    }
}
