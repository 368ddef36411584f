//! FSST strings: codes of one byte for symbols of up to eight.
//!
//! The symbol table is a block of 2,312 bytes:
//!
//!     0        number of symbols n (0..255)       4..8     54 53 53 46
//!     1, 2     for the encoder only               8        n symbols of 8 bytes, zero filled
//!     3        bit 0: data is FSST coded          8 + 8n   n symbol lengths, 1..8
//!
//! Code 255 escapes the byte that follows it. Without bit 0 the strings are stored uncompressed.
//! The symbol table is trained by the `fsst-rs` crate.

use ::fsst::Compressor;

use crate::error::{Corrupt, Result, ensure, grow, out_of_range, part, rest, size};
use crate::offsets::OffsetsIn;

/// Bytes of a symbol table.
pub const TABLE_BYTES: usize = 2312;
const MAGIC: [u8; 4] = [0x54, 0x53, 0x53, 0x46];
/// The code before a byte that is stored as it is.
pub const ESCAPE: u8 = 255;
const TERMINATOR: u8 = 0;

/// A symbol table, ready to decode with.
#[derive(Debug, Clone)]
pub struct SymbolTable {
    coded: bool,
    symbols: Box<[[u8; 8]; 256]>,
    lengths: Box<[u8; 256]>,
}

impl SymbolTable {
    /// Parses the table of a page's descriptor.
    pub fn parse(table: &[u8]) -> Result<Self> {
        ensure(
            table.len() == TABLE_BYTES,
            "fsst symbol table, bytes",
            table.len(),
            TABLE_BYTES,
        )?;
        let &[num_symbols, _, _, flags, ..] = table else {
            return Err(out_of_range("fsst symbol table"));
        };
        let coded = flags & 1 == 1;
        let mut symbols = Box::new([[0; 8]; 256]);
        let mut lengths = Box::new([UNKNOWN; 256]);
        if coded {
            ensure(
                part(table, 4, 4, "fsst magic")? == MAGIC,
                "fsst magic",
                "other bytes",
                "TSSF",
            )?;
            let n = usize::from(num_symbols);
            ensure(n <= usize::from(ESCAPE), "fsst symbols", n, "at most 255")?;
            let (words, _) = part(table, 8, 8 * n, "fsst symbols")?.as_chunks::<8>();
            for (slot, word) in symbols.iter_mut().zip(words) {
                *slot = *word;
            }
            let stored = part(table, 8 + 8 * n, n, "fsst symbol lengths")?;
            for (slot, &length) in lengths.iter_mut().zip(stored) {
                ensure(
                    (1..=8).contains(&length),
                    "fsst symbol length",
                    length,
                    "1 to 8",
                )?;
                *slot = length;
            }
        }
        Ok(Self {
            coded,
            symbols,
            lengths,
        })
    }

    /// Appends the string that `codes` encode.
    pub fn decompress(&self, codes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if !self.coded {
            out.extend_from_slice(codes);
            return Ok(());
        }
        let start = out.len();
        let room = grow(out, Self::room(codes.len()));
        let filled = self.expand(codes, room, |_, _| true)?;
        out.truncate(start + filled);
        Ok(())
    }

    /// Whether strings are coded; if not, they are stored uncompressed.
    pub fn is_coded(&self) -> bool {
        self.coded
    }

    /// The symbol of a code; empty if the table has none.
    pub fn symbol(&self, code: u8) -> &[u8] {
        let code = usize::from(code);
        let symbol = self.symbols.get(code).zip(self.lengths.get(code));
        let symbol = symbol.and_then(|(symbol, &length)| symbol.get(..usize::from(length)));
        symbol.unwrap_or(&[]) // every code is an index
    }

    /// The bytes that have to be free to expand a number of codes.
    pub fn room(num_codes: usize) -> usize {
        num_codes.saturating_mul(8).saturating_add(WINDOW)
    }

    /// Writes adjacent strings to the front of `out`; returns where they end.
    ///
    /// `marks` has one item more than there are codes: where the output of each code begins, and
    /// the end. The byte after an escape does not begin a code and has the mark `NOWHERE`.
    pub fn expand_marked(&self, codes: &[u8], out: &mut [u8], marks: &mut [u32]) -> Result<usize> {
        ensure(
            marks.len() == codes.len() + 1,
            "fsst marks",
            marks.len(),
            codes.len() + 1,
        )?;
        let filled = self.expand(codes, out, |index, places| {
            let slots = marks.get_mut(index..index + places.len());
            slots.is_some_and(|slots| {
                slots.copy_from_slice(places);
                true
            })
        })?;
        let end = marks.last_mut().ok_or_else(|| out_of_range("fsst marks"))?;
        *end = u32::try_from(filled).map_err(|_| out_of_range("fsst string"))?;
        Ok(filled)
    }

    /// Writes adjacent strings to the front of `out`; returns where they end.
    ///
    /// `mark` gets the number of a code and the places of its output and of those that follow; it
    /// says whether it has room for them.
    #[inline]
    fn expand(
        &self,
        codes: &[u8],
        out: &mut [u8],
        mut mark: impl FnMut(usize, &[u32]) -> bool,
    ) -> Result<usize> {
        let most = u32::MAX as usize / 8;
        ensure(
            codes.len() < most,
            "fsst codes in one piece",
            codes.len(),
            format_args!("below {most}"),
        )?;
        let (mut filled, mut index, mut fits) = (0u32, 0, true);
        while index < codes.len() {
            let rest = rest(codes, index, "fsst codes")?;
            let window = window_at(out, filled as usize)?;
            match rest.first_chunk::<GROUP>() {
                Some(group) if !has_escape(*group) => {
                    let (mut at, mut places) = (0, [0; GROUP]);
                    for (&code, place) in group.iter().zip(&mut places) {
                        *place = filled + at;
                        at += self.put(code, window, at);
                    }
                    if at > MOST {
                        return Err(unknown());
                    }
                    fits &= mark(index, &places);
                    filled += at;
                    index += GROUP;
                }
                _ => {
                    let (codes, length) = self.step(codes, index, window)?;
                    let places = [filled, NOWHERE];
                    fits &= mark(index, part(&places, 0, codes, "fsst codes")?);
                    filled += length;
                    index += codes;
                }
            }
        }
        ensure(fits, "fsst marks", "too few", "one per code")?;
        Ok(filled as usize)
    }

    /// Writes the output of one code; returns the codes consumed and the bytes written.
    fn step(&self, codes: &[u8], index: usize, window: &mut [u8; WINDOW]) -> Result<(usize, u32)> {
        match *rest(codes, index, "fsst codes")? {
            [ESCAPE, literal, ..] => {
                window[0] = literal;
                Ok((2, 1))
            }
            [ESCAPE] => Err(Corrupt("fsst: escape at the end".into())),
            [code, ..] => match self.put(code, window, 0) {
                length if length > MOST => Err(unknown()),
                length => Ok((1, length)),
            },
            [] => Err(out_of_range("fsst codes")),
        }
    }

    /// Writes one symbol of a group; returns its length, more than `MOST` for a code without one.
    ///
    /// The symbols before it have less than `MOST` bytes. The mask, which says so, leaves no
    /// bounds to check.
    #[inline]
    #[allow(clippy::indexing_slicing)] // every u8 is an index of both tables
    fn put(&self, code: u8, window: &mut [u8; WINDOW], at: u32) -> u32 {
        let (code, at) = (usize::from(code), (at & (MOST - 1)) as usize);
        let free = window.get_mut(at..).and_then(|free| free.first_chunk_mut());
        if let Some(slot) = free {
            *slot = self.symbols[code];
        }
        u32::from(self.lengths[code])
    }
}

/// Whether one of the codes is an escape.
#[inline]
fn has_escape(group: [u8; GROUP]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let inverted = !u64::from_le_bytes(group); // in which an escape is a zero
    inverted.wrapping_sub(ONES) & !inverted & (ONES << 7) != 0
}

#[cold]
fn unknown() -> Corrupt {
    Corrupt("fsst code: one that the table does not have".into())
}

/// The mark of a byte that does not begin a code.
pub const NOWHERE: u32 = u32::MAX;

const GROUP: usize = 8;

/// The most bytes of a group of symbols.
const MOST: u32 = 64;

/// The length of a code without a symbol.
const UNKNOWN: u8 = 255;

/// Bytes that a group of symbols can touch, and some more.
const WINDOW: usize = 80;

#[inline]
fn window_at(out: &mut [u8], filled: usize) -> Result<&mut [u8; WINDOW]> {
    out.get_mut(filled..)
        .and_then(|free| free.first_chunk_mut::<WINDOW>())
        .ok_or_else(|| Corrupt("fsst: no room".into()))
}

/// Decompresses adjacent strings, given as `n + 1` offsets into `codes`.
pub fn decompress(table: &[u8], offsets: &[i64], codes: &[u8]) -> Result<(Vec<i64>, Vec<u8>)> {
    let table = SymbolTable::parse(table)?;
    if !table.is_coded() {
        return Ok((offsets.to_vec(), codes.to_vec()));
    }
    let mut data = vec![0; SymbolTable::room(codes.len())];
    let mut marks = vec![0; codes.len() + 1];
    let filled = table.expand_marked(codes, &mut data, &mut marks)?;
    data.truncate(filled);
    let mut out = Vec::with_capacity(offsets.len());
    for &offset in offsets {
        let mark = size(offset, "fsst offset").map(|at| marks.get(at).copied())?;
        match mark {
            Some(mark) if mark != NOWHERE => out.push(i64::from(mark)),
            _ => {
                return Err(Corrupt(format!(
                    "fsst: a string ends at {offset}, within a code"
                )));
            }
        }
    }
    Ok((out, data))
}

/// Strings as one buffer and the end of each.
#[derive(Debug)]
pub struct Compressed {
    /// A symbol table of `TABLE_BYTES`.
    pub table: Vec<u8>,
    /// `n + 1` offsets into `data`.
    pub offsets: Vec<i64>,
    pub data: Vec<u8>,
}

/// Trains a table on the strings and compresses them.
pub fn compress(offsets: OffsetsIn<'_>, data: &[u8]) -> Result<Compressed> {
    let mut strings = Vec::with_capacity(offsets.count());
    for index in 0..offsets.count() {
        strings.push(string(data, offsets.get(index)?, offsets.get(index + 1)?)?);
    }
    let compressor = Compressor::train(&strings);
    let total = strings.iter().map(|string| string.len()).sum();
    let mut ends = Vec::with_capacity(strings.len() + 1);
    ends.push(0);
    // Memory is committed when it is written to, so an overestimate costs nothing.
    let mut coded = Vec::with_capacity(total);
    let (mut run_ends, mut run_coded) = (Vec::new(), Vec::new());
    for run in runs(&strings) {
        run_ends.clear();
        run_coded.clear();
        compressor.compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(
            run,
            &mut run_coded,
            &mut run_ends,
        );
        let base = coded.len() as u64;
        for &end in &run_ends {
            ends.push(i64::try_from(base + end).map_err(|_| out_of_range("fsst string"))?);
        }
        coded.extend_from_slice(&run_coded);
    }
    Ok(Compressed {
        table: table_bytes(&compressor)?,
        offsets: ends,
        data: coded,
    })
}

/// Adjacent strings of about this many bytes are compressed at once: the encoder allocates twice
/// their size, regardless of the result.
const RUN_BYTES: usize = 512 * 1024;

/// Cuts strings into runs of about `RUN_BYTES`, of at least one string.
fn runs<'a, 'b>(strings: &'b [&'a [u8]]) -> impl Iterator<Item = &'b [&'a [u8]]> {
    let mut filled = 0;
    strings.chunk_by(move |string, next| {
        filled += string.len();
        let fits = filled + next.len() <= RUN_BYTES;
        filled = if fits { filled } else { 0 };
        fits
    })
}

fn string(data: &[u8], start: usize, end: usize) -> Result<&[u8]> {
    ensure(
        start <= end,
        "string offsets",
        end,
        format_args!("at least {start}"),
    )?;
    part(data, start, end - start, "string data")
}

fn table_bytes(compressor: &Compressor) -> Result<Vec<u8>> {
    let symbols = compressor.symbol_table();
    let count = u8::try_from(symbols.len()).map_err(|_| out_of_range("fsst symbols"))?;
    let mut table = vec![count, TERMINATOR, count, 1];
    table.extend_from_slice(&MAGIC);
    table.extend(
        symbols
            .iter()
            .flat_map(|symbol| symbol.to_u64().to_le_bytes()),
    );
    table.extend_from_slice(compressor.symbol_lengths());
    table.resize(TABLE_BYTES, 0);
    Ok(table)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )]
    use super::*;

    fn strings(texts: &[&[u8]]) -> (Vec<i64>, Vec<u8>) {
        let mut offsets = vec![0];
        let mut data = Vec::new();
        for text in texts {
            data.extend_from_slice(text);
            offsets.push(data.len() as i64);
        }
        (offsets, data)
    }

    #[test]
    fn strings_of_several_runs_stay_apart() {
        let long = vec![b'x'; RUN_BYTES + 1];
        let texts: Vec<Vec<u8>> = (0..300u32)
            .map(|i| match i % 100 {
                0 => long.clone(),
                1 => Vec::new(),
                _ => format!("row {i} of many, ").into_bytes().repeat(500),
            })
            .collect();
        let views: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let sizes: Vec<usize> = runs(&views)
            .map(|run| run.iter().map(|text| text.len()).sum())
            .collect();
        assert!(sizes.len() > 5);
        assert!(sizes.iter().all(|&size| size <= long.len()));
        let (offsets, data) = strings(&views);
        assert_eq!(sizes.iter().sum::<usize>(), data.len());
        let made = compress(OffsetsIn::Large(&offsets), &data).unwrap();
        let back = decompress(&made.table, &made.offsets, &made.data).unwrap();
        assert_eq!(back, (offsets, data));
    }

    #[test]
    fn round_trip() {
        let texts: Vec<Vec<u8>> = (0..2000u32)
            .map(|i| {
                format!("https://example.com/item/{i}/\u{fc}\u{0}")
                    .into_bytes()
                    .repeat((i % 40) as usize)
            })
            .collect();
        let views: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let (offsets, data) = strings(&views);
        let made = compress(OffsetsIn::Large(&offsets), &data).unwrap();
        assert!(made.data.len() < data.len() / 2);
        let table = SymbolTable::parse(&made.table).unwrap();
        for (text, pair) in texts.iter().zip(made.offsets.windows(2)) {
            let mut back = Vec::new();
            table
                .decompress(&made.data[pair[0] as usize..pair[1] as usize], &mut back)
                .unwrap();
            assert_eq!(&back, text);
        }
    }

    #[test]
    fn damage_is_an_error() {
        let (offsets, data) = strings(&[b"aaaaaaaaaa", b"aaaaaaaa"]);
        let made = compress(OffsetsIn::Large(&offsets), &data).unwrap();
        let table = SymbolTable::parse(&made.table).unwrap();
        assert!(table.decompress(&[255], &mut Vec::new()).is_err());
        assert!(table.decompress(&[254], &mut Vec::new()).is_err());
        for place in 0..12 {
            let mut codes = vec![0; 12];
            let length = table.symbol(0).len();
            let mut back = Vec::new();
            table.decompress(&codes, &mut back).unwrap();
            assert_eq!(back.len(), 12 * length);
            codes[place] = 254;
            assert!(table.decompress(&codes, &mut Vec::new()).is_err());
        }
        assert!(SymbolTable::parse(&made.table[1..]).is_err());
    }

    #[test]
    fn neighbours_are_decompressed_together() {
        let (offsets, data) = strings(&[b"abcabcabc", b"", b"abc\xff", b"abcabc"]);
        let made = compress(OffsetsIn::Large(&offsets), &data).unwrap();
        let back = decompress(&made.table, &made.offsets, &made.data).unwrap();
        assert_eq!(back, (offsets, data));
        let within = made.data.iter().position(|&code| code == ESCAPE).unwrap() as i64 + 1;
        assert!(decompress(&made.table, &[0, within], &made.data).is_err());
        assert!(decompress(&made.table, &[0, -1], &made.data).is_err());
        assert!(decompress(&made.table, &[0, 1000], &made.data).is_err());
    }

    #[test]
    fn identity_tables_copy() {
        let table = SymbolTable::parse(&[0; TABLE_BYTES]).unwrap();
        let mut out = Vec::new();
        table.decompress(&[255, 1, 2], &mut out).unwrap();
        assert_eq!(out, [255, 1, 2]);
    }
}
