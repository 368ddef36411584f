//! The search of product codes.
//!
//! Bytes of codes are read column by column. A byte is a code of 8 bits, or two of 4 bits, whose
//! entries are added beforehand; so there is a line of 256 entries for each column:
//!
//!     distance of a row = sum over the columns, in order, of line[byte], minus m - 1 for dot
//!
//! Blocks of 16 rows are added up together. A block is given up as soon as what the columns left
//! add at least lifts all of its rows above the limit.

use std::borrow::Cow;
use std::ops::Range;

use super::LANES;
use super::distance::Metric;
use super::product::{Codebook, transposed};
use super::search::Store;
use crate::error::{Result, ensure, part, rest};

/// How many columns are added between looks at the limit.
const COLUMNS: usize = 4;

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
    lines: Vec<[f32; 256]>,
    /// The least sums of the columns from each multiple of `COLUMNS` on.
    rests: Vec<f64>,
    /// More than the rounding of a sum.
    slack: f64,
    /// What is subtracted from each sum.
    excess: f32,
    table: Vec<f32>,
}

impl<'a> Codes<'a> {
    pub fn new(
        book: &'a Codebook,
        metric: Metric,
        codes: &'a [u8],
        is_transposed: bool,
        queries: &'a [f32],
        centroid: Option<&'a [f32]>,
    ) -> Result<Self> {
        let (bytes, dimension) = (book.num_bytes(), book.dimension());
        let is_whole = codes.len().is_multiple_of(bytes);
        ensure(is_whole, "bytes of codes", codes.len(), bytes)?;
        if let Some(centroid) = centroid {
            let found = centroid.len();
            ensure(
                found == dimension,
                "dimension of the centroid",
                found,
                dimension,
            )?;
        }
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
            lines: Vec::new(),
            rests: Vec::new(),
            slack: 0.0,
            excess,
            table: Vec::new(),
        })
    }

    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    fn set_lines(&mut self) {
        self.lines.clear();
        if self.book.num_codes() == 256 {
            self.lines.extend(self.table.as_chunks::<256>().0);
            return;
        }
        for pair in self.table.as_chunks::<16>().0.chunks_exact(2) {
            if let [low, high] = pair {
                let mut line = [0.0; 256];
                for (sums, high) in line.chunks_exact_mut(16).zip(high) {
                    for (sum, low) in sums.iter_mut().zip(low) {
                        *sum = low + high;
                    }
                }
                self.lines.push(line);
            }
        }
    }

    fn set_rests(&mut self) {
        self.rests.clear();
        let (mut least, mut greatest) = (0.0, 0.0);
        for (column, line) in self.lines.iter().enumerate().rev() {
            let (low, high) = extremes(line);
            least += f64::from(low);
            greatest += f64::from(low.abs().max(high.abs()));
            if column % COLUMNS == 0 {
                self.rests.push(least);
            }
        }
        self.rests.reverse();
        let terms = self.lines.iter().fold(4.0, |terms, _| terms + 2.0);
        self.slack = (greatest + f64::from(self.excess)) * terms * f64::from(f32::EPSILON);
    }

    /// The sums of 16 rows from `first`; none if all of them are above the limit.
    #[inline(always)]
    fn sums(&self, first: usize, cuts: &[f32]) -> Result<Option<[f32; LANES]>> {
        let mut sums = [0f32; LANES];
        let mut next = first;
        for (index, (lines, &cut)) in self.lines.chunks(COLUMNS).zip(cuts).enumerate() {
            if index > 0 && sums.iter().fold(true, |all, &sum| all & (sum > cut)) {
                return Ok(None);
            }
            for line in lines {
                let bytes = rest(&self.codes, next, "codes")?.first_chunk::<LANES>();
                for (sum, &byte) in sums.iter_mut().zip(bytes.into_iter().flatten()) {
                    *sum += entry(line, byte);
                }
                next += self.num_rows;
            }
        }
        Ok(Some(sums.map(|sum| sum - self.excess)))
    }

    /// The sum of one row.
    fn sum(&self, row: usize) -> f32 {
        let bytes = self.codes.iter().skip(row).step_by(self.num_rows);
        let sum = self.lines.iter().zip(bytes);
        sum.fold(0.0, |sum, (line, &byte)| sum + entry(line, byte)) - self.excess
    }
}

impl Store for Codes<'_> {
    /// All, since the table of a query is made once.
    fn rows_per_tile(&self) -> usize {
        usize::MAX
    }

    fn gap(&self) -> usize {
        LANES
    }

    fn begin(&mut self, query: usize) -> Result<()> {
        let dimension = self.book.dimension();
        let query = part(self.queries, query * dimension, dimension, "query")?;
        match self.centroid {
            None => self.book.table(query, self.metric, &mut self.table)?,
            Some(centroid) => {
                let residual: Vec<f32> = query.iter().zip(centroid).map(|(q, c)| q - c).collect();
                self.book.table(&residual, self.metric, &mut self.table)?;
            }
        }
        self.set_lines();
        self.set_rests();
        Ok(())
    }

    #[allow(clippy::cast_possible_truncation)] // less than the slack
    fn measure(&self, rows: Range<usize>, limit: f32, out: &mut [f32]) -> Result<()> {
        let limit = f64::from(limit) + f64::from(self.excess) + self.slack;
        let cuts: Vec<f32> = self
            .rests
            .iter()
            .map(|rest| (limit - rest) as f32)
            .collect();
        let (blocks, tail) = out.as_chunks_mut::<LANES>();
        let mut row = rows.start;
        for block in blocks {
            *block = self.sums(row, &cuts)?.unwrap_or([f32::NAN; LANES]);
            row += LANES;
        }
        for (row, out) in (row..).zip(tail) {
            *out = self.sum(row);
        }
        Ok(())
    }
}

#[inline(always)]
#[allow(clippy::indexing_slicing)] // every u8 is an index of the line
fn entry(line: &[f32; 256], byte: u8) -> f32 {
    line[usize::from(byte)]
}

/// The least and the greatest entry.
fn extremes(line: &[f32; 256]) -> (f32, f32) {
    let (mut low, mut high) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
    for entries in line.as_chunks::<LANES>().0 {
        for ((low, high), &entry) in low.iter_mut().zip(&mut high).zip(entries) {
            *low = if entry < *low { entry } else { *low };
            *high = if entry > *high { entry } else { *high };
        }
    }
    (
        low.into_iter().fold(f32::INFINITY, f32::min),
        high.into_iter().fold(f32::NEG_INFINITY, f32::max),
    )
}
