//! The vectors of one partition, as they are stored, and the distances between them.
//!
//!     Floats    n x dimension float32               squared l2, or 1 - dot product
//!     Bits      n x width bytes                     number of different bits
//!     Scalar    n x dimension bytes, low, step      a code c means low + step * c
//!     Product   n x num_sub_vectors bytes           a code names a codeword of its sub-vector
//!
//! Plain rows, one after another. The codebook of products is ordered by sub-vector, codeword and
//! component. The target of a search is prepared once (`Storage::scorer`), then compared with
//! groups of nodes.

use std::ops::ControlFlow;

use pulp::{Arch, Simd, WithSimd};

use super::scorer::Scorer;
use super::{NODES, row};
use crate::error::{Result, ensure, out_of_range};
use crate::vector::byte_sums::each_square;
use crate::vector::distance::{differing_bits, l2_of, product_of, scaled};
use crate::vector::scalar::Bounds;

/// The largest dimension: sums of products of bytes then fit 32 bits.
pub const MAX_DIMENSION: usize = 1 << 16;

/// Vectors of a partition, and how they are compared.
#[derive(Clone, Copy)]
pub struct Storage<'a> {
    pub vectors: Vectors<'a>,
    pub is_dot: bool,
}

#[derive(Clone, Copy)]
pub enum Vectors<'a> {
    Floats {
        rows: &'a [f32],
        dimension: usize,
    },
    Bits {
        rows: &'a [u8],
        width: usize,
    },
    Scalar {
        codes: &'a [u8],
        dimension: usize,
        bounds: Bounds,
    },
    Product {
        codes: &'a [u8],
        num_sub_vectors: usize,
        codebook: &'a [f32],
        num_codewords: usize,
    },
}

/// The vector that nodes are compared with.
#[derive(Clone, Copy)]
pub enum Query<'a> {
    Floats(&'a [f32]),
    Bits(&'a [u8]),
}

impl<'a> Storage<'a> {
    /// Checks that the sizes agree, and returns the number of vectors.
    pub fn require_valid(&self) -> Result<usize> {
        let (size, width) = match self.vectors {
            Vectors::Floats { rows, dimension } => (rows.len(), dimension),
            Vectors::Bits { rows, width } => (rows.len(), width),
            Vectors::Scalar {
                codes, dimension, ..
            } => (codes.len(), dimension),
            Vectors::Product {
                codes,
                num_sub_vectors,
                codebook,
                num_codewords,
            } => {
                let rows = num_sub_vectors.saturating_mul(num_codewords);
                let whole = rows > 0 && !codebook.is_empty() && codebook.len().is_multiple_of(rows);
                ensure(whole, "codebook, values", codebook.len(), "whole codewords")?;
                let known = matches!(num_codewords, 16 | 256);
                ensure(known, "codewords", num_codewords, "16 or 256")?;
                (codes.len(), num_sub_vectors)
            }
        };
        let fits = (1..=MAX_DIMENSION).contains(&width);
        ensure(fits, "dimension", width, "1 to 65536")?;
        ensure(size.is_multiple_of(width), "vectors, values", size, width)?;
        Ok(size / width)
    }

    /// Prepares a query.
    pub fn scorer(&self, query: Query<'_>) -> Result<Scorer<'a>> {
        match (self.vectors, query) {
            (Vectors::Floats { rows, dimension }, Query::Floats(target)) => {
                ensure_length(target.len(), dimension)?;
                Ok(Scorer::Floats {
                    rows,
                    target: target.to_vec(),
                    is_dot: self.is_dot,
                })
            }
            (Vectors::Bits { rows, width }, Query::Bits(target)) => {
                ensure_length(target.len(), width)?;
                Ok(Scorer::Bits {
                    rows,
                    target: target.to_vec(),
                })
            }
            (
                Vectors::Scalar {
                    codes,
                    dimension,
                    bounds,
                },
                Query::Floats(target),
            ) => {
                ensure_length(target.len(), dimension)?;
                Ok(self.scalar_scorer(codes, bounds, target))
            }
            (
                Vectors::Product {
                    codes,
                    num_sub_vectors,
                    codebook,
                    num_codewords,
                },
                Query::Floats(target),
            ) => {
                ensure_length(target.len() * num_codewords, codebook.len())?;
                let table = self.table(target, num_sub_vectors, codebook);
                Ok(Scorer::Table {
                    codes,
                    num_sub_vectors,
                    table,
                    num_codewords,
                    base: self.base(num_sub_vectors),
                })
            }
            _ => Err(out_of_range("the type of the query")),
        }
    }

    /// Prepares a stored vector as a query.
    pub fn scorer_of(&self, node: u32) -> Result<Scorer<'a>> {
        match self.vectors {
            Vectors::Floats { rows, dimension } => {
                self.scorer(Query::Floats(row(rows, node, dimension)?))
            }
            Vectors::Bits { rows, width } => self.scorer(Query::Bits(row(rows, node, width)?)),
            Vectors::Scalar {
                codes,
                dimension,
                bounds,
            } => {
                let code = row(codes, node, dimension)?;
                if self.is_dot {
                    return Ok(self.scalar_scorer(codes, bounds, &decoded(code, bounds)));
                }
                Ok(Scorer::Codes {
                    codes,
                    target: code.to_vec(),
                    factor: square_factor(bounds),
                })
            }
            Vectors::Product {
                codes,
                num_sub_vectors,
                codebook,
                num_codewords,
            } => {
                let mut target = Vec::new();
                let words = Words::new(codebook, num_sub_vectors, num_codewords);
                for (sub, &code) in row(codes, node, num_sub_vectors)?.iter().enumerate() {
                    target.extend_from_slice(words.get(sub, code)?);
                }
                self.scorer(Query::Floats(&target))
            }
        }
    }

    /// Returns whether one of `kept` is closer to `node` than `limit`, or as close.
    pub fn any_within(&self, arch: Arch, node: u32, kept: &[u32], limit: f32) -> Result<bool> {
        if let Vectors::Scalar {
            codes,
            dimension,
            bounds,
        } = self.vectors
            && !self.is_dot
        {
            let (target, factor) = (row(codes, node, dimension)?, square_factor(bounds));
            let rows = kept.iter().map(|&other| row(codes, other, dimension));
            let mut is_any = false;
            each_square(rows, target, |squares| {
                is_any = scaled(squares, factor) <= limit;
                if is_any {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
            return Ok(is_any);
        }
        arch.dispatch(AnyWithin {
            storage: self,
            node,
            kept,
            limit,
        })
    }

    #[inline(always)]
    #[allow(clippy::cast_precision_loss)] // numbers of bits are less than 2^24
    fn is_any_within<S: Simd>(&self, simd: S, node: u32, kept: &[u32], limit: f32) -> Result<bool> {
        let is_dot = self.is_dot;
        match self.vectors {
            Vectors::Floats { rows, dimension } => within(
                rows,
                dimension,
                node,
                kept,
                limit,
                #[inline(always)]
                |target, other| {
                    Ok(if is_dot {
                        1.0 - product_of(simd, target, other)
                    } else {
                        l2_of(simd, target, other)
                    })
                },
            ),
            Vectors::Bits { rows, width } => within(
                rows,
                width,
                node,
                kept,
                limit,
                #[inline(always)]
                |target, other| Ok(differing_bits(target, other) as f32),
            ),
            Vectors::Scalar {
                codes,
                dimension,
                bounds,
            } => within(
                codes,
                dimension,
                node,
                kept,
                limit,
                #[inline(always)]
                |target, other| Ok(1.0 - decoded_dot(target, other, bounds)),
            ),
            Vectors::Product {
                codes,
                num_sub_vectors,
                codebook,
                num_codewords,
            } => {
                let words = Words::new(codebook, num_sub_vectors, num_codewords);
                within(
                    codes,
                    num_sub_vectors,
                    node,
                    kept,
                    limit,
                    |target, other| words.distance(target, other, is_dot),
                )
            }
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn scalar_scorer(&self, codes: &'a [u8], bounds: Bounds, target: &[f32]) -> Scorer<'a> {
        if !self.is_dot {
            return Scorer::Codes {
                codes,
                target: encoded(target, bounds),
                factor: square_factor(bounds),
            };
        }
        let (low, step) = (bounds.start, bounds.step());
        let sum: f64 = target.iter().map(|&value| f64::from(value)).sum();
        Scorer::CodeProducts {
            codes,
            target: target
                .iter()
                .map(|&value| (f64::from(value) * step) as f32)
                .collect(),
            base: (1.0 - low * sum) as f32,
        }
    }

    fn table(&self, target: &[f32], num_sub_vectors: usize, codebook: &[f32]) -> Vec<f32> {
        let width = target.len() / num_sub_vectors;
        let words = codebook.chunks_exact(codebook.len() / num_sub_vectors);
        let mut table = Vec::with_capacity(codebook.len() / width);
        for (part, words) in target.chunks_exact(width).zip(words) {
            for word in words.chunks_exact(width) {
                let pairs = part.iter().zip(word);
                table.push(if self.is_dot {
                    1.0 - pairs.map(|(a, b)| a * b).sum::<f32>()
                } else {
                    pairs.map(|(a, b)| (a - b) * (a - b)).sum::<f32>()
                });
            }
        }
        table
    }

    /// What has to be added to the sum of the entries of a table.
    #[allow(clippy::cast_precision_loss)]
    fn base(&self, num_sub_vectors: usize) -> f32 {
        if self.is_dot {
            1.0 - num_sub_vectors as f32
        } else {
            0.0
        }
    }
}

/// See `scorer::Score`.
struct AnyWithin<'s, 'a> {
    storage: &'s Storage<'a>,
    node: u32,
    kept: &'s [u32],
    limit: f32,
}

impl WithSimd for AnyWithin<'_, '_> {
    type Output = Result<bool>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Result<bool> {
        let Self {
            storage,
            node,
            kept,
            limit,
        } = self;
        storage.is_any_within(simd, node, kept, limit)
    }
}

/// Returns whether the row of one of `kept` is as close to that of `node` as `limit`, or closer.
#[inline(always)]
fn within<T>(
    rows: &[T],
    width: usize,
    node: u32,
    kept: &[u32],
    limit: f32,
    distance: impl Fn(&[T], &[T]) -> Result<f32>,
) -> Result<bool> {
    let target = row(rows, node, width)?;
    for &other in kept {
        if distance(target, row(rows, other, width)?)? <= limit {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The codewords of products.
struct Words<'a> {
    codebook: &'a [f32],
    num_codewords: usize,
    width: usize,
}

impl<'a> Words<'a> {
    fn new(codebook: &'a [f32], num_sub_vectors: usize, num_codewords: usize) -> Self {
        Self {
            codebook,
            num_codewords,
            width: codebook.len() / (num_sub_vectors * num_codewords),
        }
    }

    #[inline(always)]
    fn get(&self, sub: usize, code: u8) -> Result<&'a [f32]> {
        let word = usize::from(code) & (self.num_codewords - 1);
        let start = (sub * self.num_codewords + word) * self.width;
        self.codebook
            .get(start..start + self.width)
            .ok_or_else(|| out_of_range(NODES))
    }

    #[inline(always)]
    fn distance(&self, one: &[u8], other: &[u8], is_dot: bool) -> Result<f32> {
        let mut sum = 0.0;
        for (sub, (&one, &other)) in one.iter().zip(other).enumerate() {
            let pairs = self.get(sub, one)?.iter().zip(self.get(sub, other)?);
            sum += if is_dot {
                pairs.map(|(a, b)| a * b).sum::<f32>()
            } else {
                pairs.map(|(a, b)| (a - b) * (a - b)).sum::<f32>()
            };
        }
        Ok(if is_dot { 1.0 - sum } else { sum })
    }
}

fn ensure_length(found: usize, expected: usize) -> Result<()> {
    ensure(found == expected, "query, values", found, expected)
}

/// The dot product of two decoded codes.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
#[inline(always)]
fn decoded_dot(a: &[u8], b: &[u8], bounds: Bounds) -> f32 {
    let (mut sum, mut product) = (0u32, 0u32);
    for (&a, &b) in a.iter().zip(b) {
        sum += u32::from(a) + u32::from(b);
        product = product.wrapping_add(u32::from(a) * u32::from(b));
    }
    let (low, step) = (bounds.start, bounds.step());
    let constant = a.len() as f64 * low * low;
    (constant + low * step * f64::from(sum) + step * step * f64::from(product)) as f32
}

fn square_factor(bounds: Bounds) -> f64 {
    bounds.step() * bounds.step()
}

fn encoded(values: &[f32], bounds: Bounds) -> Vec<u8> {
    let mut codes = vec![0; values.len()];
    bounds.encode(values, &mut codes);
    codes
}

#[allow(clippy::cast_possible_truncation)] // rounds
fn decoded(code: &[u8], bounds: Bounds) -> Vec<f32> {
    let value = |&code: &u8| (bounds.start + bounds.step() * f64::from(code)) as f32;
    code.iter().map(value).collect()
}
