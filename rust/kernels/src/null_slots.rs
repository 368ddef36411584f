//! Values of a fixed width with zeros in the slots of nulls, so that these compress well.

use crate::bitmap::word_at;
use crate::error::{Corrupt, Result, ensure};

/// Keeps an item, or makes it zero; branch-free, as branches on random nulls are unpredictable.
macro_rules! masked {
    ($word:ty) => {
        #[inline(always)]
        |item, is_valid| {
            let mask = <$word>::from(is_valid).wrapping_neg();
            (<$word>::from_le_bytes(item) & mask).to_le_bytes()
        }
    };
}

/// Copies values of `width` bytes, with zeros where the bitmap has no bit.
///
/// `validity` is a bitmap and its first bit; it has a bit for each value.
pub fn zero_nulls(data: &[u8], width: usize, validity: (&[u8], usize)) -> Result<Vec<u8>> {
    match width {
        1 => copied(data, validity, masked!(u8)),
        2 => copied(data, validity, masked!(u16)),
        4 => copied(data, validity, masked!(u32)),
        8 => copied(data, validity, masked!(u64)),
        16 => copied(data, validity, masked!(u128)),
        _ => any_width(data, width, validity),
    }
}

fn copied<const N: usize>(
    data: &[u8],
    validity: (&[u8], usize),
    masked: impl Fn([u8; N], bool) -> [u8; N],
) -> Result<Vec<u8>> {
    let (items, rest) = data.as_chunks::<N>();
    require(rest.len(), N, items.len(), validity)?;
    let (bitmap, first) = validity;
    let mut copied = Vec::with_capacity(items.len());
    for (number, block) in items.chunks(64).enumerate() {
        let valid = word_at(bitmap, first + 64 * number);
        let block = (0u32..).zip(block);
        copied.extend(block.map(|(place, item)| masked(*item, valid >> place & 1 == 1)));
    }
    Ok(copied.into_flattened())
}

fn any_width(data: &[u8], width: usize, validity: (&[u8], usize)) -> Result<Vec<u8>> {
    let items = data.chunks_exact(width.max(1));
    require(items.remainder().len(), width, items.len(), validity)?;
    let mut copied = data.to_vec();
    let (bitmap, first) = validity;
    for (place, item) in copied.chunks_exact_mut(width.max(1)).enumerate() {
        if word_at(bitmap, first + place) & 1 == 0 {
            item.fill(0);
        }
    }
    Ok(copied)
}

fn require(rest: usize, width: usize, count: usize, (bitmap, first): (&[u8], usize)) -> Result<()> {
    if rest != 0 || width == 0 {
        return Err(Corrupt(format!("values of {width} bytes, and {rest} more")));
    }
    let bits = bitmap.len().saturating_mul(8).saturating_sub(first);
    ensure(
        bits >= count,
        "bits of validity",
        bits,
        format_args!("at least {count}"),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nulls_become_zeros() {
        for width in [1, 2, 3, 4, 8, 16, 20, 32] {
            let data = vec![7; 150 * width];
            let bitmap: Vec<u8> = (0..20u8).map(|byte| byte.wrapping_mul(37)).collect();
            let found = zero_nulls(&data, width, (&bitmap, 3)).unwrap();
            for (place, item) in found.chunks(width).enumerate() {
                let expected = if crate::bitmap::bit(&bitmap, place + 3) {
                    7
                } else {
                    0
                };
                assert_eq!(item, vec![expected; width]);
            }
            assert!(zero_nulls(&data, width, (&bitmap, 11)).is_err());
        }
        assert!(zero_nulls(&[1, 2, 3], 2, (&[255], 0)).is_err());
        assert!(zero_nulls(&[1], 0, (&[255], 0)).is_err());
    }
}
