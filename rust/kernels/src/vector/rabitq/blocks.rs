//! Further bits of the components, 64 components per block of `8 * bits` bytes.
//!
//! The last block is filled with zeros. Run `k` consists of components 16k .. 16k + 15, b = 0 .. 15:
//!
//!     1   bit i of 8 bytes = component i
//!     2   16 bytes: b, b + 16, b + 32, b + 48 in the bit pairs of byte b, lowest first
//!     4   32 bytes: 16k + b in the low half of byte 8k + b, 16k + 8 + b in the high half (b < 8)
//!     5   32 bytes: runs 0 (low halves) and 1 (high halves), then runs 2 and 3; and the top bits
//!     6   48 bytes: 16k + b in bits 0 .. 5 of byte 16k + b (k < 3);
//!         bits 6 .. 7 = bits 2k .. 2k + 1 of 48 + b
//!     8   64 bytes: one per component
//!
//! 3 and 7 bits are 2 and 6 bits, then the top bits: bit 8 * (b mod 8) + 2k + b / 8 of a
//! little-endian u64 is the top bit of 16k + b.

use crate::error::{Result, ensure};

/// Calls a function for a number of further bits that the compiler knows.
macro_rules! by_bits {
    ($bits:expr, $($function:ident).+($($argument:expr),*)) => {
        match $bits {
            1 => $($function).+::<1>($($argument),*),
            2 => $($function).+::<2>($($argument),*),
            3 => $($function).+::<3>($($argument),*),
            4 => $($function).+::<4>($($argument),*),
            5 => $($function).+::<5>($($argument),*),
            6 => $($function).+::<6>($($argument),*),
            7 => $($function).+::<7>($($argument),*),
            _ => $($function).+::<8>($($argument),*),
        }
    };
}
pub(super) use by_bits;

/// Components of a block.
pub const BLOCK: usize = 64;

type Components = [u8; BLOCK];

/// The bytes of a row of further bits.
pub fn row_bytes(dimension: usize, bits: usize) -> usize {
    dimension.div_ceil(BLOCK) * 8 * bits
}

/// Packs rows of components, each below `2^bits`.
pub fn pack(values: &[u8], dimension: usize, bits: usize) -> Result<Vec<u8>> {
    require(dimension, bits)?;
    let is_whole = values.len().is_multiple_of(dimension);
    ensure(
        is_whole,
        "further bits, components",
        values.len(),
        "whole rows",
    )?;
    let mut out = Vec::with_capacity(values.len() / dimension * row_bytes(dimension, bits));
    for row in values.chunks_exact(dimension) {
        for block in row.chunks(BLOCK) {
            let mut components = [0; BLOCK];
            for (component, value) in components.iter_mut().zip(block) {
                *component = *value;
            }
            pack_block(&components, bits, &mut out);
        }
    }
    Ok(out)
}

/// Unpacks rows of components.
pub fn unpack(packed: &[u8], dimension: usize, bits: usize) -> Result<Vec<u8>> {
    require(dimension, bits)?;
    let width = row_bytes(dimension, bits);
    let is_whole = packed.len().is_multiple_of(width);
    ensure(
        is_whole,
        "further bits, bytes",
        packed.len(),
        format!("rows of {width}"),
    )?;
    let mut out = Vec::with_capacity(packed.len() / width * dimension);
    for row in packed.chunks_exact(width) {
        let end = out.len() + dimension;
        by_bits!(bits, unpack_row(row, &mut out));
        out.truncate(end);
    }
    Ok(out)
}

fn unpack_row<const BITS: usize>(row: &[u8], out: &mut Vec<u8>) {
    for block in row.chunks_exact(8 * BITS) {
        let mut components = [0; BLOCK];
        unpack_block::<BITS>(block, &mut components);
        out.extend_from_slice(&components);
    }
}

fn require(dimension: usize, bits: usize) -> Result<()> {
    ensure((1..=8).contains(&bits), "further bits", bits, "1 to 8")?;
    ensure(
        dimension > 0,
        "further bits, dimension",
        dimension,
        "1 or more",
    )
}

fn pack_block(components: &Components, bits: usize, out: &mut Vec<u8>) {
    let [a, b, c, d] = runs(components);
    let quarters = a.iter().zip(b).zip(c.iter().zip(d));
    match bits {
        1 => {
            let bytes = components.as_chunks::<8>().0.iter();
            out.extend(bytes.map(|eight| {
                let bits = eight.iter().rev();
                bits.fold(0, |byte, component| byte << 1 | component & 1)
            }));
        }
        2 | 3 => out.extend(
            quarters.map(|((a, b), (c, d))| a & 3 | (b & 3) << 2 | (c & 3) << 4 | (d & 3) << 6),
        ),
        4 => {
            for run in [a, b, c, d] {
                let (low, high) = run.split_at(8);
                out.extend(low.iter().zip(high).map(|(low, high)| low & 15 | high << 4));
            }
        }
        5 => {
            out.extend(a.iter().zip(b).map(|(low, high)| low & 15 | high << 4));
            out.extend(c.iter().zip(d).map(|(low, high)| low & 15 | high << 4));
        }
        6 | 7 => {
            for (k, run) in [a, b, c].into_iter().enumerate() {
                out.extend(
                    run.iter()
                        .zip(d)
                        .map(|(x, y)| x & 63 | (y >> (2 * k) & 3) << 6),
                );
            }
        }
        _ => out.extend_from_slice(components),
    }
    if matches!(bits, 3 | 5 | 7) {
        out.extend_from_slice(&top_bits(components, bits - 1).to_le_bytes());
    }
}

/// The four runs of a block.
fn runs(components: &Components) -> [&[u8; 16]; 4] {
    static NONE: [u8; 16] = [0; 16];
    match components.as_chunks::<16>().0 {
        [a, b, c, d] => [a, b, c, d],
        _ => [&NONE; 4],
    }
}

fn top_bits(components: &Components, bit: usize) -> u64 {
    let runs = components.as_chunks::<16>().0.iter().enumerate();
    let places = runs.flat_map(|(k, run)| run.iter().enumerate().map(move |(b, x)| (k, b, x)));
    places.fold(0, |word, (k, b, component)| {
        word | u64::from(component >> bit & 1) << (8 * (b % 8) + 2 * k + b / 8)
    })
}

/// Unpacks a block of `8 * BITS` bytes.
#[inline(always)]
pub fn unpack_block<const BITS: usize>(block: &[u8], out: &mut Components) {
    match BITS {
        1 => {
            for (eight, byte) in out.as_chunks_mut::<8>().0.iter_mut().zip(block) {
                for (i, component) in eight.iter_mut().enumerate() {
                    *component = byte >> i & 1;
                }
            }
        }
        2 | 3 => {
            if let Some(bytes) = block.first_chunk::<16>() {
                for (k, run) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                    for (component, byte) in run.iter_mut().zip(bytes) {
                        *component = byte >> (2 * k) & 3;
                    }
                }
            }
        }
        4 => {
            let runs = out.as_chunks_mut::<16>().0.iter_mut();
            for (run, bytes) in runs.zip(block.as_chunks::<8>().0) {
                halves(bytes, run);
            }
        }
        5 => {
            let runs = out.as_chunks_mut::<32>().0.iter_mut();
            for (run, bytes) in runs.zip(block.as_chunks::<16>().0) {
                halves(bytes, run);
            }
        }
        6 | 7 => {
            let (rest, last) = out.split_at_mut(48);
            last.fill(0);
            let runs = rest.as_chunks_mut::<16>().0.iter_mut();
            for (k, (run, bytes)) in runs.zip(block.as_chunks::<16>().0).enumerate() {
                for ((component, other), byte) in run.iter_mut().zip(&mut *last).zip(bytes) {
                    *component = byte & 63;
                    *other |= byte >> 6 << (2 * k);
                }
            }
        }
        _ => {
            for (component, byte) in out.iter_mut().zip(block) {
                *component = *byte;
            }
        }
    }
    if matches!(BITS, 3 | 5 | 7)
        && let Some(top) = block.last_chunk::<8>()
    {
        add_top_bits(*top, BITS - 1, out);
    }
}

/// Splits bytes into low halves, which come first, and high halves.
#[inline(always)]
fn halves(bytes: &[u8], out: &mut [u8]) {
    let (low, high) = out.split_at_mut(bytes.len());
    for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
        *low = byte & 15;
        *high = byte >> 4;
    }
}

#[inline(always)]
fn add_top_bits(bytes: [u8; 8], bit: usize, out: &mut Components) {
    for (k, run) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        for (half, eight) in run.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            for (component, byte) in eight.iter_mut().zip(bytes) {
                *component |= (byte >> (2 * k + half) & 1) << bit;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
    use super::*;

    #[test]
    fn packed_components_return() {
        for bits in 1..=8 {
            for dimension in [8, 64, 72, 128, 200] {
                let mask = ((1u32 << bits) - 1) as u8;
                let values: Vec<u8> = (0..3 * dimension as u32)
                    .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 & mask)
                    .collect();
                let packed = pack(&values, dimension, bits).unwrap();
                assert_eq!(packed.len(), 3 * row_bytes(dimension, bits));
                assert_eq!(unpack(&packed, dimension, bits).unwrap(), values);
            }
        }
    }

    #[test]
    fn lengths_are_checked() {
        assert!(pack(&[0; 9], 8, 4).is_err());
        assert!(pack(&[0; 8], 8, 9).is_err());
        assert!(pack(&[], 0, 4).is_err());
        assert!(unpack(&[0; 31], 8, 4).is_err());
        assert!(unpack(&[0; 32], 8, 0).is_err());
    }
}
