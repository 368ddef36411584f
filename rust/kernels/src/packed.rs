//! Rows of packed structs whose members vary in length.
//!
//!     row      the members, one after the other
//!     fixed    value bytes (fixed-size lists: bitmaps of their items, then the items)
//!     varying  u32 or u64 length, bytes
//!
//! Rows that are null, or below a null, have no bytes; all others have some.

use crate::bitmap::bit;
use crate::error::{Corrupt, Result, ensure, part, rest, signed, size, u32_at, u64_at};
use crate::fsst::Piece;
use crate::full_zip::{append_fixed, append_value, length_bytes};
use crate::offsets::OffsetsIn;
use crate::values::{Plan, Values};

/// Splits rows into one output per member. Members of rows without bytes are zeros, or empty.
pub fn split(members: &[Plan], offsets: OffsetsIn<'_>, data: &[u8]) -> Result<Vec<Values>> {
    let count = offsets.count();
    let columns: Result<Vec<_>> = members
        .iter()
        .map(|plan| Column::new(plan, count))
        .collect();
    let mut columns = columns?;
    for row in 0..count {
        let mut rest = row_of(offsets, data, row)?;
        if rest.is_empty() {
            columns.iter_mut().try_for_each(Column::skip)?;
            continue;
        }
        for column in &mut columns {
            rest = column.read(rest)?;
        }
        ensure(
            rest.is_empty(),
            "packed row, bytes behind its members",
            rest.len(),
            0,
        )?;
    }
    Ok(columns.into_iter().map(|column| column.out).collect())
}

fn row_of<'a>(offsets: OffsetsIn<'_>, data: &'a [u8], row: usize) -> Result<&'a [u8]> {
    offsets.value(data, row, "packed row, bytes")
}

struct Column<'a> {
    plan: &'a Plan,
    /// A value of zeros where the width is fixed.
    zeros: Option<Vec<u8>>,
    piece: Piece,
    out: Values,
}

impl<'a> Column<'a> {
    fn new(plan: &'a Plan, count: usize) -> Result<Self> {
        let bits = match plan {
            Plan::Flat { bits } => Some(*bits),
            Plan::FixedSizeList { validity, bits } => {
                let masks: usize = validity.iter().map(|items| items.div_ceil(8)).sum();
                Some(bits + 8 * masks)
            }
            _ => None,
        };
        let whole = bits.is_none_or(|bits| bits.is_multiple_of(8));
        ensure(whole, "packed member", "part of a byte", "whole bytes")?;
        let inner = match plan {
            Plan::General { inner, .. } => inner,
            plan => plan,
        };
        Ok(Self {
            plan,
            zeros: bits.map(|bits| vec![0; bits / 8]),
            piece: Piece::default(),
            out: Values::new(inner, count, 0)?,
        })
    }

    fn skip(&mut self) -> Result<()> {
        match (&self.zeros, &mut self.out) {
            (Some(zeros), out) => append_fixed(self.plan, zeros, out),
            (None, Values::Variable { offsets, data }) => offsets.push(data.len()),
            _ => Err(Corrupt("the plan does not fit its output".into())),
        }
    }

    /// Splits this member's bytes off the front of a row.
    fn read<'b>(&mut self, row: &'b [u8]) -> Result<&'b [u8]> {
        let (head, length) = match &self.zeros {
            Some(zeros) => (0, zeros.len()),
            None if length_bytes(self.plan)? == 4 => {
                (4, size(u32_at(row, 0, "member length")?, "member length")?)
            }
            None => (8, size(u64_at(row, 0, "member length")?, "member length")?),
        };
        let stored = part(row, head, length, "packed member, bytes")?;
        match (&mut self.out, self.zeros.is_some()) {
            (out, true) => append_fixed(self.plan, stored, out)?,
            (Values::Variable { offsets, data }, false) => {
                append_value(self.plan, stored, &mut self.piece, data)?;
                offsets.push(data.len())?;
            }
            _ => return Err(Corrupt("the plan does not fit its output".into())),
        }
        rest(row, head + length, "packed row, bytes")
    }
}

/// A member as Arrow holds it: `width` bytes a value, or strings.
#[derive(Debug)]
pub enum Member<'a> {
    Fixed {
        data: &'a [u8],
        width: usize,
    },
    Variable {
        offsets: OffsetsIn<'a>,
        data: &'a [u8],
    },
}

impl Member<'_> {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Member::Fixed { data, width } => {
                out.extend_from_slice(part(data, row * width, *width, "member, bytes")?);
            }
            Member::Variable { offsets, data } => {
                let value = row_of(*offsets, data, row)?;
                out.extend(value.len().to_le_bytes().iter().take(offsets.width()));
                out.extend_from_slice(value);
            }
        }
        Ok(())
    }
}

/// Joins members to rows; returns where each row starts (one more than rows) and their bytes.
pub fn join(
    members: &[Member<'_>],
    num_rows: usize,
    validity: Option<&[u8]>,
) -> Result<(Vec<i64>, Vec<u8>)> {
    let (mut ends, mut out) = (vec![0i64], Vec::new());
    for row in 0..num_rows {
        if validity.is_none_or(|bits| bit(bits, row)) {
            members
                .iter()
                .try_for_each(|member| member.write(row, &mut out))?;
        }
        ends.push(signed(out.len(), "packed rows, bytes")?);
    }
    Ok((ends, out))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_number_a_string_and_a_byte() {
        let members = [
            Member::Fixed {
                data: &[1, 0, 0, 0, 2, 0, 0, 0],
                width: 4,
            },
            Member::Variable {
                offsets: OffsetsIn::Small(&[0, 1, 1]),
                data: b"s",
            },
            Member::Fixed {
                data: &[1, 2],
                width: 1,
            },
        ];
        let (ends, rows) = join(&members, 2, Some(&[1])).unwrap();
        assert_eq!(rows, [1, 0, 0, 0, 1, 0, 0, 0, b's', 1]);
        assert_eq!(ends, [0, 10, 10]);
        let plans = [
            Plan::Flat { bits: 32 },
            Plan::Variable { offset_bits: 32 },
            Plan::Flat { bits: 8 },
        ];
        let back = split(&plans, OffsetsIn::Large(&ends), &rows).unwrap();
        let [
            Values::Fixed(x),
            Values::Variable { data, .. },
            Values::Fixed(z),
        ] = back.as_slice()
        else {
            panic!()
        };
        assert_eq!(x, &[1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            (data.as_slice(), z.as_slice()),
            (b"s".as_slice(), [1, 0].as_slice())
        );
        let cut = OffsetsIn::Small(&[0, 9]);
        assert!(split(&plans, cut, &rows).is_err());
    }
}
