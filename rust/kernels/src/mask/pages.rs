//! Tests rows of mini-block pages without lists.
//!
//! A row is null if its definition level is not 0, whichever layer is null. The value of a null is
//! tested too, and the result ignored.

use std::ops::Range;

use super::numbers::{Numbers, Order};
use super::values::{Chunk, Prepared, Scratch, number_bits, test};
use super::{Condition, INDEX_BITS, Test};
use crate::bitmap::BitmapBuilder;
use crate::block::decode_level_ranges;
use crate::chunks;
use crate::error::{Corrupt, Result, ensure, part};
use crate::mini_block::{Page, Parts, Rows, is_wanted, num_rows, select_values};

/// Tests the selected rows of one page; returns a bit per row.
pub fn mask(page: &Page, rows: &Rows<'_>, condition: &Condition) -> Result<Vec<u8>> {
    ensure(
        page.layers.max_rep == 0,
        "repetition levels",
        page.layers.max_rep,
        "none in a page whose rows are tested",
    )?;
    let (found, beyond) = match (&condition.test, condition.limit) {
        (Test::Numbers(numbers), Some(limit)) => {
            let (found, beyond) = of_indices(page, numbers, limit)?;
            (found, Some(beyond))
        }
        (test, _) => (test.clone(), None),
    };
    let mut masker = Masker {
        page,
        prepared: Prepared::new(&found)?,
        beyond: beyond.as_ref().map(Prepared::new).transpose()?,
        values: BitmapBuilder::default(),
        valid: BitmapBuilder::default(),
        unknown: BitmapBuilder::default(),
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
    let (found, wanted) = (masker.values.len(), num_rows(rows.wanted));
    ensure(found == wanted, "rows of the chunks", found, wanted)?;
    masker.finish(condition)
}

/// The tests of the indices of a dictionary: whether they are in the set, and whether they are at
/// or after its end.
fn of_indices(page: &Page, numbers: &Numbers, limit: usize) -> Result<(Test, Test)> {
    let bits = number_bits(&page.values)?;
    let beyond = Numbers::within(Order::Unsigned, INDEX_BITS, Some(limit as u128), None)?;
    Ok((
        Test::Numbers(numbers.of_bits(bits)?),
        Test::Numbers(beyond.of_bits(bits)?),
    ))
}

struct Masker<'a> {
    page: &'a Page,
    prepared: Prepared<'a>,
    beyond: Option<Prepared<'a>>,
    values: BitmapBuilder,
    valid: BitmapBuilder,
    unknown: BitmapBuilder,
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
            let (bytes, def) = &mut self.levels;
            decode_level_ranges(plan, data, count, &self.ranges, bytes, def)?;
            self.valid.extend_with(def, |level| level == 0);
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
        test(plan, &chunk, &self.prepared, scratch, &mut self.values)?;
        if let Some(beyond) = &self.beyond {
            test(plan, &chunk, beyond, scratch, &mut self.unknown)?;
        }
        Ok(())
    }

    fn finish(mut self, condition: &Condition) -> Result<Vec<u8>> {
        let num_rows = self.values.len();
        let mut bits = self.values.finish();
        if self.page.def.is_none() {
            self.valid.extend_constant(true, num_rows);
        }
        let valid = self.valid.finish();
        ensure(valid.len() == bits.len(), "levels", valid.len(), bits.len())?;
        let unknown = self.unknown.finish();
        if unknown
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
