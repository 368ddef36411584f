//! Trains the symbol table of FSST, in the generations of Boncz, Neumann and Leis (2020).
//!
//! Each generation compresses a sample, counts the symbols and the pairs of adjacent ones, and
//! keeps the symbols, and the joined pairs, that stand for most bytes. The `fsst-rs` crate does so
//! with 16 KiB; further generations with another sample, twice as large, make texts a twentieth to
//! a tenth smaller, and so faster to decompress.

use std::cmp::Reverse;
use std::collections::HashMap;

use ::fsst::{Compressor, CompressorBuilder, Symbol};
use foldhash::fast::FixedState;

use crate::fsst::ESCAPE;

const SAMPLE_BYTES: usize = 32 * 1024;

/// The sample consists of pieces of strings, so that a few long strings do not fill it.
const PIECE_BYTES: usize = 512;

/// The most symbols of a table; one code is the escape.
const SYMBOLS: usize = 255;

/// How much more a symbol of a single byte is worth than the byte: escapes cost two.
const SINGLE_BYTE: usize = 8;

/// Trains a table on the strings.
pub(crate) fn train(strings: &Vec<&[u8]>) -> Compressor {
    let sample = sample(strings);
    let mut compressor = Compressor::train(strings);
    for joins_pairs in [true, true, false] {
        compressor = next_generation(&compressor, &sample, joins_pairs);
    }
    compressor
}

/// Pieces of strings from everywhere, or all strings if they are few.
fn sample<'a>(strings: &[&'a [u8]]) -> Vec<&'a [u8]> {
    if strings.iter().map(|string| string.len()).sum::<usize>() <= SAMPLE_BYTES {
        return strings.to_vec();
    }
    let mut pieces = Vec::new();
    let mut filled = 0;
    // Multiples of the golden ratio spread evenly, in step with no order of the strings.
    let places = (1..).map(|number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    for place in places.take(SAMPLE_BYTES) {
        let string = strings.get(part_of(place, strings.len()));
        let string = string.copied().unwrap_or_default();
        let start = part_of(
            place.rotate_left(32),
            string.len().saturating_sub(PIECE_BYTES) + 1,
        );
        let piece = string.get(start..).unwrap_or_default();
        let piece = piece.get(..PIECE_BYTES).unwrap_or(piece);
        filled += piece.len();
        pieces.push(piece);
        if filled >= SAMPLE_BYTES {
            break;
        }
    }
    pieces
}

/// The number below `count` that is as far from zero as `place` is in its own range.
#[allow(clippy::cast_possible_truncation)] // it is below `count`
fn part_of(place: u64, count: usize) -> usize {
    ((u128::from(place) * count as u128) >> 64) as usize
}

/// The best symbols among those of a table, with their first bytes, and the pairs of them.
fn next_generation(compressor: &Compressor, sample: &Vec<&[u8]>, joins_pairs: bool) -> Compressor {
    let mut gains = Counts::default();
    let mut pairs: HashMap<(Symbol, Symbol), usize, FixedState> = HashMap::default();
    for codes in compressor.compress_bulk(sample) {
        let mut before: Option<Symbol> = None;
        for symbol in symbols(compressor, &codes) {
            if symbol.len() == 1 {
                add(&mut gains, symbol, SINGLE_BYTE);
            } else {
                add(&mut gains, symbol, symbol.len());
                add(&mut gains, first(symbol), 1);
            }
            if let Some(before) = before.filter(|_| joins_pairs) {
                *pairs.entry((before, symbol)).or_default() += 1;
            }
            before = Some(symbol);
        }
    }
    // Pairs that occur once would join to many symbols that few strings have.
    for ((before, symbol), count) in pairs.into_iter().filter(|&(_, count)| count > 1) {
        for after in [
            Some(symbol),
            Some(first(symbol)).filter(|_| symbol.len() > 1),
        ] {
            if let Some(joined) = after.and_then(|after| joined(before, after)) {
                add(&mut gains, joined, count * joined.len());
            }
        }
    }
    best(gains)
}

type Counts = HashMap<Symbol, usize, FixedState>;

fn add(gains: &mut Counts, symbol: Symbol, gain: usize) {
    *gains.entry(symbol).or_default() += gain;
}

/// The table of the symbols that gain most.
fn best(gains: Counts) -> Compressor {
    let mut ranked: Vec<_> = gains.into_iter().collect();
    ranked.sort_unstable_by_key(|&(symbol, gain)| (Reverse(gain), symbol.to_u64()));
    let (mut builder, mut count) = (CompressorBuilder::new(), 0);
    for (symbol, _) in ranked {
        // The builder has no place for two symbols with the same hash of their first three bytes.
        count += usize::from(builder.insert(symbol, symbol.len()));
        if count == SYMBOLS {
            break;
        }
    }
    builder.build()
}

fn first(symbol: Symbol) -> Symbol {
    Symbol::from_u8(symbol.first_byte())
}

/// The symbols that codes stand for; an escaped byte is a symbol of its own.
fn symbols(compressor: &Compressor, codes: &[u8]) -> impl Iterator<Item = Symbol> {
    let mut codes = codes.iter();
    std::iter::from_fn(move || match *codes.next()? {
        ESCAPE => codes.next().map(|&byte| Symbol::from_u8(byte)),
        code => compressor.symbol_table().get(usize::from(code)).copied(),
    })
}

/// Two symbols as one, if it is short enough; the crate cannot tell how many zeros are at its end.
fn joined(before: Symbol, after: Symbol) -> Option<Symbol> {
    let length = before.len() + after.len();
    if length > 8 {
        return None;
    }
    Some(before.concat(after)).filter(|joined| joined.len() == length)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]
    use super::*;

    const WORDS: [&str; 8] = [
        "ships", "carry", "grain", "salt", "from", "distant", "northern", "towns",
    ];

    fn size(compressor: &Compressor, strings: &Vec<&[u8]>) -> usize {
        let coded = compressor.compress_bulk(strings);
        coded.iter().map(Vec::len).sum()
    }

    fn sentences(count: usize) -> Vec<String> {
        let part = |number: usize| {
            let mixed = (number as u64).wrapping_mul(0x2545_F491_4F6C_DD1D);
            WORDS[part_of(mixed, WORDS.len())]
        };
        let sentence = |row: usize| {
            let words = (0..9).map(|place| part(2 * row + place).to_owned() + part(row * place));
            words.collect::<Vec<_>>().join(" ")
        };
        (0..count).map(sentence).collect()
    }

    #[test]
    fn further_generations_find_better_symbols() {
        let texts = sentences(5000);
        let strings = texts.iter().map(String::as_bytes).collect();
        let (before, after) = (Compressor::train(&strings), train(&strings));
        let sizes = (size(&before, &strings), size(&after, &strings));
        assert!(sizes.1 * 100 < sizes.0 * 97, "{sizes:?}");
    }

    #[test]
    fn samples_are_bounded_whatever_the_strings_are() {
        let long = vec![b'x'; 1 << 20];
        let mut strings = vec![b"".as_slice(); 100_000];
        strings.push(&long);
        let pieces = sample(&strings);
        assert!(pieces.len() <= SAMPLE_BYTES);
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
    }

    #[test]
    fn strings_of_zeros_are_coded() {
        let text = b"\0\0a\0b\0\0".repeat(2000);
        let strings = vec![text.as_slice(), b"\0", b""];
        let compressor = train(&strings);
        let coded = compressor.compress_bulk(&strings);
        let back: Vec<_> = coded
            .iter()
            .map(|codes| compressor.decompressor().decompress(codes))
            .collect();
        assert_eq!(back, strings);
    }
}
