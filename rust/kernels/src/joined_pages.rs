//! Mini-block pages of several columns of numbers, encoded one after the other and joined.
//!
//! Tables of thousands of columns have small pages, which one call makes together.

use crate::block::BlockPlan;
use crate::error::{Corrupt, Result, part};
use crate::mini_block_values::{Chunking, Coding, Input};
use crate::mini_block_writer::{LevelsIn, encode};

/// Columns of values of one width and of one length, which lie one after the other.
#[derive(Debug)]
pub struct Columns<'a> {
    pub data: &'a [u8],
    /// Bits of a value: 1, or a multiple of 8.
    pub bits: usize,
    /// Values of each column.
    pub num_values: usize,
    pub num_columns: usize,
    /// The definition level of each value, and how these are stored; empty without nulls.
    pub def: &'a [u16],
    pub def_plan: Option<BlockPlan>,
}

/// Pages of several columns, joined.
#[derive(Debug, Default)]
pub struct JoinedPages {
    /// Words and chunks of each page in turn, each padded to the alignment.
    pub data: Vec<u8>,
    /// Bytes of the words and of the chunks of each page, without padding.
    pub sizes: Vec<i64>,
}

/// Encodes a page for each column.
pub fn encode_each(
    columns: &Columns<'_>,
    coding: Coding,
    chunking: &Chunking,
    alignment: usize,
    padding: u8,
) -> Result<JoinedPages> {
    let &Columns {
        data,
        bits,
        num_values,
        num_columns,
        def,
        ..
    } = columns;
    let total = num_values.saturating_mul(num_columns);
    let fits = bits.saturating_mul(total).div_ceil(8) == data.len();
    if !fits || total == 0 || bits == 0 || alignment == 0 || ![0, total].contains(&def.len()) {
        return Err(Corrupt(format!(
            "{} bytes and {} levels of {num_columns} columns of {num_values} values of {bits} bits",
            data.len(),
            def.len()
        )));
    }
    let mut joined = JoinedPages::default();
    joined
        .data
        .reserve(data.len() + 2 * alignment * num_columns);
    for first in (0..total).step_by(num_values) {
        let input = if bits == 1 {
            Input::Bits { data, first }
        } else {
            let data = part(data, first * bits / 8, num_values * bits / 8, "columns")?;
            Input::Fixed { data, bits }
        };
        let levels = LevelsIn {
            rep: &[],
            def: part(
                def,
                first.min(def.len()),
                num_values.min(def.len()),
                "levels",
            )?,
            rep_plan: None,
            def_plan: columns.def_plan.clone(),
            max_rep: 0,
            max_visible: 1,
        };
        let page = encode(&input, coding, num_values, &levels, chunking)?;
        for buffer in [page.words, page.chunks] {
            joined.sizes.push(as_i64(buffer.len())?);
            joined.data.extend_from_slice(&buffer);
            let padded = joined.data.len().next_multiple_of(alignment);
            joined.data.resize(padded, padding);
        }
    }
    Ok(joined)
}

fn as_i64(size: usize) -> Result<i64> {
    i64::try_from(size).map_err(|_| Corrupt(format!("a buffer of {size} bytes")))
}
