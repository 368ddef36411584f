//! Split-block Bloom filters, as Parquet defines them: blocks of 32 bytes, eight bits per value.

use xxhash_rust::xxh64::xxh64;

use crate::error::{Corrupt, Result, ensure, part};
use crate::offsets::OffsetsIn;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 32;

const SALTS: [u32; 8] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// The hash of each value of `width` bytes.
pub fn hash_fixed(data: &[u8], width: usize) -> Result<Vec<u64>> {
    ensure(width > 0, "width of values", width, "at least 1")?;
    let values = data.chunks_exact(width);
    ensure(
        values.remainder().is_empty(),
        "bytes of values",
        data.len(),
        "a multiple of the width",
    )?;
    Ok(values.map(|value| xxh64(value, 0)).collect())
}

/// The hash of each string.
pub fn hash_strings(offsets: OffsetsIn<'_>, data: &[u8]) -> Result<Vec<u64>> {
    (0..offsets.count())
        .map(|row| Ok(xxh64(offsets.value(data, row, "string")?, 0)))
        .collect()
}

/// One filter of `size` bytes for each range of hashes; `bounds` are their ends, with a first 0.
pub fn build(hashes: &[u64], bounds: &[usize], size: usize) -> Result<Vec<u8>> {
    ensure(
        size > 0 && size.is_multiple_of(BLOCK_BYTES),
        "bytes of a filter",
        size,
        "a multiple of 32",
    )?;
    let mut filters = vec![0; size.saturating_mul(bounds.len().saturating_sub(1))];
    for (filter, ends) in filters.chunks_exact_mut(size).zip(bounds.windows(2)) {
        let &[start, stop] = ends else { continue };
        let length = stop
            .checked_sub(start)
            .ok_or_else(|| Corrupt(format!("hashes from {start} to {stop}")))?;
        for &hash in part(hashes, start, length, "hash")? {
            let (block, bits) = place(hash, size / BLOCK_BYTES)?;
            let words = filter.chunks_exact_mut(4).skip(8 * block).take(8);
            for (word, bit) in words.zip(bits) {
                for (byte, mask) in word.iter_mut().zip(bit.to_le_bytes()) {
                    *byte |= mask;
                }
            }
        }
    }
    Ok(filters)
}

/// Whether each filter may contain one of the hashes; `bounds` are the ends of filters in bytes.
pub fn may_contain(filters: &[u8], bounds: &[usize], hashes: &[u64]) -> Result<Vec<bool>> {
    bounds
        .windows(2)
        .map(|ends| {
            let &[start, stop] = ends else {
                return Ok(false);
            };
            let size = stop
                .checked_sub(start)
                .filter(|size| *size > 0 && size.is_multiple_of(BLOCK_BYTES))
                .ok_or_else(|| Corrupt(format!("a filter from {start} to {stop}")))?;
            let filter = part(filters, start, size, "filter")?;
            for &hash in hashes {
                if contains(filter, hash)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
        .collect()
}

fn contains(filter: &[u8], hash: u64) -> Result<bool> {
    let (block, bits) = place(hash, filter.len() / BLOCK_BYTES)?;
    let words = part(filter, block * BLOCK_BYTES, BLOCK_BYTES, "block")?.chunks_exact(4);
    Ok(words.zip(bits).all(|(word, bit)| {
        word.iter()
            .zip(bit.to_le_bytes())
            .all(|(byte, mask)| byte & mask == mask)
    }))
}

/// The block of a hash, and its bit in each of the eight words of the block.
fn place(hash: u64, blocks: usize) -> Result<(usize, [u32; 8])> {
    let blocks = u64::try_from(blocks).map_err(|_| Corrupt("too many blocks".to_owned()))?;
    let block = (u128::from(hash >> 32) * u128::from(blocks)) >> 32;
    let block = usize::try_from(block).map_err(|_| Corrupt("too many blocks".to_owned()))?;
    let low = u32::try_from(hash & u64::from(u32::MAX))
        .map_err(|_| Corrupt("a hash of more than 64 bits".to_owned()))?;
    Ok((block, SALTS.map(|salt| 1 << (low.wrapping_mul(salt) >> 27))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_and_most_others_are_not() {
        let data: Vec<u8> = (0..1000_u32).flat_map(u32::to_le_bytes).collect();
        let hashes = hash_fixed(&data, 4).unwrap_or_default();
        let filters = build(&hashes, &[0, 500, 500, 1000], 1024).unwrap_or_default();
        assert_eq!(filters.len(), 3 * 1024);
        let bounds = [0, 1024, 2048, 3072];
        for (place, hash) in hashes.iter().enumerate() {
            let found = may_contain(&filters, &bounds, &[*hash]).unwrap_or_default();
            let own = if place < 500 {
                found.first()
            } else {
                found.last()
            };
            assert_eq!(own, Some(&true));
            assert_eq!(found.get(1), Some(&false));
        }
    }

    #[test]
    fn impossible_lengths() {
        assert!(hash_fixed(&[0; 7], 4).is_err());
        assert!(build(&[1], &[0, 2], 32).is_err());
        assert!(build(&[1], &[0, 1], 33).is_err());
        assert!(may_contain(&[0; 32], &[0, 64], &[1]).is_err());
        assert!(may_contain(&[0; 32], &[0, 0], &[1]).is_err());
    }
}
