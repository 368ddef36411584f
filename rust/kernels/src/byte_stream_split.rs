//! Byte-stream split: the bytes of values regrouped by their position.
//!
//!     a0 a1 a2 a3  b0 b1 b2 b3  …    ->    a0 b0 …  a1 b1 …  a2 b2 …  a3 b3 …

use crate::error::{Result, ensure, grow};

/// Splits values of `width` bytes into streams, one after the other.
pub fn split(data: &[u8], width: usize) -> Vec<u8> {
    (0..width)
        .flat_map(|position| data.iter().skip(position).step_by(width).copied())
        .collect()
}

/// Appends the `count` values of `width` bytes that `split` took apart.
pub fn join(data: &[u8], width: usize, count: usize, out: &mut Vec<u8>) -> Result<()> {
    let bytes = count.saturating_mul(width);
    ensure(
        data.len() == bytes,
        "byte-stream-split values, bytes",
        data.len(),
        bytes,
    )?;
    let fresh = grow(out, bytes);
    for (position, stream) in data.chunks_exact(count.max(1)).enumerate() {
        for (slot, byte) in fresh.iter_mut().skip(position).step_by(width).zip(stream) {
            *slot = *byte;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn streams_go_by_position() {
        let split = split(&[1, 2, 3, 4, 5, 6], 2);
        assert_eq!(split, [1, 3, 5, 2, 4, 6]);
        let mut values = Vec::new();
        join(&split, 2, 3, &mut values).unwrap();
        assert_eq!(values, [1, 2, 3, 4, 5, 6]);
        assert!(join(&split, 2, 4, &mut values).is_err());
    }
}
