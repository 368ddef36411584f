//! FSST strings: codes of one byte for symbols of up to eight.
//!
//! The symbol table is a block of 2,312 bytes:
//!
//!     0        number of symbols n (0..255)       4..8     54 53 53 46
//!     1, 2     for the encoder only               8        n symbols of 8 bytes, zero filled
//!     3        bit 0: data is FSST coded          8 + 8n   n symbol lengths, 1..8
//!
//! Code 255 escapes the byte that follows it. Without bit 0 the strings are stored uncompressed.

use crate::error::{Corrupt, Result, ensure, out_of_range, part, rest, size};

/// Bytes of a symbol table.
pub const TABLE_BYTES: usize = 2312;
pub(crate) const MAGIC: [u8; 4] = [0x54, 0x53, 0x53, 0x46];
/// The code before a byte that is stored as it is.
pub const ESCAPE: u8 = 255;

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
    pub fn decompress(&self, codes: &[u8], piece: &mut Piece, out: &mut Vec<u8>) -> Result<()> {
        if !self.coded {
            out.extend_from_slice(codes);
            return Ok(());
        }
        self.expand(codes, piece, out, |_, _| true)?;
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

    /// Appends adjacent strings; returns their bytes.
    ///
    /// `marks` has one item more than there are codes: where the output of each code begins, and
    /// the end. The byte after an escape does not begin a code and has the mark `NOWHERE`.
    pub fn expand_marked(
        &self,
        codes: &[u8],
        out: &mut Vec<u8>,
        marks: &mut [u32],
    ) -> Result<usize> {
        ensure(
            marks.len() == codes.len() + 1,
            "fsst marks",
            marks.len(),
            codes.len() + 1,
        )?;
        let mut piece = Piece::default();
        let filled = self.expand(codes, &mut piece, out, |index, places| {
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

    /// Appends adjacent strings; returns their bytes.
    ///
    /// They are written piece by piece in the cache of the processor and then copied, so that `out`
    /// is written once. `mark` gets the number of a code and the places of its output and of those
    /// that follow; it says whether it has room for them.
    #[inline]
    fn expand(
        &self,
        codes: &[u8],
        piece: &mut Piece,
        out: &mut Vec<u8>,
        mut mark: impl FnMut(usize, &[u32]) -> bool,
    ) -> Result<usize> {
        let most = u32::MAX as usize / 8;
        ensure(
            codes.len() < most,
            "fsst codes in one piece",
            codes.len(),
            format_args!("below {most}"),
        )?;
        let piece = piece.bytes();
        let (mut before, mut filled, mut index, mut fits) = (0, 0, 0, true);
        while index < codes.len() {
            let left = rest(codes, index, "fsst codes")?;
            for group in left.as_chunks::<GROUP>().0 {
                if filled > PIECE || has_escape(*group) {
                    break;
                }
                let (places, length) = self.put(group, window_at(piece, filled as usize)?);
                if length > MOST {
                    return Err(unknown());
                }
                fits &= mark(index, &places.map(|place| before + filled + place));
                filled += length;
                index += GROUP;
            }
            if filled > PIECE {
                out.extend_from_slice(part(piece, 0, filled as usize, "fsst piece")?);
                before += filled;
                filled = 0;
                continue;
            }
            let (group, count) = last_group(rest(codes, index, "fsst codes")?);
            let window = window_at(piece, filled as usize)?;
            let (consumed, places, length) = if has_escape(group) {
                let (consumed, length) = self.step(codes, index, window)?;
                (consumed, [0, NOWHERE, 0, 0, 0, 0, 0, 0], length)
            } else {
                let (places, _) = self.put(&group, window);
                (
                    count,
                    places,
                    places.get(count).copied().unwrap_or_default(),
                )
            };
            if length > MOST {
                return Err(unknown());
            }
            let places = places.map(|place| match place {
                NOWHERE => NOWHERE,
                place => before + filled + place,
            });
            fits &= mark(index, part(&places, 0, consumed, "fsst codes")?);
            filled += length;
            index += consumed;
        }
        ensure(fits, "fsst marks", "too few", "one per code")?;
        out.extend_from_slice(part(piece, 0, filled as usize, "fsst piece")?);
        Ok((before + filled) as usize)
    }

    /// Writes the output of one code; returns the codes consumed and the bytes written.
    #[allow(clippy::indexing_slicing)] // every u8 is an index of both tables
    fn step(&self, codes: &[u8], index: usize, window: &mut [u8; WINDOW]) -> Result<(usize, u32)> {
        match *rest(codes, index, "fsst codes")? {
            [ESCAPE, literal, ..] => {
                window[0] = literal;
                Ok((2, 1))
            }
            [ESCAPE] => Err(Corrupt("fsst: escape at the end".into())),
            [code, ..] => {
                let code = usize::from(code);
                if let Some(slot) = window.first_chunk_mut() {
                    *slot = self.symbols[code];
                }
                match u32::from(self.lengths[code]) {
                    length if length > MOST => Err(unknown()),
                    length => Ok((1, length)),
                }
            }
            [] => Err(out_of_range("fsst codes")),
        }
    }

    /// Writes the symbols of a group; returns where each begins, and their length, which is more
    /// than `MOST` with a code without a symbol.
    ///
    /// The window has room for eight lengths of a byte each, so that there are no bounds to check.
    #[inline]
    fn put(&self, group: &[u8; GROUP], window: &mut [u8; WINDOW]) -> ([u32; GROUP], u32) {
        let [a, b, c, d, e, f, g, h] = *group;
        let ([a, b, c, d], half) = self.put_half([a, b, c, d], window, 0);
        let ([e, f, g, h], whole) = self.put_half([e, f, g, h], window, half);
        ([a, b, c, d, e, f, g, h], whole)
    }

    /// Writes four symbols from a place on; returns where each begins, and the place after them.
    #[inline(always)]
    #[allow(clippy::indexing_slicing)] // every u8 is an index of both tables
    fn put_half(&self, codes: [u8; 4], window: &mut [u8; WINDOW], at: u32) -> ([u32; 4], u32) {
        let [a, b, c, d] = codes.map(|code| u32::from(self.lengths[usize::from(code)]));
        let two = a + b;
        let places = [at, at + a, at + two, at + (two + c)];
        for (code, place) in codes.iter().zip(places) {
            let free = window.get_mut(place as usize..);
            if let Some(slot) = free.and_then(|free| free.first_chunk_mut()) {
                *slot = self.symbols[usize::from(*code)];
            }
        }
        (places, at + (two + (c + d)))
    }
}

/// Codes of which there are less than a group, or of which the first ones are looked at one by one;
/// returns them with zeros after the last one, and their number.
fn last_group(codes: &[u8]) -> ([u8; GROUP], usize) {
    let mut group = [0; GROUP];
    for (slot, code) in group.iter_mut().zip(codes) {
        *slot = *code;
    }
    (group, codes.len().min(GROUP))
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

/// Bytes that a group of symbols may touch, by the lengths that a byte can have.
const WINDOW: usize = 2048 + 8;

/// About so many bytes are written before they are copied.
const PIECE: u32 = 512;

/// Memory for a piece of the output, to be used again for other strings.
#[derive(Debug, Default)]
pub struct Piece(Vec<u8>);

impl Piece {
    fn bytes(&mut self) -> &mut [u8] {
        let size = PIECE as usize + MOST as usize + WINDOW;
        self.0.resize(size, 0);
        &mut self.0
    }
}

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
    let (mut data, mut marks) = (Vec::new(), vec![0; codes.len() + 1]);
    table.expand_marked(codes, &mut data, &mut marks)?;
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

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )]
    use super::*;
    use crate::fsst_writer::compress;
    use crate::offsets::OffsetsIn;

    fn strings(texts: &[&[u8]]) -> (Vec<i64>, Vec<u8>) {
        let mut offsets = vec![0];
        let mut data = Vec::new();
        for text in texts {
            data.extend_from_slice(text);
            offsets.push(data.len() as i64);
        }
        (offsets, data)
    }

    fn decompressed(table: &SymbolTable, codes: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        table.decompress(codes, &mut Piece::default(), &mut out)?;
        Ok(out)
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
        let mut piece = Piece::default();
        for (text, pair) in texts.iter().zip(made.offsets.windows(2)) {
            let mut back = Vec::new();
            table
                .decompress(
                    &made.data[pair[0] as usize..pair[1] as usize],
                    &mut piece,
                    &mut back,
                )
                .unwrap();
            assert_eq!(&back, text);
        }
    }

    #[test]
    fn damage_is_an_error() {
        let (offsets, data) = strings(&[b"aaaaaaaaaa", b"aaaaaaaa"]);
        let made = compress(OffsetsIn::Large(&offsets), &data).unwrap();
        let table = SymbolTable::parse(&made.table).unwrap();
        assert!(decompressed(&table, &[255]).is_err());
        assert!(decompressed(&table, &[254]).is_err());
        for place in 0..12 {
            let mut codes = vec![0; 12];
            let length = table.symbol(0).len();
            let back = decompressed(&table, &codes).unwrap();
            assert_eq!(back.len(), 12 * length);
            codes[place] = 254;
            assert!(decompressed(&table, &codes).is_err());
        }
        assert!(SymbolTable::parse(&made.table[1..]).is_err());
    }

    #[test]
    fn neighbours_are_decompressed_together() {
        let (offsets, data) = strings(&[b"abcabcabc", b"", b"abc\xff", b"abcabc"]);
        let made = compress(OffsetsIn::Large(&offsets), &data).unwrap();
        let back = decompress(&made.table, &made.offsets, &made.data).unwrap();
        assert_eq!(back, (offsets, data));
        let escaped = decompress(&made.table, &[0, 2], &[ESCAPE, b'x']).unwrap();
        assert_eq!(escaped, (vec![0, 1], b"x".to_vec()));
        assert!(decompress(&made.table, &[0, 1, 2], &[ESCAPE, b'x']).is_err());
        assert!(decompress(&made.table, &[0, -1], &made.data).is_err());
        assert!(decompress(&made.table, &[0, 1000], &made.data).is_err());
    }

    #[test]
    fn identity_tables_copy() {
        let table = SymbolTable::parse(&[0; TABLE_BYTES]).unwrap();
        assert_eq!(decompressed(&table, &[255, 1, 2]).unwrap(), [255, 1, 2]);
    }
}
