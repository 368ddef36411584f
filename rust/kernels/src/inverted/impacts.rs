//! Impacts: for each posting block, and for each 32 blocks, the pairs of frequency and length of
//! document that can give the greatest score.
//!
//!     entry    varint last document, varint pairs, then for each pair, ascending:
//!              varint (frequency difference - 1) << 1 | e, and if e = 1 a byte code difference
//!              (otherwise it is 1); both begin at 0
//!
//! A pair belongs to an entry if no other has a frequency as high and a length as low. Lengths are
//! rounded down to codes of a byte: those below 8 are exact, the others keep four bits.

use super::varint;
use crate::error::{Result, out_of_range};

/// Blocks of one entry of the second level.
pub const BLOCKS: usize = 32;

/// The code of a length.
#[inline]
pub fn code(length: u32) -> u8 {
    if length < 8 {
        return length.to_le_bytes()[0];
    }
    let shift = length.ilog2() - 3;
    let code = ((length >> shift) & 7) | (shift + 1) << 3;
    code.to_le_bytes()[0]
}

/// The length that a code represents.
#[inline]
pub fn length(code: u8) -> u32 {
    let code = u32::from(code);
    if code < 8 {
        return code;
    }
    u32::try_from(u64::from((code & 7) | 8) << ((code >> 3) - 1)).unwrap_or(u32::MAX)
}

/// A frequency and a length of a document.
pub type Pair = (u32, u32);

/// Sorts pairs and keeps those that no other one dominates.
pub fn keep_best(pairs: &mut Vec<Pair>) {
    pairs.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut shortest = u64::MAX;
    pairs.retain(|pair| {
        let keeps = u64::from(pair.1) < shortest;
        if keeps {
            shortest = u64::from(pair.1);
        }
        keeps
    });
    pairs.reverse();
}

/// Appends an entry; `pairs` are the best ones, ascending.
pub fn encode(last_document: u32, pairs: &[Pair], out: &mut Vec<u8>) -> Result<()> {
    let mut coded: Vec<(u32, u8)> = Vec::with_capacity(pairs.len());
    for &(frequency, length) in pairs {
        let code = code(length);
        match coded.last_mut() {
            Some(last) if last.1 == code => last.0 = frequency,
            _ => coded.push((frequency, code)),
        }
    }
    varint::push(out, last_document);
    varint::push(
        out,
        u32::try_from(coded.len()).map_err(|_| out_of_range("impacts"))?,
    );
    let (mut frequency, mut code) = (0u32, 0u8);
    for pair in coded {
        let step = pair.0.wrapping_sub(frequency).wrapping_sub(1);
        let code_step = pair.1.wrapping_sub(code);
        let long = u32::from(code_step != 1);
        varint::push(out, step.wrapping_shl(1) | long);
        if long == 1 {
            out.push(code_step);
        }
        (frequency, code) = pair;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn codes_round_down() {
        for n in (0..100_000).chain([u32::MAX, 1 << 31]) {
            let rounded = length(code(n));
            assert!(rounded <= n);
            assert_eq!(code(rounded), code(n));
            assert!(n < 8 || u64::from(rounded) * 9 >= u64::from(n) * 8);
        }
    }

    #[test]
    fn the_example_of_the_format_is_written() {
        let mut out = Vec::new();
        encode(5, &[(1, 1)], &mut out).unwrap();
        assert_eq!(out, [5, 1, 0]);
    }

    #[test]
    fn dominated_pairs_are_dropped() {
        let mut pairs = vec![(1, 5), (2, 5), (3, 9), (2, 7), (3, 10), (1, 4)];
        keep_best(&mut pairs);
        assert_eq!(pairs, [(1, 4), (2, 5), (3, 9)]);
    }
}
