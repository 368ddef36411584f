//! Writes full-zip pages; see `full_zip`.

use crate::compression::{Compressor, Scheme};
use crate::error::{Result, out_of_range, part, signed};
use crate::full_zip::Control;
use crate::offsets::OffsetsIn;

/// Levels to zip with values; empty slices where there are none.
#[derive(Debug)]
pub struct Levels<'a> {
    pub control: Control,
    pub rep: &'a [u16],
    pub def: &'a [u16],
    pub max_rep: u16,
    pub max_visible: u16,
    pub num_entries: usize,
}

impl Levels<'_> {
    fn get(&self, entry: usize) -> Result<(u16, u16)> {
        let level = |levels: &[u16]| match levels {
            [] => Ok(0),
            levels => levels
                .get(entry)
                .copied()
                .ok_or_else(|| out_of_range("levels")),
        };
        Ok((level(self.rep)?, level(self.def)?))
    }

    fn starts_row(&self, rep: u16) -> bool {
        self.rep.is_empty() || rep == self.max_rep
    }
}

/// One page: the entries, and where each row starts (one more than rows).
#[derive(Debug, Default)]
pub struct Zipped {
    pub data: Vec<u8>,
    pub row_starts: Vec<u64>,
}

/// Zips values of `width` bytes; `parts` are the pieces of a value, each with its own width.
pub fn encode_fixed(parts: &[(&[u8], usize)], levels: &Levels<'_>) -> Result<Zipped> {
    let mut made = Zipped::default();
    let mut value = 0;
    for entry in 0..levels.num_entries {
        let (rep, def) = levels.get(entry)?;
        if !levels.rep.is_empty() && levels.starts_row(rep) {
            made.row_starts.push(made.data.len() as u64);
        }
        levels.control.write(rep, def, &mut made.data);
        if def <= levels.max_visible {
            for (data, width) in parts {
                made.data
                    .extend_from_slice(part(data, value * width, *width, "values, bytes")?);
            }
            value += 1;
        }
    }
    if !levels.rep.is_empty() {
        made.row_starts.push(made.data.len() as u64);
    }
    Ok(made)
}

/// Zips strings.
pub fn encode_variable(offsets: OffsetsIn<'_>, data: &[u8], levels: &Levels<'_>) -> Result<Zipped> {
    let strings = offsets
        .get(offsets.count())?
        .saturating_sub(offsets.get(0)?);
    let heads = levels.num_entries * (levels.control.bytes() + offsets.width());
    let mut made = Zipped {
        data: Vec::with_capacity(strings.min(data.len()) + heads),
        row_starts: Vec::with_capacity(levels.num_entries + 1),
    };
    let mut value = 0;
    for entry in 0..levels.num_entries {
        let (rep, def) = levels.get(entry)?;
        if levels.starts_row(rep) {
            made.row_starts.push(made.data.len() as u64);
        }
        levels.control.write(rep, def, &mut made.data);
        if def == 0 {
            let string = offsets.value(data, value, "string data")?;
            made.data
                .extend(string.len().to_le_bytes().iter().take(offsets.width()));
            made.data.extend_from_slice(string);
        }
        value += usize::from(def <= levels.max_visible);
    }
    made.row_starts.push(made.data.len() as u64);
    Ok(made)
}

/// Compresses each string on its own with zstd; returns new offsets and bytes.
pub fn compress_values(
    offsets: OffsetsIn<'_>,
    data: &[u8],
    level: i32,
) -> Result<(Vec<i64>, Vec<u8>)> {
    let mut frames = Compressor::new(Scheme::Zstd, level)?;
    let (mut ends, mut out) = (vec![0i64], Vec::new());
    for index in 0..offsets.count() {
        frames.append(offsets.value(data, index, "string data")?, &mut out)?;
        ends.push(signed(out.len(), "compressed strings, bytes")?);
    }
    Ok((ends, out))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::full_zip::{Page, decode, decode_rows};
    use crate::levels::Layers;
    use crate::values::{Plan, Values};

    #[test]
    fn nested_strings_of_the_format_notes() {
        // [[["a"],[],null],[],null,[[null,"b"]]]
        let levels = Levels {
            control: Control {
                bits_rep: 2,
                bits_def: 3,
            },
            rep: &[2, 1, 1, 2, 2, 2, 0],
            def: &[0, 3, 2, 5, 4, 1, 0],
            max_rep: 2,
            max_visible: 1,
            num_entries: 7,
        };
        let made = encode_variable(OffsetsIn::Small(&[0, 1, 1, 2]), b"ab", &levels).unwrap();
        let expected = [
            0x10, 1, 0, 0, 0, 0x61, 0x0b, 0x0a, 0x15, 0x14, 0x11, 0x00, 1, 0, 0, 0, 0x62,
        ];
        assert_eq!(made.data, expected);
        assert_eq!(made.row_starts, [0, 8, 9, 10, 17]);
        let page = Page {
            control: levels.control,
            values: Plan::Variable { offset_bits: 32 },
            layers: Layers::new(&[3, 6, 6]).unwrap(),
        };
        let back = decode(&page, &made.data, &[(0, made.data.len())]).unwrap();
        assert_eq!(back.num_values, 3);
        let Values::Variable { data, .. } = back.values else {
            panic!()
        };
        assert_eq!(data, b"ab");
    }

    #[test]
    fn rows_of_pages_that_compress_in_other_ways_are_joined() {
        let page = |values| Page {
            control: Control {
                bits_rep: 0,
                bits_def: 1,
            },
            values,
            layers: Layers::new(&[3]).unwrap(),
        };
        let plain = page(Plan::Variable { offset_bits: 32 });
        let packed = page(Plan::General {
            scheme: Scheme::Zstd,
            inner: Box::new(Plan::Variable { offset_bits: 32 }),
        });
        let (ends, frame) = compress_values(OffsetsIn::Small(&[0, 9]), b"bbbbbbbbb", 3).unwrap();
        let length = u32::try_from(ends[1]).unwrap().to_le_bytes();
        let long = [&[0], length.as_slice(), &frame].concat();
        let rows: [(&Page, &[u8]); 3] = [
            (&plain, &[0, 2, 0, 0, 0, 0x61, 0x61]),
            (&packed, &long),
            (&plain, &[1]),
        ];
        let back = decode_rows(&plain, &rows).unwrap();
        let Values::Variable { data, .. } = back.values else {
            panic!()
        };
        assert_eq!(
            (data.as_slice(), back.num_values),
            (b"aabbbbbbbbb".as_slice(), 3)
        );
        assert_eq!(back.layers[0].null_count, 1);
        let wide = page(Plan::Flat { bits: 32 });
        assert!(decode_rows(&plain, &[(&wide, &[0, 1, 2, 3, 4])]).is_err());
        let other = Page {
            control: Control {
                bits_rep: 0,
                bits_def: 9,
            },
            ..page(Plan::Variable { offset_bits: 32 })
        };
        assert!(decode_rows(&plain, &[(&other, &[1, 0])]).is_err());
    }

    #[test]
    fn null_values_of_fixed_width_keep_their_bytes() {
        let data: Vec<u8> = [1i32, 0, 3].iter().flat_map(|v| v.to_le_bytes()).collect();
        let control = Control {
            bits_rep: 0,
            bits_def: 1,
        };
        let levels = Levels {
            control,
            rep: &[],
            def: &[0, 1, 0],
            max_rep: 0,
            max_visible: 1,
            num_entries: 3,
        };
        let made = encode_fixed(&[(&data, 4)], &levels).unwrap();
        assert_eq!(made.data, [0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
    }
}
