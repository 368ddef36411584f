//! Codes of vectors in halves, from which lower bounds of distances are known; see `bounds`.
//!
//!     codes     -7 … 7 (4 bits), or -119 … 119 (8 bits)
//!     step      max |r| / 7 of the vector, or max |r| / 119
//!
//! A code of 8 bits is 16 times its upper half, a code of 4 bits, and its lower one. The upper halves
//! alone leave out most vectors; only for the others, the lower halves are read. Rows are packed in
//! groups; see `nibble_sums`.

use std::ops::Range;

use pulp::Arch;

use super::allowed::Allowed;
use super::bounds::{Frame, Group, MOST_OF_CODE, Target, inverse_of, is_above};
use super::distance::Metric;
use super::nibble_sums::{self, Block, CODES, ROWS, SEVERAL, Sums};
use super::rounded::{Lengths, Measured, Rounded};
use crate::error::{Result, ensure, part};

/// How many groups of rows are compared at once; each has a bit of an integer.
const GROUPS: usize = 32;

/// The greatest code of 4 bits.
const MOST_OF_HALF: f32 = 7.0;

/// What an upper half counts.
const UPPER: i8 = 16;

/// The codes of the vectors of a part.
pub struct Codes {
    num_rows: usize,
    upper: Halves,
    lower: Option<Halves>,
}

/// Halves of codes, and what is known of the vectors by their codes up to these.
struct Halves {
    blocks: Vec<Block>,
    groups: Vec<Group>,
}

/// Groups of which the upper halves of codes were compared with a query.
struct Compared<'a> {
    /// The number of their first row.
    first: usize,
    sums: &'a [Sums],
    bounds: &'a mut [[f32; ROWS]],
    /// A bit for each group that has a bound not above the limit.
    near: u32,
}

impl Codes {
    /// Makes the codes of `count` vectors, of 8 bits or of 4.
    pub fn new(
        frame: &Frame,
        count: usize,
        has_lower: bool,
        vectors: impl Iterator<Item = Vec<f32>>,
    ) -> Self {
        let mut upper = Halves::new(frame, count);
        let mut lower = has_lower.then(|| Halves::new(frame, count));
        let mut codes = vec![0i8; frame.dimension];
        let mut halves = codes.clone();
        for (row, mut vector) in vectors.enumerate() {
            let inverse = match frame.metric {
                Metric::Cosine => Some(inverse_of(&vector)),
                _ => None,
            };
            let mut found = Arch::new().dispatch(Rounded {
                values: &mut vector,
                mean: &frame.mean,
                most: if has_lower {
                    MOST_OF_CODE
                } else {
                    MOST_OF_HALF
                },
                codes: &mut codes,
                rounding: frame.rounding,
            });
            if let Some(lower) = &mut lower {
                for (half, code) in halves.iter_mut().zip(&mut codes) {
                    *half = lower_half(*code);
                    *code = upper_half(*code);
                }
                lower.put(frame, row, &halves, found, inverse);
                found = Arch::new().dispatch(Measured {
                    values: &vector,
                    step: found.step * f32::from(UPPER),
                    codes: &codes,
                    rounding: frame.rounding,
                });
            }
            upper.put(frame, row, &codes, found, inverse);
        }
        Self {
            num_rows: count,
            upper,
            lower,
        }
    }

    pub fn size_bytes(&self) -> usize {
        self.upper.size_bytes() + self.lower.as_ref().map_or(0, Halves::size_bytes)
    }

    /// Writes a lower bound of the distance of each of some vectors, by the upper halves of their
    /// codes; NaN if there is none.
    pub fn bounds(
        &self,
        frame: &Frame,
        target: &Target,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<()> {
        self.each(
            frame,
            target,
            rows.clone(),
            Allowed::ALL,
            f32::NAN,
            |first, _, bounds, _| {
                let place = first.max(rows.start);
                let bounds = bounds.as_flattened().iter().skip(place - first);
                for (out, bound) in out.iter_mut().skip(place - rows.start).zip(bounds) {
                    *out = *bound;
                }
                Ok(())
            },
        )
    }

    /// Appends the allowed rows whose bound is not above a limit.
    pub fn within(
        &self,
        frame: &Frame,
        target: &Target,
        rows: Range<usize>,
        allowed: Allowed<'_>,
        limit: f32,
        found: &mut Vec<usize>,
    ) -> Result<()> {
        self.each(
            frame,
            target,
            rows.clone(),
            allowed,
            limit,
            |first, sums, bounds, near| {
                let some = Compared {
                    first,
                    sums,
                    bounds,
                    near,
                };
                self.add_near(frame, target, &rows, allowed, limit, some, found)
            },
        )
    }

    /// Appends for each of several queries the rows whose bound is not above its limit.
    pub fn within_each(
        &self,
        frame: &Frame,
        targets: [(&Target, f32); SEVERAL],
        rows: &Range<usize>,
        mut found: [&mut Vec<usize>; SEVERAL],
    ) -> Result<()> {
        let (mut sums, mut bounds) = ([[[0; ROWS]; GROUPS]; SEVERAL], [[0.0; ROWS]; GROUPS]);
        for (first, count) in self.steps(rows)? {
            let mut all = sums.each_mut().map(|sums| sums.split_at_mut(count).0);
            self.upper.products_of_several(
                frame,
                targets.map(|(target, _)| target),
                first,
                &mut all,
            )?;
            let groups = part(&self.upper.groups, first, count, "vectors with bounds")?;
            let (bounds, _) = bounds.split_at_mut(count);
            for ((sums, (target, limit)), found) in all.into_iter().zip(targets).zip(&mut found) {
                let near = target.bounds(frame, groups, sums, limit, bounds);
                let some = Compared {
                    first: first * ROWS,
                    sums,
                    bounds,
                    near,
                };
                self.add_near(frame, target, rows, Allowed::ALL, limit, some, found)?;
            }
        }
        Ok(())
    }

    /// Appends the allowed rows of some groups whose bound by whole codes is not above a limit.
    #[allow(clippy::too_many_arguments)]
    fn add_near(
        &self,
        frame: &Frame,
        target: &Target,
        rows: &Range<usize>,
        allowed: Allowed<'_>,
        limit: f32,
        some: Compared<'_>,
        found: &mut Vec<usize>,
    ) -> Result<()> {
        let mut near = some.near;
        while near != 0 {
            let place = near.trailing_zeros() as usize;
            near &= near - 1;
            let first = some.first + place * ROWS;
            if let (Some(sums), Some(bounds)) = (some.sums.get(place), some.bounds.get_mut(place)) {
                if let Some(lower) = &self.lower {
                    *bounds = lower.refined(frame, target, first, sums)?;
                }
                for (row, &bound) in (first..).zip(&*bounds) {
                    if !is_above(bound, limit) && rows.contains(&row) && allowed.contains(row) {
                        found.push(row);
                    }
                }
            }
        }
        Ok(())
    }

    /// The first of some groups and how many they are, for all groups with some rows.
    fn steps(&self, rows: &Range<usize>) -> Result<impl Iterator<Item = (usize, usize)> + use<>> {
        let (found, expected) = (rows.end, self.num_rows);
        ensure(
            found <= expected,
            "end of vectors with bounds",
            found,
            expected,
        )?;
        let end = rows.end.div_ceil(ROWS);
        let firsts = (rows.start / ROWS..end).step_by(GROUPS);
        Ok(firsts.map(move |first| (first, (end - first).min(GROUPS))))
    }

    /// Calls `visit` for some groups after others: with the number of their first row, the sums and
    /// bounds by the upper halves of codes, and a bit for each group that has a bound not above the
    /// limit. Groups without allowed rows have none of these.
    fn each(
        &self,
        frame: &Frame,
        target: &Target,
        rows: Range<usize>,
        allowed: Allowed<'_>,
        limit: f32,
        mut visit: impl FnMut(usize, &[Sums], &mut [[f32; ROWS]], u32) -> Result<()>,
    ) -> Result<()> {
        let (mut sums, mut bounds) = ([[0; ROWS]; GROUPS], [[0.0; ROWS]; GROUPS]);
        for (first, count) in self.steps(&rows)? {
            let mut near = 0;
            for run in allowed.runs_of_groups(first * ROWS, count) {
                let (start, own) = (run.start, sums.get_mut(run.clone()));
                if let (Some(sums), Some(bounds)) = (own, bounds.get_mut(run)) {
                    let first = first + start;
                    let found = self
                        .upper
                        .compare(frame, target, first, limit, sums, bounds)?;
                    near |= found << start;
                }
            }
            let (sums, _) = sums.split_at_mut(count);
            let (bounds, _) = bounds.split_at_mut(count);
            visit(first * ROWS, sums, bounds, near)?;
        }
        Ok(())
    }
}

impl Halves {
    fn new(frame: &Frame, count: usize) -> Self {
        let num_groups = count.div_ceil(ROWS);
        Self {
            blocks: vec![Block::default(); num_groups * frame.dimension.div_ceil(CODES)],
            groups: vec![Group::default(); num_groups],
        }
    }

    /// Stores the halves of the codes of a vector, which has these lengths by them.
    fn put(
        &mut self,
        frame: &Frame,
        row: usize,
        halves: &[i8],
        lengths: Lengths,
        inverse: Option<f32>,
    ) {
        let width = frame.dimension.div_ceil(CODES);
        if let Some(blocks) = self.blocks.chunks_exact_mut(width).nth(row / ROWS) {
            nibble_sums::pack(halves, row % ROWS, blocks);
        }
        if let Some(group) = self.groups.get_mut(row / ROWS) {
            group.set(row % ROWS, lengths, inverse);
        }
    }

    /// Writes the products of some groups with the query, and their bounds by these; returns a bit
    /// for each group that has a bound not above a limit.
    fn compare(
        &self,
        frame: &Frame,
        target: &Target,
        first: usize,
        limit: f32,
        sums: &mut [Sums],
        out: &mut [[f32; ROWS]],
    ) -> Result<u32> {
        self.products(frame, target, first, sums)?;
        let groups = part(&self.groups, first, sums.len(), "vectors with bounds")?;
        Ok(target.bounds(frame, groups, sums, limit, out))
    }

    /// The bounds of a group by whole codes, of which these are the lower halves.
    fn refined(
        &self,
        frame: &Frame,
        target: &Target,
        first: usize,
        of_upper: &Sums,
    ) -> Result<[f32; ROWS]> {
        let (mut sums, mut bounds) = ([[0; ROWS]], [[0.0; ROWS]]);
        self.products(frame, target, first / ROWS, &mut sums)?;
        for (sum, of_upper) in sums.as_flattened_mut().iter_mut().zip(of_upper) {
            *sum += i32::from(UPPER) * of_upper;
        }
        let groups = part(&self.groups, first / ROWS, 1, "vectors with bounds")?;
        target.bounds(frame, groups, &sums, f32::NAN, &mut bounds);
        let [bounds] = bounds;
        Ok(bounds)
    }

    /// Writes the products of some groups with the query.
    fn products(
        &self,
        frame: &Frame,
        target: &Target,
        first: usize,
        out: &mut [Sums],
    ) -> Result<()> {
        let width = frame.dimension.div_ceil(CODES);
        let blocks = part(&self.blocks, first * width, out.len() * width, "codes")?;
        nibble_sums::products(blocks, &target.numbers, out);
        Ok(())
    }

    /// Writes the products of some groups with several queries.
    fn products_of_several(
        &self,
        frame: &Frame,
        targets: [&Target; SEVERAL],
        first: usize,
        out: &mut [&mut [Sums]; SEVERAL],
    ) -> Result<()> {
        let width = frame.dimension.div_ceil(CODES);
        let [count, ..] = out.each_ref().map(|sums| sums.len());
        let blocks = part(&self.blocks, first * width, count * width, "codes")?;
        let queries = targets.map(|target| &target.numbers);
        nibble_sums::products_of_several(blocks, queries, out.each_mut().map(|sums| &mut **sums));
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        size_of_val(self.blocks.as_slice()) + size_of_val(self.groups.as_slice())
    }
}

/// The upper half of a code of 8 bits, between -7 and 7.
fn upper_half(code: i8) -> i8 {
    code.wrapping_add(UPPER / 2) >> UPPER.trailing_zeros()
}

/// The lower half, between -8 and 7.
fn lower_half(code: i8) -> i8 {
    code.wrapping_sub(upper_half(code).wrapping_mul(UPPER))
}
