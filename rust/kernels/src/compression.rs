//! General-purpose compression of one buffer, with its raw size in front.
//!
//!     LZ4    u32 raw size, then one block (no frame)
//!     ZSTD   u64 raw size, then one frame; old files hold a bare frame
//!
//! A raw size is a claim of the file: more than `LIMIT` bytes are refused.

use crate::error::{Corrupt, Result, ensure, part, size, u32_at, u64_at};

/// The most that one buffer may decompress to, bytes.
pub const LIMIT: usize = 1 << 31;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Lz4,
    Zstd,
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The raw bytes of one compressed buffer.
pub fn decompress(scheme: Scheme, data: &[u8]) -> Result<Vec<u8>> {
    match scheme {
        Scheme::Lz4 => lz4(data),
        Scheme::Zstd if is_bare_frame(data) => zstd_frame(data, LIMIT),
        Scheme::Zstd => {
            let raw = size(u64_at(data, 0, "zstd raw size")?, "zstd raw size")?;
            ensure(
                raw <= LIMIT,
                "zstd raw size, bytes",
                raw,
                format_args!("at most {LIMIT}"),
            )?;
            let frame = part(data, 8, data.len() - 8, "zstd frame")?;
            let made = zstd_frame(frame, raw)?;
            ensure(made.len() == raw, "zstd raw size, bytes", made.len(), raw)?;
            Ok(made)
        }
    }
}

/// Compresses one buffer as a zstd frame behind its raw size.
pub fn compress_zstd(data: &[u8], level: i32, out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(&(data.len() as u64).to_le_bytes());
    let frame = zstd::bulk::compress(data, level).map_err(|e| Corrupt(format!("zstd: {e}")))?;
    out.extend_from_slice(&frame);
    Ok(())
}

fn is_bare_frame(data: &[u8]) -> bool {
    data.starts_with(&ZSTD_MAGIC) && data.get(4).is_some_and(|b| b & 0x10 == 0)
}

fn zstd_frame(frame: &[u8], limit: usize) -> Result<Vec<u8>> {
    let bound = zstd::bulk::Decompressor::upper_bound(frame)
        .unwrap_or(limit)
        .min(limit);
    let mut out = Vec::new();
    // What a file claims may be more than this machine has; that must not end the process.
    out.try_reserve_exact(bound)
        .map_err(|e| Corrupt(format!("zstd frame of {bound} bytes: {e}")))?;
    zstd::bulk::Decompressor::new()
        .and_then(|mut frames| frames.decompress_to_buffer(frame, &mut out))
        .map_err(|e| Corrupt(format!("zstd frame: {e}")))?;
    Ok(out)
}

fn lz4(data: &[u8]) -> Result<Vec<u8>> {
    let raw = size(u32_at(data, 0, "lz4 raw size")?, "lz4 raw size")?;
    let block = part(data, 4, data.len() - 4, "lz4 block")?;
    let most = block.len().saturating_mul(255).min(LIMIT);
    ensure(
        raw <= most,
        "lz4 raw size, bytes",
        raw,
        format_args!("at most {most}"),
    )?;
    let made =
        lz4_flex::block::decompress(block, raw).map_err(|e| Corrupt(format!("lz4 block: {e}")))?;
    ensure(made.len() == raw, "lz4 raw size, bytes", made.len(), raw)?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn zstd_round_trip_with_and_without_size() {
        let raw: Vec<u8> = (0..5000u32).flat_map(|i| (i % 7).to_le_bytes()).collect();
        let mut packed = Vec::new();
        compress_zstd(&raw, 3, &mut packed).unwrap();
        assert_eq!(decompress(Scheme::Zstd, &packed).unwrap(), raw);
        for cut in 0..packed.len() {
            assert!(decompress(Scheme::Zstd, &packed[..cut]).is_err());
        }
    }

    #[test]
    fn lz4_claims_are_checked() {
        let raw = vec![7u8; 1000];
        let mut packed = 1000u32.to_le_bytes().to_vec();
        packed.extend(lz4_flex::block::compress(&raw));
        assert_eq!(decompress(Scheme::Lz4, &packed).unwrap(), raw);
        packed[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(decompress(Scheme::Lz4, &packed).is_err());
    }
}
