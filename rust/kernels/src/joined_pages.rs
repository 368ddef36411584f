//! Mini-block pages of several columns of numbers, encoded one after the other and joined.
//!
//! Tables of thousands of columns have small pages, which one call makes together.

use crate::error::{Corrupt, Result};
use crate::mini_block_writer::{Chunking, Coding, Input, LevelsIn, encode};

/// Pages of several columns, joined.
#[derive(Debug, Default)]
pub struct JoinedPages {
    /// Words and chunks of each page in turn, each padded to the alignment.
    pub data: Vec<u8>,
    /// Bytes of the words and of the chunks of each page, without padding.
    pub sizes: Vec<i64>,
}

/// Encodes columns of `num_values` values of `bits` bits (a multiple of 8) that lie one after the
/// other, without levels: a page for each.
pub fn encode_each(
    data: &[u8],
    bits: usize,
    coding: Coding,
    num_values: usize,
    chunking: &Chunking,
    alignment: usize,
    padding: u8,
) -> Result<JoinedPages> {
    let column_bytes = (bits / 8).saturating_mul(num_values);
    if column_bytes == 0 || !data.len().is_multiple_of(column_bytes) || alignment == 0 {
        let found = data.len();
        return Err(Corrupt(format!(
            "{found} bytes of columns of {column_bytes}"
        )));
    }
    let levels = LevelsIn {
        rep: &[],
        def: &[],
        rep_plan: None,
        def_plan: None,
        max_rep: 0,
        max_visible: 0,
    };
    let mut joined = JoinedPages::default();
    for data in data.chunks_exact(column_bytes) {
        let input = Input::Fixed { data, bits };
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
