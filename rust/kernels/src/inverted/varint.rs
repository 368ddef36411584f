//! Numbers of variable length: seven bits in each byte, the lowest first; the top bit is set in all
//! bytes but the last.

use crate::error::{Corrupt, Result, out_of_range};

/// Appends a number.
pub fn push(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Bytes that a number takes.
pub fn len(value: u32) -> usize {
    (value | 1).ilog2() as usize / 7 + 1
}

/// Reads the number at `*at` and moves `at` past it.
#[inline]
pub fn take(data: &[u8], at: &mut usize) -> Result<u32> {
    let value = take_wide(data, at)?;
    u32::try_from(value).map_err(|_| Corrupt("varint: more than 32 bits".to_string()))
}

/// Reads the number at `*at`, of up to 35 bits, and moves `at` past it.
#[inline]
pub fn take_wide(data: &[u8], at: &mut usize) -> Result<u64> {
    let mut value = 0u64;
    for shift in [0, 7, 14, 21, 28] {
        let byte = *data
            .get(*at)
            .ok_or_else(|| out_of_range("varint, position"))?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Corrupt("varint: more than 5 bytes".to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_return() {
        for value in [0, 1, 127, 128, 16383, 16384, 1 << 28, u32::MAX] {
            let mut out = Vec::new();
            push(&mut out, value);
            assert_eq!(out.len(), len(value));
            let mut at = 0;
            assert_eq!(take(&out, &mut at), Ok(value));
            assert_eq!(at, out.len());
            out.pop();
            assert!(take(&out, &mut 0).is_err());
        }
        assert!(take(&[0xff, 0xff, 0xff, 0xff, 0x10], &mut 0).is_err());
    }
}
