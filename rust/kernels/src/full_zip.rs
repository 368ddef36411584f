//! Full-zip pages: each entry is a control word and, if it owns one, its value.
//!
//!     fixed width, visible            word, value (nulls too)
//!     variable width, valid           word, u32 or u64 length, bytes
//!     variable width, null            word
//!     not visible                     word
//!
//! The word is `rep << bits_def | def` in 0, 1, 2 or 4 bytes, by the sum of both widths. Rows are
//! found by an index of byte offsets, which values of fixed width without lists do not need.

use crate::compression;
use crate::error::{Corrupt, Result, ensure, out_of_range, part, size, u32_at, u64_at};
use crate::fsst::Piece;
use crate::levels::Layers;
use crate::mini_block::Decoded;
use crate::unravel::Unraveler;
use crate::values::{Plan, Values, append};

/// Widths of the levels in a control word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    pub bits_rep: u32,
    pub bits_def: u32,
}

impl Control {
    /// Bytes of one control word.
    pub fn bytes(self) -> usize {
        match self.bits_rep + self.bits_def {
            0 => 0,
            1..=8 => 1,
            9..=16 => 2,
            _ => 4,
        }
    }

    fn split(self, word: u32) -> Result<(u16, u16)> {
        let word = u64::from(word);
        let below = 1u64
            .checked_shl(self.bits_def)
            .ok_or_else(|| out_of_range("control word, bits"))?;
        Ok((size16(word / below)?, size16(word % below)?))
    }

    fn read(self, data: &[u8], at: usize) -> Result<(u16, u16)> {
        let mut word = [0u8; 4];
        for (slot, byte) in word
            .iter_mut()
            .zip(part(data, at, self.bytes(), "control word")?)
        {
            *slot = *byte;
        }
        self.split(u32::from_le_bytes(word))
    }

    pub fn write(self, rep: u16, def: u16, out: &mut Vec<u8>) {
        let word = u32::from(rep) << self.bits_def | u32::from(def);
        out.extend(word.to_le_bytes().iter().take(self.bytes()));
    }
}

fn size16(level: u64) -> Result<u16> {
    u16::try_from(level).map_err(|_| Corrupt(format!("level {level} in a control word")))
}

/// The descriptor of a page.
#[derive(Debug)]
pub struct Page {
    pub control: Control,
    pub values: Plan,
    pub layers: Layers,
}

impl Page {
    /// Bytes of a row whose values have fixed width and are in no list.
    pub fn stride(&self) -> Option<usize> {
        let bits = match &self.values {
            Plan::Flat { bits } => *bits,
            Plan::FixedSizeList { validity, bits } => {
                let masks: usize = validity.iter().map(|items| items.div_ceil(8)).sum();
                bits + 8 * masks
            }
            _ => return None,
        };
        let is_fixed = self.control.bits_rep == 0 && bits.is_multiple_of(8);
        is_fixed.then(|| self.control.bytes() + bits / 8)
    }
}

/// Decodes whole rows, given as byte ranges of `body` in row order.
pub fn decode(page: &Page, body: &[u8], ranges: &[(usize, usize)]) -> Result<Decoded> {
    let row = |&(start, size): &_| Ok((page, part(body, start, size, "rows, bytes")?));
    let rows = ranges.iter().map(row).collect::<Result<Vec<_>>>()?;
    decode_rows(page, &rows)
}

/// Decodes the bytes of whole rows, each with the page that it is of. All pages have the levels of
/// the first one and values of its type, which they may compress in other ways.
pub fn decode_rows(first: &Page, rows: &[(&Page, &[u8])]) -> Result<Decoded> {
    let stored = rows.iter().map(|(_, row)| row.len()).sum();
    let mut out = Output::new(first, stored)?;
    for (page, row) in rows {
        if page.control != first.control {
            return Err(Corrupt("pages with levels of several widths".into()));
        }
        out.page = page;
        out.read(row)?;
    }
    out.flush_levels()?;
    Ok(Decoded {
        values: out.values,
        num_values: out.num_values,
        layers: out.levels.finish(),
    })
}

/// How many values of fixed width some bytes hold, at most; 0 if the width varies.
fn most_values(plan: &Plan, stored: usize) -> usize {
    match plan {
        Plan::Flat { bits } | Plan::FixedSizeList { bits, .. } => {
            (8 * stored).checked_div(*bits).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Levels are passed on in pieces of this size.
const PIECE: usize = 4096;

struct Output<'a> {
    page: &'a Page,
    values: Values,
    levels: Unraveler,
    rep: Vec<u16>,
    def: Vec<u16>,
    piece: Piece,
    num_values: usize,
}

impl<'a> Output<'a> {
    fn new(page: &'a Page, stored: usize) -> Result<Self> {
        let plan = match &page.values {
            Plan::General { inner, .. } => inner,
            plan => plan,
        };
        Ok(Self {
            page,
            values: Values::new(plan, most_values(plan, stored), stored)?,
            levels: Unraveler::new(&page.layers, usize::MAX),
            rep: Vec::with_capacity(PIECE),
            def: Vec::with_capacity(PIECE),
            piece: Piece::default(),
            num_values: 0,
        })
    }

    fn read(&mut self, data: &[u8]) -> Result<()> {
        let is_plain = self.page.control.bytes() == 0;
        match &self.page.values {
            Plan::Flat { bits } if is_plain => self.read_plain(data, *bits),
            Plan::FixedSizeList { validity, bits } if is_plain && validity.is_empty() => {
                self.read_plain(data, *bits)
            }
            Plan::Flat { bits } => self.read_fixed(data, *bits),
            Plan::FixedSizeList { validity, bits } => {
                let masks: usize = validity.iter().map(|items| items.div_ceil(8)).sum();
                self.read_fixed(data, bits + 8 * masks)
            }
            plan => self.read_variable(data, plan),
        }
    }

    /// Reads entries that consist of their values, which are stored as they are returned.
    fn read_plain(&mut self, data: &[u8], bits: usize) -> Result<()> {
        ensure(
            bits > 0 && (8 * data.len()).is_multiple_of(bits),
            "full-zip values, bits",
            8 * data.len(),
            format_args!("a multiple of {bits}"),
        )?;
        let count = 8 * data.len() / bits;
        self.levels.push(&[], &[], count)?;
        self.num_values += count;
        append_fixed(&self.page.values, data, &mut self.values)
    }

    fn read_fixed(&mut self, data: &[u8], bits: usize) -> Result<()> {
        ensure(
            bits.is_multiple_of(8),
            "full-zip value, bits",
            bits,
            "a multiple of 8",
        )?;
        let (word, width) = (self.page.control.bytes(), bits / 8);
        let mut at = 0;
        while at < data.len() {
            let (rep, def) = self.page.control.read(data, at)?;
            at += word;
            self.entry(rep, def)?;
            if def <= self.page.layers.max_visible {
                self.value(part(data, at, width, "full-zip value, bytes")?)?;
                at += width;
            }
            ensure(word + width > 0, "full-zip entry, bytes", 0, "at least 1")?;
        }
        Ok(())
    }

    fn value(&mut self, bytes: &[u8]) -> Result<()> {
        self.num_values += 1;
        append_fixed(&self.page.values, bytes, &mut self.values)
    }

    fn read_variable(&mut self, data: &[u8], plan: &Plan) -> Result<()> {
        let (word, width) = (self.page.control.bytes(), length_bytes(plan)?);
        let mut at = 0;
        while at < data.len() {
            let (rep, def) = self.page.control.read(data, at)?;
            at += word;
            self.entry(rep, def)?;
            if def > self.page.layers.max_visible {
                continue;
            }
            self.num_values += 1;
            let Values::Variable { offsets, data: out } = &mut self.values else {
                return Err(Corrupt("the plan does not fit its output".into()));
            };
            if def == 0 {
                let length = if width == 4 {
                    size(u32_at(data, at, "string length")?, "string length")?
                } else {
                    size(u64_at(data, at, "string length")?, "string length")?
                };
                let stored = part(data, at + width, length, "string data")?;
                at += width + length;
                append_value(plan, stored, &mut self.piece, out)?;
            }
            offsets.push(out.len())?;
        }
        Ok(())
    }

    fn entry(&mut self, rep: u16, def: u16) -> Result<()> {
        self.rep.push(rep);
        self.def.push(def);
        if self.rep.len() == PIECE {
            self.flush_levels()
        } else {
            Ok(())
        }
    }

    fn flush_levels(&mut self) -> Result<()> {
        let rep = if self.page.control.bits_rep == 0 {
            &[]
        } else {
            self.rep.as_slice()
        };
        let def = if self.page.control.bits_def == 0 {
            &[]
        } else {
            self.def.as_slice()
        };
        self.levels.push(rep, def, self.rep.len())?;
        self.rep.clear();
        self.def.clear();
        Ok(())
    }
}

/// Appends one value of fixed width: of lists, the bitmaps of their items and then the items.
pub(crate) fn append_fixed(plan: &Plan, bytes: &[u8], out: &mut Values) -> Result<()> {
    match (plan, out) {
        (
            Plan::FixedSizeList { validity, .. },
            Values::Lists {
                validity: bitmaps,
                items,
            },
        ) => {
            let mut rest = bytes;
            for (&count, bitmap) in validity.iter().zip(bitmaps) {
                let (mask, after) = rest.split_at(count.div_ceil(8).min(rest.len()));
                bitmap.extend_from(mask, 0, count)?;
                rest = after;
            }
            if let Values::Fixed(out) = items.as_mut() {
                out.extend_from_slice(rest);
            }
            Ok(())
        }
        (_, Values::Fixed(out)) => {
            out.extend_from_slice(bytes);
            Ok(())
        }
        (plan, out) => append(plan, &[bytes], 1, std::slice::from_ref(&(0..1)), out),
    }
}

/// Bytes of the length prefix of a value of varying width.
pub(crate) fn length_bytes(plan: &Plan) -> Result<usize> {
    match plan {
        Plan::Variable {
            offset_bits: bits @ (32 | 64),
        }
        | Plan::Fsst {
            offset_bits: bits @ (32 | 64),
            ..
        } => Ok(bits / 8),
        Plan::General { inner, .. } => length_bytes(inner),
        other => Err(Corrupt(format!("full-zip values as {other:?}"))),
    }
}

/// Appends the bytes of a value, decompressed.
pub(crate) fn append_value(
    plan: &Plan,
    stored: &[u8],
    piece: &mut Piece,
    out: &mut Vec<u8>,
) -> Result<()> {
    match plan {
        Plan::Fsst { table, .. } => table.decompress(stored, piece, out),
        Plan::General { scheme, inner } => {
            let stored = compression::decompress(*scheme, stored)?;
            append_value(inner, &stored, piece, out)
        }
        _ => {
            out.extend_from_slice(stored);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn values_without_levels_are_joined() {
        let page = Page {
            control: Control {
                bits_rep: 0,
                bits_def: 0,
            },
            values: Plan::Flat { bits: 16 },
            layers: Layers::new(&[1]).unwrap(),
        };
        let back = decode(&page, &[1, 2, 3, 4, 5, 6], &[(4, 2), (0, 2), (3, 0)]).unwrap();
        let Values::Fixed(data) = back.values else {
            panic!()
        };
        assert_eq!((data, back.num_values), (vec![5, 6, 1, 2], 2));
        assert!(decode(&page, &[1, 2, 3], &[(0, 3)]).is_err());
    }
}
