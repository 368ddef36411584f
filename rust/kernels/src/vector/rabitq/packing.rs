//! Sign codes of a partition, in the order in which 32 rows are looked up at once.
//!
//!     groups of 32 rows   for each byte column 32 bytes:
//!                         out[j]      = low nibble of row p[j] | low nibble of row p[j] + 16 << 4
//!                         out[16 + j] = the high nibbles in the same way, j = 0 .. 15
//!     remaining rows      byte column after byte column
//!
//! with p = 0 8 1 9 2 10 3 11 4 12 5 13 6 14 7 15.

use crate::error::{Result, ensure};

/// Rows of a group.
pub const GROUP: usize = 32;

/// The row of the low nibbles of each byte.
pub const ORDER: [usize; 16] = [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15];

/// Packs the codes of a partition: rows of `width` bytes to the stored order.
pub fn pack(rows: &[u8], width: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; rows.len()];
    convert(rows, &mut out, width, |rows, packed| {
        for (column, packed) in packed.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
            *packed = packed_column(rows, width, column);
        }
    })?;
    let (rest, packed) = remainders(rows, &mut out, width);
    transpose(rest, width, packed);
    Ok(out)
}

/// Unpacks the codes of a partition: the inverse of `pack`.
pub fn unpack(packed: &[u8], width: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; packed.len()];
    convert(packed, &mut out, width, |packed, rows| {
        for (column, packed) in packed.as_chunks::<GROUP>().0.iter().enumerate() {
            let codes = unpacked_column(packed);
            for (row, code) in rows.chunks_exact_mut(width).zip(codes) {
                if let Some(byte) = row.get_mut(column) {
                    *byte = code;
                }
            }
        }
    })?;
    let (rest, rows) = remainders(packed, &mut out, width);
    transpose(rest, rest.len() / width, rows);
    Ok(out)
}

/// The stored bytes of one byte column of up to 32 rows; missing rows count as zeros.
pub fn packed_column(rows: &[u8], width: usize, column: usize) -> [u8; GROUP] {
    let mut codes = [0u8; GROUP];
    for (code, row) in codes.iter_mut().zip(rows.chunks_exact(width)) {
        *code = row.get(column).map_or(0, |&byte| byte);
    }
    packed_codes(&codes)
}

/// The stored bytes of a byte of 32 rows.
pub fn packed_codes(codes: &[u8; GROUP]) -> [u8; GROUP] {
    let (first, second) = codes.split_at(16);
    let mut out = [0u8; GROUP];
    let (low, high) = out.split_at_mut(16);
    for ((low, high), &row) in low.iter_mut().zip(high).zip(&ORDER) {
        if let (Some(&a), Some(&b)) = (first.get(row), second.get(row)) {
            *low = a & 15 | b << 4;
            *high = a >> 4 | b & 0xf0;
        }
    }
    out
}

/// The byte of each of the 32 rows of a group.
fn unpacked_column(packed: &[u8; GROUP]) -> [u8; GROUP] {
    let mut out = [0u8; GROUP];
    let (first, second) = out.split_at_mut(16);
    let (low, high) = packed.split_at(16);
    for ((&low, &high), &row) in low.iter().zip(high).zip(&ORDER) {
        if let (Some(a), Some(b)) = (first.get_mut(row), second.get_mut(row)) {
            *a = low & 15 | high << 4;
            *b = low >> 4 | high & 0xf0;
        }
    }
    out
}

/// Calls a function for each whole group of 32 rows.
fn convert(
    data: &[u8],
    out: &mut [u8],
    width: usize,
    group: impl Fn(&[u8], &mut [u8]),
) -> Result<()> {
    let is_whole = width > 0 && data.len().is_multiple_of(width);
    ensure(
        is_whole,
        "sign codes, bytes",
        data.len(),
        format!("rows of {width}"),
    )?;
    let size = GROUP * width;
    for (data, out) in data.chunks_exact(size).zip(out.chunks_exact_mut(size)) {
        group(data, out);
    }
    Ok(())
}

/// The rows after the last whole group, on both sides.
fn remainders<'a>(data: &'a [u8], out: &'a mut [u8], width: usize) -> (&'a [u8], &'a mut [u8]) {
    let size = GROUP * width;
    let rest = out.chunks_exact_mut(size).into_remainder();
    (data.chunks_exact(size).remainder(), rest)
}

/// Writes rows of `width` bytes column after column.
fn transpose(rows: &[u8], width: usize, out: &mut [u8]) {
    if width == 0 {
        return;
    }
    let num_rows = rows.len() / width;
    if num_rows == 0 {
        return;
    }
    for (column, out) in out.chunks_exact_mut(num_rows).enumerate() {
        let column = rows.iter().skip(column).step_by(width);
        for (byte, value) in out.iter_mut().zip(column) {
            *byte = *value;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )]
    use super::*;

    #[test]
    fn packed_codes_return() {
        for width in [1, 2, 5] {
            for num_rows in [0, 1, 2, 31, 32, 33, 64, 95] {
                let rows: Vec<u8> = (0..num_rows * width)
                    .map(|i| (i * 101 % 256) as u8)
                    .collect();
                let packed = pack(&rows, width).unwrap();
                assert_eq!(packed.len(), rows.len());
                assert_eq!(unpack(&packed, width).unwrap(), rows);
            }
        }
        assert!(pack(&[0; 3], 2).is_err());
        assert!(pack(&[], 0).is_err());
        assert!(unpack(&[0; 3], 2).is_err());
    }

    #[test]
    fn nibbles_of_a_group_lie_where_the_text_says() {
        let rows: Vec<u8> = (0..32).collect();
        let packed = pack(&rows, 1).unwrap();
        assert_eq!(packed[..4], [0, 0x88, 0x11, 0x99]);
        assert_eq!(packed[16], 0x10);
        assert_eq!(pack(&[1, 2, 3, 4, 5, 6], 2).unwrap(), [1, 3, 5, 2, 4, 6]);
    }
}
