//! Tests rows of mini-block pages without lists.
//!
//! A row is null if its definition level is not 0, whichever layer is null. The value of a null is
//! tested too, and the result ignored.

use std::ops::Range;

use super::Condition;
use super::values::{Chunk, Found, Prepared, Scratch, test};
use crate::bitmap::BitmapBuilder;
use crate::block::append_zero_levels;
use crate::chunks;
use crate::error::{Corrupt, Result, ensure, part};
use crate::mini_block::{Page, Parts, Rows, is_wanted, select_values};
use crate::ranges::num_rows;

/// Tests the selected rows of one page; returns a bit per row.
pub fn mask(page: &Page, rows: &Rows<'_>, condition: &Condition) -> Result<Vec<u8>> {
    ensure(
        page.layers.max_rep == 0,
        "repetition levels",
        page.layers.max_rep,
        "none in a page whose rows are tested",
    )?;
    let mut masker = Masker {
        page,
        prepared: Prepared::new(condition, &page.values)?,
        found: Found::default(),
        valid: BitmapBuilder::default(),
        scratch: Scratch::default(),
        levels: (Vec::new(), Vec::new()),
        ranges: Vec::new(),
    };
    let mut cursor = 0;
    for chunk in &rows.chunks {
        masker
            .take(rows, chunk, &mut cursor)
            .map_err(|error| error.at(format_args!("chunk of row {}", chunk.first_row)))?;
    }
    let (found, wanted) = (masker.found.values.len(), num_rows(rows.wanted));
    ensure(found == wanted, "rows of the chunks", found, wanted)?;
    masker.finish(condition)
}

struct Masker<'a> {
    page: &'a Page,
    prepared: Prepared<'a>,
    found: Found,
    valid: BitmapBuilder,
    scratch: Scratch,
    levels: (Vec<u8>, Vec<u16>),
    ranges: Vec<Range<usize>>,
}

impl Masker<'_> {
    fn take(&mut self, rows: &Rows<'_>, chunk: &chunks::Chunk, cursor: &mut usize) -> Result<()> {
        let page = self.page;
        if !is_wanted(page, chunk, rows.wanted, cursor) {
            return Ok(());
        }
        let bytes = part(rows.body, chunk.start, chunk.size, "chunk, bytes")?;
        let mut parts = Parts::new(page, bytes)?;
        self.ranges.clear();
        select_values(chunk, rows.wanted, cursor, &mut self.ranges);
        if let Some(plan) = &page.def {
            let count = parts.num_levels;
            ensure(
                count == chunk.num_values,
                "levels of a chunk",
                count,
                chunk.num_values,
            )?;
            let data = parts.next(parts.def_size)?;
            let (ranges, levels) = (&self.ranges, &mut self.levels);
            append_zero_levels(plan, data, count, ranges, levels, &mut self.valid)?;
        }
        let mut buffers = Vec::with_capacity(page.num_buffers);
        for index in 0..page.num_buffers {
            let size = parts.value_size(index)?;
            buffers.push(parts.next(size)?);
        }
        let chunk = Chunk {
            buffers: &buffers,
            count: chunk.num_values,
            ranges: &self.ranges,
        };
        let (plan, scratch) = (&page.values, &mut self.scratch);
        test(plan, &chunk, &self.prepared, scratch, &mut self.found)
    }

    fn finish(mut self, condition: &Condition) -> Result<Vec<u8>> {
        let num_rows = self.found.values.len();
        let mut bits = self.found.values.finish();
        if self.page.def.is_none() {
            self.valid.extend_constant(true, num_rows);
        }
        let valid = self.valid.finish();
        ensure(valid.len() == bits.len(), "levels", valid.len(), bits.len())?;
        let beyond = self.found.beyond.finish();
        if beyond
            .iter()
            .zip(&valid)
            .any(|(one, valid)| one & valid != 0)
        {
            let limit = condition.limit.unwrap_or_default();
            return Err(Corrupt(format!(
                "dictionary indices beyond its {limit} values"
            )));
        }
        let null = if condition.null { u8::MAX } else { 0 };
        for (byte, valid) in bits.iter_mut().zip(&valid) {
            *byte = *byte & valid | null & !valid;
        }
        if let Some(last) = bits.last_mut() {
            *last &= u8::MAX >> (num_rows.wrapping_neg() % 8);
        }
        Ok(bits)
    }
}
