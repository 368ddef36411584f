//! The rows of partitions that are nearest to queries, by the estimates of RaBitQ codes.
//!
//!     h = R q, S = sum h_i, P = sum of h_i over the set bits of a row, e = bits - 1
//!     c the centroid, b c the part of the query whose product with a row has no error
//!
//!                 l2, cosine    dot
//!     a           0             1
//!     b           1             q.c / |c|^2
//!     g           |q - c|^2     1 - q.c
//!
//!     by signs    (P - S/2) scale + b (add - a) + g
//!     by all      (2^e P + sum u_i h_i - (2^e - 1/2) S) scale_all + b (add_all - a) + g
//!
//! P of 32 rows at once is known up to some slack. Only rows whose estimate can be small enough
//! are estimated exactly. If all bits count, the estimate by signs may be wrong by its error times
//! |q - b c|, which covers 1.9 standard deviations; half as many again are allowed for. The older
//! estimator uses the residual 2 / sqrt(D) R (q - c) as h, and for dot a = 0, b = 1, g = -(q.c).

use super::blocks::{self, BLOCK};
use super::codes::quotient;
use super::packing::{self, GROUP};
use super::tables::{Adder, Plain, Tables};
use crate::error::{Result, ensure, out_of_range, part};

/// Errors allowed for, in units of the stored ones.
const ERRORS: f32 = 1.5;

/// How distances are estimated.
#[derive(Clone, Copy)]
pub struct Estimator {
    pub dimension: usize,
    /// Bits of a component, the sign included.
    pub bits: usize,
    pub is_dot: bool,
    /// Whether only the signs count.
    pub by_signs: bool,
    /// Whether the residuals of queries are looked up, not the queries.
    pub by_residuals: bool,
    /// Whether sign codes are in the packed order.
    pub is_packed: bool,
}

/// The stored columns of a partition.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    pub signs: &'a [u8],
    pub add: &'a [f32],
    pub scale: &'a [f32],
    pub further: Option<Further<'a>>,
}

/// The stored columns of more than one bit.
#[derive(Clone, Copy)]
pub struct Further<'a> {
    pub codes: &'a [u8],
    pub error: &'a [f32],
    pub add: &'a [f32],
    pub scale: &'a [f32],
}

impl Columns<'_> {
    /// Fails unless all columns have the same number of rows.
    pub fn check(&self, estimator: Estimator) -> Result<usize> {
        let Estimator {
            dimension, bits, ..
        } = estimator;
        ensure((1..=9).contains(&bits), "codes, bits", bits, "1 to 9")?;
        let fits = dimension > 0 && dimension.is_multiple_of(8);
        ensure(fits, "codes, dimension", dimension, "a multiple of 8")?;
        let rows = self.add.len();
        let signs = rows * (dimension / 8);
        ensure(
            self.signs.len() == signs,
            "sign codes, bytes",
            self.signs.len(),
            signs,
        )?;
        ensure(
            self.scale.len() == rows,
            "scale factors",
            self.scale.len(),
            rows,
        )?;
        let Some(further) = self.further else {
            let known = bits == 1 || estimator.by_signs;
            ensure(known, "further bits", "none", bits - 1)?;
            return Ok(rows);
        };
        let bytes = rows * blocks::row_bytes(dimension, bits - 1);
        ensure(
            further.codes.len() == bytes,
            "further bits, bytes",
            further.codes.len(),
            bytes,
        )?;
        for column in [further.error, further.add, further.scale] {
            ensure(column.len() == rows, "factors", column.len(), rows)?;
        }
        Ok(rows)
    }
}

/// A query, prepared for the partitions that it searches.
pub struct Query {
    rotated: Vec<f32>,
    tables: Option<Tables>,
}

impl Query {
    /// Prepares a rotated query.
    pub fn new(rotated: &[f32], estimator: Estimator) -> Self {
        let tables = (!estimator.by_residuals).then(|| Tables::new(rotated));
        Self {
            rotated: rotated.to_vec(),
            tables,
        }
    }

    /// Prepares the search of a partition with this rotated centroid.
    fn at(&self, centroid: &[f32], estimator: Estimator, own: &mut Option<Tables>) -> Place {
        let pairs = || self.rotated.iter().zip(centroid);
        let product: f32 = pairs().map(|(q, c)| q * c).sum();
        let (base, along) = if estimator.is_dot && !estimator.by_residuals {
            let length = centroid.iter().map(|c| c * c).sum();
            (1.0, quotient(product, length))
        } else {
            (0.0, 1.0)
        };
        let residual: Vec<f32> = pairs().map(|(q, c)| q - along * c).collect();
        let square: f32 = residual.iter().map(|r| r * r).sum();
        let shift = if estimator.is_dot {
            base - product
        } else {
            square
        };
        let vector = if estimator.by_residuals {
            let unit = 2.0 / count(residual.len()).sqrt();
            let scaled: Vec<f32> = residual.iter().map(|value| value * unit).collect();
            *own = Some(Tables::new(&scaled));
            scaled
        } else {
            self.rotated.clone()
        };
        let sum = vector.iter().sum();
        let mut padded = vector;
        padded.resize(padded.len().next_multiple_of(BLOCK), 0.0);
        Place {
            padded,
            sum,
            base,
            along,
            shift,
            distance: square.sqrt(),
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn count(number: usize) -> f32 {
    number as f32
}

/// What a query and a partition have in common.
struct Place {
    /// h, followed by zeros.
    padded: Vec<f32>,
    /// S
    sum: f32,
    /// a
    base: f32,
    /// b
    along: f32,
    /// g
    shift: f32,
    /// |q - b c|
    distance: f32,
}

impl Place {
    /// The part of an estimate that does not depend on the sums.
    #[inline(always)]
    fn shifted(&self, add: f32) -> f32 {
        self.along * (add - self.base) + self.shift
    }
}

/// The estimate of a row, but for the sum over its signs.
struct Estimate {
    factor: f32,
    product: f32,
    centre: f32,
    scale: f32,
    shifted: f32,
}

impl Estimate {
    /// The estimate with a sum. It grows with the sum, or falls if the scale is negative, also as it
    /// is rounded.
    #[inline(always)]
    fn of(&self, sum: f32) -> f32 {
        (self.factor * sum + self.product - self.centre) * self.scale + self.shifted
    }
}

/// Where estimates go.
pub trait Sink {
    /// Estimates above it are of no use.
    fn most(&self) -> f32;
    /// A bit for each of 32 rows from `first` on that may be returned.
    fn allowed(&self, first: usize) -> u32;
    /// Takes the estimate of a row.
    fn add(&mut self, row: usize, distance: f32) -> Result<()>;
}

/// Estimates the distances of the rows of a partition.
///
/// `centroid` is rotated, as the query is.
pub fn search(
    estimator: Estimator,
    columns: Columns<'_>,
    centroid: &[f32],
    query: &Query,
    sink: &mut impl Sink,
) -> Result<()> {
    columns.check(estimator)?;
    let dimension = estimator.dimension;
    for vector in [centroid, &query.rotated] {
        ensure(
            vector.len() == dimension,
            "query, components",
            vector.len(),
            dimension,
        )?;
    }
    let mut own = None;
    let place = query.at(centroid, estimator, &mut own);
    let tables = own.as_ref().or(query.tables.as_ref());
    let scan = Scan {
        estimator,
        columns,
        tables: tables.ok_or_else(|| out_of_range("query, tables"))?,
        place,
        sink,
    };
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return simd.vectorize(Wide(scan, simd));
    }
    scan.run(Plain)
}

/// A scan with the instructions of this machine.
#[cfg(target_arch = "x86_64")]
struct Wide<'a, S>(Scan<'a, S>, pulp::x86::V3);

#[cfg(target_arch = "x86_64")]
impl<S: Sink> pulp::NullaryFnOnce for Wide<'_, S> {
    type Output = Result<()>;

    #[inline(always)]
    fn call(self) -> Result<()> {
        self.0.run(self.1)
    }
}

struct Scan<'a, S> {
    estimator: Estimator,
    columns: Columns<'a>,
    tables: &'a Tables,
    place: Place,
    sink: &'a mut S,
}

impl<S: Sink> Scan<'_, S> {
    #[inline(always)]
    fn run(self, adder: impl Adder) -> Result<()> {
        let width = self.estimator.dimension / 8;
        let further = match self.columns.further {
            Some(further) if self.estimator.bits > 1 && !self.estimator.by_signs => Some(further),
            _ => None,
        };
        let mut scratch = vec![[0; GROUP]; width];
        let factors = self
            .columns
            .add
            .chunks(GROUP)
            .zip(self.columns.scale.chunks(GROUP));
        let groups = self.columns.signs.chunks(GROUP * width).zip(factors);
        for (number, (codes, (add, scale))) in groups.enumerate() {
            let first = number * GROUP;
            let allowed = self.sink.allowed(first);
            if allowed == 0 {
                continue;
            }
            let codes = if self.estimator.is_packed && add.len() == GROUP {
                codes
            } else {
                self.pack(codes, add.len(), &mut scratch);
                scratch.as_flattened()
            };
            let sums = self.tables.sums(codes, adder);
            let errors = match further {
                Some(further) => Some(part(further.error, first, add.len(), "factors")?),
                None => None,
            };
            let bounds = self.bounds(&sums, add, scale, errors);
            // Most rows of a group are too far: a bit for each of the others.
            let mut near = allowed & adder.not_above(&bounds, self.sink.most());
            while near != 0 {
                let row = near.trailing_zeros() as usize;
                near &= near - 1;
                let (Some(&bound), Some(&sum)) = (bounds.get(row), sums.get(row)) else {
                    break;
                };
                if bound > self.sink.most() {
                    continue;
                }
                let estimate = match further {
                    Some(further) => self.by_all(first + row, further)?,
                    None => self.by_signs(add, scale, row)?,
                };
                let least = estimate.of(sum - self.tables.slack().copysign(estimate.scale));
                if least <= self.sink.most() {
                    let sum = self.tables.sum(codes, row);
                    self.sink.add(first + row, estimate.of(sum))?;
                }
            }
        }
        Ok(())
    }

    /// Packs a group of up to 32 rows that is not stored in this way.
    fn pack(&self, codes: &[u8], num_rows: usize, out: &mut [[u8; GROUP]]) {
        let width = out.len();
        for (column, out) in out.iter_mut().enumerate() {
            let (skipped, step) = if self.estimator.is_packed {
                (column * num_rows, 1)
            } else {
                (column, width)
            };
            let mut bytes = [0; GROUP];
            let stored = codes.iter().skip(skipped).step_by(step).take(num_rows);
            for (byte, stored) in bytes.iter_mut().zip(stored) {
                *byte = *stored;
            }
            *out = packing::packed_codes(&bytes);
        }
    }

    /// The least distances that the rows of a group may have.
    #[inline(always)]
    fn bounds(
        &self,
        sums: &[f32; GROUP],
        add: &[f32],
        scale: &[f32],
        errors: Option<&[f32]>,
    ) -> [f32; GROUP] {
        let mut out = [f32::NAN; GROUP];
        let half = 0.5 * self.place.sum;
        let slack = self.tables.slack();
        let rows = out.iter_mut().zip(sums).zip(add.iter().zip(scale));
        for ((out, sum), (add, scale)) in rows {
            *out = (sum - half) * scale + self.place.shifted(*add) - scale.abs() * slack;
        }
        if let Some(errors) = errors {
            let allowance = ERRORS * self.place.distance;
            for (out, error) in out.iter_mut().zip(errors) {
                *out -= error * allowance;
            }
        }
        out
    }

    /// The estimate by the signs of a row of a group.
    #[inline(always)]
    fn by_signs(&self, add: &[f32], scale: &[f32], row: usize) -> Result<Estimate> {
        let (Some(add), Some(scale)) = (add.get(row), scale.get(row)) else {
            return Err(out_of_range("factors"));
        };
        Ok(Estimate {
            factor: 1.0,
            product: 0.0,
            centre: 0.5 * self.place.sum,
            scale: *scale,
            shifted: self.place.shifted(*add),
        })
    }

    /// The estimate by all bits.
    #[inline(always)]
    fn by_all(&self, row: usize, further: Further<'_>) -> Result<Estimate> {
        let bits = self.estimator.bits - 1;
        let width = blocks::row_bytes(self.estimator.dimension, bits);
        let codes = part(further.codes, row * width, width, "further bits")?;
        let levels = f32::from(1u16 << bits);
        let (Some(add), Some(scale)) = (further.add.get(row), further.scale.get(row)) else {
            return Err(out_of_range("factors"));
        };
        Ok(Estimate {
            factor: levels,
            product: blocks::by_bits!(bits, self.product(codes)),
            centre: (levels - 0.5) * self.place.sum,
            scale: *scale,
            shifted: self.place.shifted(*add),
        })
    }

    /// The sum of u_i h_i.
    #[inline(always)]
    fn product<const BITS: usize>(&self, codes: &[u8]) -> f32 {
        let mut sums = [0.0; 16];
        let blocks = codes.chunks_exact(8 * BITS);
        for (block, query) in blocks.zip(self.place.padded.as_chunks::<BLOCK>().0) {
            let mut components = [0; BLOCK];
            blocks::unpack_block::<BITS>(block, &mut components);
            let mut values = [0.0; BLOCK];
            for (value, component) in values.iter_mut().zip(components) {
                *value = f32::from(component);
            }
            let (values, _) = values.as_chunks::<16>();
            let (query, _) = query.as_chunks::<16>();
            for (values, query) in values.iter().zip(query) {
                for ((sum, value), query) in sums.iter_mut().zip(values).zip(query) {
                    *sum += value * query;
                }
            }
        }
        sums.iter().sum()
    }
}
