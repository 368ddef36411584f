//! The search of product codes.
//!
//! Bytes of codes are read column by column. A byte is a code of 8 bits, or two of 4 bits, whose
//! entries are added beforehand; so there is a line of 256 entries for each column:
//!
//!     distance of a row = sum over the columns, in order, of line[byte], minus m - 1 for dot
//!
//! Once there is a limit, rows that cannot be within it are left out (`product_filter`,
//! `product_thinning`). The rows of the first part with the least sums of small entries lead to it:
//! with the first rows that come, it would be too great for a long time. Where few rows are left,
//! they are added up one by one, and groups of 16 rows together otherwise. A group is given up as
//! soon as what the columns left add at least lifts all of its rows above the limit.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::LANES;
use super::allowed::Allowed;
use super::distance::Metric;
use super::product::{Codebook, Table, transposed};
use super::product_filter::{BLOCKS, Filter, ROWS};
use super::product_tables::Tables;
use super::product_thinning::Thinner;
use super::search::Store;
use crate::error::{Result, ensure, out_of_range, rest};

/// How many columns are added between looks at the limit.
const COLUMNS: usize = 4;

/// So many rows, at least, lead to the limit by which the least sums of a part are found.
const FIRST: usize = 128;

/// So many of 32 rows are added up one by one, and of `BLOCKS` blocks without a test.
const FEW: u32 = 8;

/// The codes of a partition, and the queries.
pub struct Codes<'a> {
    book: &'a Codebook,
    metric: Metric,
    /// Column by column.
    codes: Cow<'a, [u8]>,
    num_rows: usize,
    queries: &'a [f32],
    /// It is subtracted from the queries.
    centroid: Option<&'a [f32]>,
    /// The tables, and the number of that of the next query.
    tables: Arc<Tables<'a>>,
    number: usize,
    /// The lines of codes of 4 bits; those of 8 bits are the table.
    pairs: Vec<[f32; 256]>,
    filter: Filter,
    thinner: Thinner,
    /// The least sums of the columns from each multiple of `COLUMNS` on.
    rests: Vec<f64>,
    /// More than the rounding of a sum: relative to it, and what is added for dot, where terms
    /// may be negative.
    rounding: f64,
    slack: f64,
    /// What is subtracted from each sum.
    excess: f32,
    table: Arc<Table>,
}

impl<'a> Codes<'a> {
    /// Parts that are searched by the same queries: the codes of each, and its centroid.
    pub fn of_parts(
        book: &'a Codebook,
        metric: Metric,
        is_transposed: bool,
        queries: &'a [f32],
        parts: &[(&'a [u8], Option<&'a [f32]>)],
    ) -> Result<Vec<Self>> {
        let mut targets = Vec::new();
        let mut numbers = Vec::with_capacity(parts.len());
        for &(_, centroid) in parts {
            if centroid.is_some() || targets.is_empty() {
                targets.push((queries, centroid));
            }
            numbers.push(targets.len() - 1);
        }
        if queries.len() > book.dimension() {
            targets.clear(); // those of each part are made by `prepare`
        }
        let tables = Arc::new(Tables::new(book, metric, targets)?);
        let each = parts.iter().zip(numbers);
        each.map(|(&(codes, centroid), number)| {
            let tables = tables.clone();
            Self::new(
                book,
                metric,
                codes,
                is_transposed,
                queries,
                centroid,
                tables,
                number,
            )
        })
        .collect()
    }

    #[allow(clippy::too_many_arguments)]
    fn new(
        book: &'a Codebook,
        metric: Metric,
        codes: &'a [u8],
        is_transposed: bool,
        queries: &'a [f32],
        centroid: Option<&'a [f32]>,
        tables: Arc<Tables<'a>>,
        number: usize,
    ) -> Result<Self> {
        let bytes = book.num_bytes();
        let is_whole = codes.len().is_multiple_of(bytes);
        ensure(is_whole, "bytes of codes", codes.len(), bytes)?;
        let mut excess = 0.0;
        if metric == Metric::Dot {
            // The terms 1 of all sub-vectors but one.
            excess = (1..book.num_sub_vectors()).fold(0.0, |sum, _| sum + 1.0);
        }
        Ok(Self {
            book,
            metric,
            codes: if is_transposed {
                codes.into()
            } else {
                transposed(codes, bytes)?.into()
            },
            num_rows: codes.len() / bytes,
            queries,
            centroid,
            tables,
            number,
            pairs: Vec::new(),
            filter: Filter::default(),
            thinner: Thinner::default(),
            rests: Vec::new(),
            rounding: 0.0,
            slack: 0.0,
            excess,
            table: Arc::default(),
        })
    }

    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    fn set_pairs(&mut self) {
        self.pairs.clear();
        if self.book.num_codes() == 256 {
            return;
        }
        for pair in self.table.entries().as_chunks::<16>().0.chunks_exact(2) {
            if let [low, high] = pair {
                let mut line = [0.0; 256];
                for (sums, high) in line.chunks_exact_mut(16).zip(high) {
                    for (sum, low) in sums.iter_mut().zip(low) {
                        *sum = low + high;
                    }
                }
                self.pairs.push(line);
            }
        }
    }

    fn lines(&self) -> &[[f32; 256]] {
        if self.book.num_codes() == 256 {
            self.table.entries().as_chunks().0
        } else {
            &self.pairs
        }
    }

    fn set_rests(&mut self) {
        let per_column = self.book.num_sub_vectors() / self.book.num_bytes();
        let mut least = 0.0;
        self.rests.clear();
        for lows in self.filter.lows().chunks(COLUMNS * per_column).rev() {
            least += lows.iter().copied().map(f64::from).sum::<f64>();
            self.rests.push(least);
        }
        self.rests.reverse();
        let entries = if self.metric == Metric::Dot {
            greatest(self.table.entries(), self.book.num_codes())
        } else {
            0.0
        };
        let terms = self.filter.lows().iter().fold(4.0, |terms, _| terms + 2.0);
        self.rounding = terms * f64::from(f32::EPSILON);
        self.slack = (entries + f64::from(self.excess)) * self.rounding;
    }

    /// Adds up groups of 16 rows, and leaves only those of which some row is within the limit.
    ///
    /// The lines of some columns serve all groups before those of the next ones are needed, as a
    /// first-level cache is too small for all lines.
    fn add_up(&self, groups: &mut Vec<Group>, cuts: &[f32]) -> Result<()> {
        let mut start = 0;
        for (index, (lines, &cut)) in self.lines().chunks(COLUMNS).zip(cuts).enumerate() {
            if index > 0 {
                groups.retain(|group| !group.is_above(cut));
            }
            for group in groups.iter_mut() {
                self.add_some(lines, start + group.first, &mut group.sums)?;
            }
            start += lines.len() * self.num_rows;
        }
        Ok(())
    }

    /// Adds some columns to the sums of 16 rows; the first byte is at `start`.
    #[inline(always)]
    fn add_some(&self, lines: &[[f32; 256]], start: usize, sums: &mut [f32; LANES]) -> Result<()> {
        let column = |number: usize| {
            let bytes = rest(&self.codes, start + number * self.num_rows, "codes")?;
            bytes
                .first_chunk::<LANES>()
                .ok_or_else(|| out_of_range("codes"))
        };
        if let [line0, line1, line2, line3] = lines {
            let bytes = column(0)?.iter().zip(column(1)?);
            let bytes = bytes.zip(column(2)?.iter().zip(column(3)?));
            for (sum, ((&a, &b), (&c, &d))) in sums.iter_mut().zip(bytes) {
                // One load and one store of a sum for four entries.
                *sum = *sum + entry(line0, a) + entry(line1, b) + entry(line2, c) + entry(line3, d);
            }
            return Ok(());
        }
        for (number, line) in lines.iter().enumerate() {
            for (sum, &byte) in sums.iter_mut().zip(column(number)?) {
                *sum += entry(line, byte);
            }
        }
        Ok(())
    }

    /// Sets the bits of the allowed rows of blocks that may be within a limit.
    fn keep(&mut self, start: usize, allowed: Allowed<'_>, limit: f64, masks: &mut [u32]) {
        for (mask, first) in masks.iter_mut().zip((start..).step_by(ROWS)) {
            *mask = allowed.rows(first);
        }
        let num_allowed: u32 = masks.iter().map(|mask| mask.count_ones()).sum();
        let mut near = [0; BLOCKS];
        let near = near.split_at_mut(masks.len()).0;
        let (codes, count) = (&self.codes, self.num_rows);
        if num_allowed <= FEW || !self.filter.keep(codes, count, start, limit, near) {
            return;
        }
        for (mask, near) in masks.iter_mut().zip(near) {
            *mask &= *near;
        }
        if self.book.num_codes() == 256 {
            let (filter, entries) = (&self.filter, self.table.entries());
            self.thinner
                .thin(filter, entries, codes, count, start, limit, FEW, masks);
        }
    }

    /// Writes the sums of the rows of a block whose bits are set, or adds groups of rows to those
    /// that are added up later; NaN for all others.
    fn measure_block(
        &self,
        first: usize,
        mask: u32,
        groups: &mut Vec<Group>,
        out: &mut [f32; ROWS],
    ) {
        out.fill(f32::NAN);
        if mask.count_ones() > FEW {
            let halves = (first..).step_by(LANES).zip([mask & 0xffff, mask >> 16]);
            let dense = halves.filter(|&(_, mask)| mask != 0);
            groups.extend(dense.map(|(first, _)| Group::new(first)));
            return;
        }
        let mut left = mask;
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            if let Some(out) = out.get_mut(place) {
                *out = self.sum(first + place);
            }
            left &= left - 1;
        }
    }

    /// A limit that enough of the first rows are within.
    fn first_limit(&mut self, rows: &Range<usize>, count: usize) -> Result<f64> {
        let size = rows.len().min(count.max(FIRST));
        let (first, mut distances) = (rows.start..rows.start + size, vec![0.0; size]);
        self.measure(first, Allowed::ALL, f32::INFINITY, &mut distances)?;
        let place = count.min(size).saturating_sub(1);
        let (_, limit, _) = distances.select_nth_unstable_by(place, f32::total_cmp);
        Ok(self.cut(*limit))
    }

    /// What sums of entries are compared with: more than a limit of distances, for their rounding.
    fn cut(&self, limit: f32) -> f64 {
        let slack = f64::from(limit).abs() * self.rounding + self.slack;
        f64::from(limit) + f64::from(self.excess) + slack
    }

    /// The sum of one row.
    fn sum(&self, row: usize) -> f32 {
        let bytes = self.codes.iter().skip(row).step_by(self.num_rows);
        let sum = self.lines().iter().zip(bytes);
        sum.fold(0.0, |sum, (line, &byte)| sum + entry(line, byte)) - self.excess
    }
}

impl Store for Codes<'_> {
    /// All, since the table of a query is made once.
    fn rows_per_tile(&self) -> usize {
        usize::MAX
    }

    fn gap(&self) -> Option<usize> {
        None
    }

    fn prepare(&mut self, queries: &[u32]) -> Result<()> {
        if self.queries.len() > self.book.dimension() {
            let (book, metric, centroid) = (self.book, self.metric, self.centroid);
            let tables = Tables::of_queries(book, metric, self.queries, queries, centroid)?;
            (self.tables, self.number) = (Arc::new(tables), 0);
        }
        Ok(())
    }

    fn begin(&mut self, _query: usize) -> Result<()> {
        self.table = self.tables.take(self.number)?;
        self.number += 1;
        self.filter.set(&self.table.least);
        self.thinner.clear();
        self.set_pairs();
        self.set_rests();
        Ok(())
    }

    fn is_beyond(&self, limit: f32) -> bool {
        self.rests
            .first()
            .is_some_and(|&least| least > self.cut(limit))
    }

    fn most_ahead(&self) -> usize {
        usize::MAX
    }

    fn promising(&mut self, rows: Range<usize>, count: usize) -> Result<Vec<usize>> {
        let limit = self.first_limit(&rows, count)?;
        let mut sums = vec![[u8::MAX; ROWS]; rows.len() / ROWS];
        let (codes, num_rows) = (&self.codes, self.num_rows);
        if !self
            .filter
            .add_up(codes, num_rows, rows.start, limit, &mut sums)
        {
            return Ok(Vec::new());
        }
        Ok(least_of(sums.as_flattened(), count, rows.start))
    }

    #[allow(clippy::cast_possible_truncation)] // less than the slack
    fn measure(
        &mut self,
        rows: Range<usize>,
        allowed: Allowed<'_>,
        limit: f32,
        out: &mut [f32],
    ) -> Result<()> {
        if let [out] = out {
            *out = self.sum(rows.start);
            return Ok(());
        }
        let limit = self.cut(limit);
        let cuts: Vec<f32> = self
            .rests
            .iter()
            .map(|rest| (limit - rest) as f32)
            .collect();
        let mut start = rows.start;
        let mut masks = [u32::MAX; BLOCKS];
        let mut groups = Vec::new();
        for out in out.chunks_mut(BLOCKS * ROWS) {
            let (blocks, tail) = out.as_chunks_mut::<ROWS>();
            let masks = masks.split_at_mut(blocks.len()).0;
            self.keep(start, allowed, limit, masks);
            let mut row = start;
            for (block, &mask) in blocks.iter_mut().zip(&*masks) {
                self.measure_block(row, mask, &mut groups, block);
                row += ROWS;
            }
            let (tail, single) = tail.as_chunks_mut::<LANES>();
            for group in tail {
                group.fill(f32::NAN);
                groups.push(Group::new(row));
                row += LANES;
            }
            for out in single {
                *out = self.sum(row);
                row += 1;
            }
            self.add_up(&mut groups, &cuts)?;
            for group in groups.drain(..) {
                let own = out.iter_mut().skip(group.first - start);
                for (out, sum) in own.zip(group.sums) {
                    *out = sum - self.excess;
                }
            }
            start = row;
        }
        Ok(())
    }
}

/// The sums of 16 rows.
struct Group {
    first: usize,
    sums: [f32; LANES],
}

impl Group {
    fn new(first: usize) -> Self {
        Self {
            first,
            sums: [0.0; LANES],
        }
    }

    /// Whether all sums are above a limit.
    fn is_above(&self, limit: f32) -> bool {
        self.sums.iter().fold(true, |all, &sum| all & (sum > limit))
    }
}

#[inline(always)]
#[allow(clippy::indexing_slicing)] // every u8 is an index of the line
fn entry(line: &[f32; 256], byte: u8) -> f32 {
    line[usize::from(byte)]
}

/// The rows of the `count` least sums; the first row is `first`.
#[allow(clippy::indexing_slicing)] // every u8 is an index
fn least_of(sums: &[u8], count: usize, first: usize) -> Vec<usize> {
    let mut counts = [0usize; 256];
    for &sum in sums {
        counts[usize::from(sum)] += 1;
    }
    let (mut below, mut most) = (0, u8::MAX);
    for (sum, &of_sum) in (0..=u8::MAX).zip(&counts) {
        if below + of_sum >= count {
            most = sum;
            break;
        }
        below += of_sum;
    }
    let mut of_most = count - below.min(count);
    let mut rows = Vec::with_capacity(count);
    for (row, &sum) in (first..).zip(sums) {
        if sum < most || sum == most && of_most > 0 {
            of_most -= usize::from(sum == most);
            rows.push(row);
        }
    }
    rows
}

/// The sum of the greatest entries of all sub-vectors, without their signs.
fn greatest(table: &[f32], num_codes: usize) -> f64 {
    let of_one = |entries: &[f32]| {
        let mut greatest = [0.0f32; LANES];
        for entries in entries.as_chunks::<LANES>().0 {
            for (greatest, entry) in greatest.iter_mut().zip(entries) {
                *greatest = if entry.abs() > *greatest {
                    entry.abs()
                } else {
                    *greatest
                };
            }
        }
        f64::from(greatest.into_iter().fold(0.0, f32::max))
    };
    table.chunks(num_codes).map(of_one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_least_sums() {
        let sums = [9, 3, 255, 3, 0, 3, 7];
        for (count, expected) in [
            (0, vec![]),
            (1, vec![14]),
            (2, vec![11, 14]),
            (4, vec![11, 13, 14, 15]),
            (7, vec![10, 11, 12, 13, 14, 15, 16]),
            (9, vec![10, 11, 12, 13, 14, 15, 16]),
        ] {
            assert_eq!(least_of(&sums, count, 10), expected);
        }
    }
}
