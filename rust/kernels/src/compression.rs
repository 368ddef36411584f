//! General-purpose compression of one buffer, with its raw size in front.
//!
//!     LZ4    u32 raw size, then one block (no frame)
//!     ZSTD   u64 raw size, then one frame; old files hold a bare frame
//! A raw size is untrusted: more than `LIMIT` bytes are rejected.

use std::cell::RefCell;

use lz4_flex::block::{self, CompressTable};
use zstd::bulk::Decompressor;

use crate::error::{Corrupt, Result, ensure, grow, part, size, u32_at, u64_at};

/// The most that one buffer may decompress to, bytes.
pub const LIMIT: usize = 1 << 31;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Lz4,
    Zstd,
}

thread_local! {
    // Chunks have some kilobytes each; allocating the tables of a decompressor takes longer than
    // filling them.
    static FRAMES: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
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

/// Compresses many buffers in sequence with shared working memory.
pub enum Compressor {
    Lz4(CompressTable),
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    /// `level` is for zstd; 0 is its default.
    pub fn new(scheme: Scheme, level: i32) -> Result<Self> {
        match scheme {
            Scheme::Lz4 => Ok(Self::Lz4(CompressTable::small())),
            Scheme::Zstd => zstd::bulk::Compressor::new(level)
                .map(Self::Zstd)
                .map_err(|e| Corrupt(format!("zstd of level {level}: {e}"))),
        }
    }

    /// Appends the raw size of one buffer, then the compressed buffer.
    pub fn append(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len() + self.head_bytes();
        let size = match self {
            Self::Lz4(table) => {
                let raw = u32::try_from(data.len())
                    .map_err(|_| Corrupt(format!("lz4 of {} bytes", data.len())))?;
                out.extend_from_slice(&raw.to_le_bytes());
                let room = grow(out, block::get_maximum_output_size(data.len()));
                block::compress_into_with_table(data, room, table)
                    .map_err(|e| Corrupt(format!("lz4: {e}")))?
            }
            Self::Zstd(frames) => {
                out.extend_from_slice(&(data.len() as u64).to_le_bytes());
                let room = grow(out, zstd::compress_bound(data.len()));
                frames
                    .compress_to_buffer(data, room)
                    .map_err(|e| Corrupt(format!("zstd: {e}")))?
            }
        };
        out.truncate(start + size);
        Ok(())
    }

    fn head_bytes(&self) -> usize {
        match self {
            Self::Lz4(_) => 4,
            Self::Zstd(_) => 8,
        }
    }
}

fn is_bare_frame(data: &[u8]) -> bool {
    data.starts_with(&ZSTD_MAGIC) && data.get(4).is_some_and(|b| b & 0x10 == 0)
}

fn zstd_frame(frame: &[u8], limit: usize) -> Result<Vec<u8>> {
    let bound = Decompressor::upper_bound(frame).map_or(limit, |bound| bound.min(limit));
    let mut out = Vec::new();
    // A claimed size may exceed the memory of the machine; that must not end the process.
    out.try_reserve_exact(bound)
        .map_err(|e| Corrupt(format!("zstd frame of {bound} bytes: {e}")))?;
    FRAMES.with_borrow_mut(|kept| {
        let mut frames = match kept.take() {
            Some(frames) => frames,
            None => Decompressor::new().map_err(|e| Corrupt(format!("zstd: {e}")))?,
        };
        let done = frames.decompress_to_buffer(frame, &mut out);
        *kept = Some(frames);
        done.map_err(|e| Corrupt(format!("zstd frame: {e}")))
    })?;
    Ok(out)
}

fn lz4(data: &[u8]) -> Result<Vec<u8>> {
    let raw = size(u32_at(data, 0, "lz4 raw size")?, "lz4 raw size")?;
    let packed = part(data, 4, data.len() - 4, "lz4 block")?;
    let most = packed.len().saturating_mul(255).min(LIMIT);
    ensure(
        raw <= most,
        "lz4 raw size, bytes",
        raw,
        format_args!("at most {most}"),
    )?;
    let made = block::decompress(packed, raw).map_err(|e| Corrupt(format!("lz4 block: {e}")))?;
    ensure(made.len() == raw, "lz4 raw size, bytes", made.len(), raw)?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn compressed(scheme: Scheme, raw: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        Compressor::new(scheme, 3)
            .unwrap()
            .append(raw, &mut packed)
            .unwrap();
        packed
    }

    #[test]
    fn round_trips_and_cuts() {
        let raw: Vec<u8> = (0..5000u32).flat_map(|i| (i % 7).to_le_bytes()).collect();
        for scheme in [Scheme::Lz4, Scheme::Zstd] {
            let packed = compressed(scheme, &raw);
            assert_eq!(decompress(scheme, &packed).unwrap(), raw);
            for cut in 0..packed.len() {
                assert!(decompress(scheme, &packed[..cut]).is_err());
            }
        }
    }

    #[test]
    fn one_compressor_serves_buffers_of_all_sizes() {
        for scheme in [Scheme::Lz4, Scheme::Zstd] {
            let mut compressor = Compressor::new(scheme, 0).unwrap();
            for size in [10, 100_000, 0, 65_535, 3] {
                let raw: Vec<u8> = (0..size).map(|i: u32| (i % 11) as u8).collect();
                let mut packed = vec![1, 2, 3];
                compressor.append(&raw, &mut packed).unwrap();
                assert_eq!(packed[..3], [1, 2, 3]);
                assert_eq!(decompress(scheme, &packed[3..]).unwrap(), raw);
            }
        }
    }

    #[test]
    fn lz4_claims_are_checked() {
        let mut packed = compressed(Scheme::Lz4, &[7; 1000]);
        packed[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(decompress(Scheme::Lz4, &packed).is_err());
    }
}
