//! Gathers ranges of a buffer: the bytes of a random access become one contiguous array.
//!
//! Ranges may come in any order, overlap or be empty.

use crate::bitmap::BitmapBuilder;
use crate::error::{Corrupt, Result, part};

/// Joins `sizes[i]` bytes from `starts[i]`, for all `i`.
pub fn gather_bytes(data: &[u8], ranges: &[(usize, usize)]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    out.try_reserve_exact(total(ranges)?)
        .map_err(|e| Corrupt(format!("ranges: {e}")))?;
    for &(start, size) in ranges {
        out.extend_from_slice(part(data, start, size, "range, bytes")?);
    }
    Ok(out)
}

/// Joins `sizes[i]` bits from bit `starts[i]`, for all `i`, least significant bit first.
pub fn gather_bits(data: &[u8], ranges: &[(usize, usize)]) -> Result<Vec<u8>> {
    total(ranges)?;
    let mut out = BitmapBuilder::default();
    for &(start, size) in ranges {
        out.extend_from(data, start, size)?;
    }
    Ok(out.finish())
}

fn total(ranges: &[(usize, usize)]) -> Result<usize> {
    ranges
        .iter()
        .try_fold(0usize, |sum, &(_, size)| sum.checked_add(size))
        .ok_or_else(|| Corrupt("ranges: too many bytes".into()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bytes_and_bits() {
        assert_eq!(
            gather_bytes(&[1, 2, 3, 4], &[(2, 2), (0, 0), (0, 3)]).unwrap(),
            [3, 4, 1, 2, 3]
        );
        assert!(gather_bytes(&[1, 2], &[(1, 2)]).is_err());
        assert!(gather_bytes(&[1, 2], &[(0, usize::MAX), (0, 1)]).is_err());
        assert_eq!(
            gather_bits(&[0b1010_0110, 1], &[(1, 2), (7, 2)]).unwrap(),
            [0b1111]
        );
        assert!(gather_bits(&[0], &[(3, 6)]).is_err());
    }
}
