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

use pulp::{Arch, Simd, WithSimd};

use crate::error::{Result, ensure, out_of_range};

/// The largest dimension: sums of products of bytes then fit 32 bits.
pub const MAX_DIMENSION: usize = 1 << 16;

const NODES: &str = "nodes of a graph";

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
        bounds: (f64, f64),
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

/// A target of searches in the form that its storage compares with nodes.
pub enum Scorer<'a> {
    Floats {
        rows: &'a [f32],
        target: Vec<f32>,
        is_dot: bool,
    },
    Bits {
        rows: &'a [u8],
        target: Vec<u8>,
    },
    /// Squared differences of codes.
    Codes {
        codes: &'a [u8],
        target: Vec<u8>,
        factor: f32,
    },
    /// `base - target . codes`
    CodeProducts {
        codes: &'a [u8],
        target: Vec<f32>,
        base: f32,
    },
    /// The sum of the entries that the codes name, plus `base`.
    Table {
        codes: &'a [u8],
        num_sub_vectors: usize,
        table: Vec<f32>,
        num_codewords: usize,
        base: f32,
    },
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
        arch.dispatch(AnyWithin {
            storage: self,
            node,
            kept,
            limit,
        })
    }

    #[allow(clippy::cast_possible_truncation)]
    fn scalar_scorer(&self, codes: &'a [u8], bounds: (f64, f64), target: &[f32]) -> Scorer<'a> {
        if !self.is_dot {
            return Scorer::Codes {
                codes,
                target: encoded(target, bounds),
                factor: square_factor(bounds),
            };
        }
        let (low, step) = (bounds.0, step(bounds));
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

impl Scorer<'_> {
    /// Appends the distances of `nodes`.
    pub fn score(&self, arch: Arch, nodes: &[u32], out: &mut Vec<f32>) -> Result<()> {
        arch.dispatch(Score {
            scorer: self,
            nodes,
            out,
        })
    }
}

struct Score<'s, 'a> {
    scorer: &'s Scorer<'a>,
    nodes: &'s [u32],
    out: &'s mut Vec<f32>,
}

impl WithSimd for Score<'_, '_> {
    type Output = Result<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Result<()> {
        let Self { scorer, nodes, out } = self;
        match scorer {
            Scorer::Floats {
                rows,
                target,
                is_dot: false,
            } => {
                for &node in nodes {
                    out.push(squared_l2(simd, target, row(rows, node, target.len())?));
                }
            }
            Scorer::Floats {
                rows,
                target,
                is_dot: true,
            } => {
                for &node in nodes {
                    out.push(1.0 - dot(simd, target, row(rows, node, target.len())?));
                }
            }
            Scorer::Bits { rows, target } => {
                for &node in nodes {
                    out.push(hamming(target, row(rows, node, target.len())?));
                }
            }
            Scorer::Codes {
                codes,
                target,
                factor,
            } => {
                for &node in nodes {
                    let code = row(codes, node, target.len())?;
                    out.push(to_float(squared_difference(target, code)) * factor);
                }
            }
            Scorer::CodeProducts {
                codes,
                target,
                base,
            } => {
                for &node in nodes {
                    out.push(base - code_product(target, row(codes, node, target.len())?));
                }
            }
            Scorer::Table {
                codes,
                num_sub_vectors,
                table,
                num_codewords,
                base,
            } => {
                for &node in nodes {
                    let code = row(codes, node, *num_sub_vectors)?;
                    out.push(looked_up(table, *num_codewords, code) + base);
                }
            }
        }
        Ok(())
    }
}

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
        let is_dot = storage.is_dot;
        match storage.vectors {
            Vectors::Floats { rows, dimension } => {
                let target = row(rows, node, dimension)?;
                within(kept, limit, |other| {
                    let other = row(rows, other, dimension)?;
                    Ok(if is_dot {
                        1.0 - dot(simd, target, other)
                    } else {
                        squared_l2(simd, target, other)
                    })
                })
            }
            Vectors::Bits { rows, width } => {
                let target = row(rows, node, width)?;
                within(kept, limit, |other| {
                    Ok(hamming(target, row(rows, other, width)?))
                })
            }
            Vectors::Scalar {
                codes,
                dimension,
                bounds,
            } => {
                let target = row(codes, node, dimension)?;
                let factor = square_factor(bounds);
                within(kept, limit, |other| {
                    let other = row(codes, other, dimension)?;
                    Ok(if is_dot {
                        1.0 - decoded_dot(target, other, bounds)
                    } else {
                        to_float(squared_difference(target, other)) * factor
                    })
                })
            }
            Vectors::Product {
                codes,
                num_sub_vectors,
                codebook,
                num_codewords,
            } => {
                let words = Words::new(codebook, num_sub_vectors, num_codewords);
                let target = row(codes, node, num_sub_vectors)?;
                within(kept, limit, |other| {
                    let other = row(codes, other, num_sub_vectors)?;
                    words.distance(target, other, is_dot)
                })
            }
        }
    }
}

#[inline(always)]
fn within(kept: &[u32], limit: f32, distance: impl Fn(u32) -> Result<f32>) -> Result<bool> {
    for &other in kept {
        if distance(other)? <= limit {
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

/// The values of a node.
#[inline(always)]
fn row<T>(rows: &[T], node: u32, width: usize) -> Result<&[T]> {
    let start = node as usize * width;
    rows.get(start..start + width)
        .ok_or_else(|| out_of_range(NODES))
}

#[inline(always)]
fn squared_l2<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    reduced(simd, a, b, |a, b, sum| {
        let difference = simd.sub_f32s(a, b);
        simd.mul_add_f32s(difference, difference, sum)
    })
}

#[inline(always)]
fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    reduced(simd, a, b, |a, b, sum| simd.mul_add_f32s(a, b, sum))
}

#[inline(always)]
fn reduced<S: Simd>(
    simd: S,
    a: &[f32],
    b: &[f32],
    step: impl Fn(S::f32s, S::f32s, S::f32s) -> S::f32s,
) -> f32 {
    let (a, a_rest) = S::as_simd_f32s(a);
    let (b, b_rest) = S::as_simd_f32s(b);
    let (a_fours, a_ones) = a.as_chunks::<4>();
    let (b_fours, b_ones) = b.as_chunks::<4>();
    let zero = simd.splat_f32s(0.0);
    let [mut sum0, mut sum1, mut sum2, mut sum3] = [zero; 4];
    for ([a0, a1, a2, a3], [b0, b1, b2, b3]) in a_fours.iter().zip(b_fours) {
        sum0 = step(*a0, *b0, sum0);
        sum1 = step(*a1, *b1, sum1);
        sum2 = step(*a2, *b2, sum2);
        sum3 = step(*a3, *b3, sum3);
    }
    for (a, b) in a_ones.iter().zip(b_ones) {
        sum0 = step(*a, *b, sum0);
    }
    if !a_rest.is_empty() {
        let (a, b) = (
            simd.partial_load_f32s(a_rest),
            simd.partial_load_f32s(b_rest),
        );
        sum1 = step(a, b, sum1);
    }
    let sum = simd.add_f32s(simd.add_f32s(sum0, sum1), simd.add_f32s(sum2, sum3));
    simd.reduce_sum_f32s(sum)
}

#[allow(clippy::cast_precision_loss)]
#[inline(always)]
fn hamming(a: &[u8], b: &[u8]) -> f32 {
    let (a_words, a_rest) = a.as_chunks::<8>();
    let (b_words, b_rest) = b.as_chunks::<8>();
    let mut bits = 0;
    for (a, b) in a_words.iter().zip(b_words) {
        bits += (u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b)).count_ones();
    }
    for (a, b) in a_rest.iter().zip(b_rest) {
        bits += (a ^ b).count_ones();
    }
    bits as f32
}

#[inline(always)]
fn squared_difference(a: &[u8], b: &[u8]) -> u32 {
    let mut sum = 0i32;
    for (&a, &b) in a.iter().zip(b) {
        let difference = i16::from(a) - i16::from(b);
        sum = sum.wrapping_add(i32::from(difference) * i32::from(difference));
    }
    sum.cast_unsigned()
}

/// The dot product of a query and codes.
#[inline(always)]
fn code_product(target: &[f32], code: &[u8]) -> f32 {
    let (targets, target_rest) = target.as_chunks::<16>();
    let (codes, code_rest) = code.as_chunks::<16>();
    let mut sums = [0.0f32; 16];
    for (target, code) in targets.iter().zip(codes) {
        for ((sum, target), &code) in sums.iter_mut().zip(target).zip(code) {
            *sum += target * f32::from(code);
        }
    }
    let rest: f32 = target_rest
        .iter()
        .zip(code_rest)
        .map(|(target, &code)| target * f32::from(code))
        .sum();
    sums.iter().sum::<f32>() + rest
}

/// The dot product of two decoded codes.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
#[inline(always)]
fn decoded_dot(a: &[u8], b: &[u8], bounds: (f64, f64)) -> f32 {
    let (mut sum, mut product) = (0u32, 0u32);
    for (&a, &b) in a.iter().zip(b) {
        sum += u32::from(a) + u32::from(b);
        product = product.wrapping_add(u32::from(a) * u32::from(b));
    }
    let (low, step) = (bounds.0, step(bounds));
    let constant = a.len() as f64 * low * low;
    (constant + low * step * f64::from(sum) + step * step * f64::from(product)) as f32
}

#[inline(always)]
fn looked_up(table: &[f32], num_codewords: usize, code: &[u8]) -> f32 {
    if num_codewords == 16 {
        sum_of_entries(table.as_chunks::<16>().0, code)
    } else {
        sum_of_entries(table.as_chunks::<256>().0, code)
    }
}

#[inline(always)]
fn sum_of_entries<const K: usize>(table: &[[f32; K]], code: &[u8]) -> f32 {
    let mut sum = 0.0;
    for (entries, &code) in table.iter().zip(code) {
        if let Some(entry) = entries.get(usize::from(code) & (K - 1)) {
            sum += entry;
        }
    }
    sum
}

#[allow(clippy::cast_precision_loss)]
#[inline(always)]
fn to_float(sum: u32) -> f32 {
    sum as f32
}

/// The difference of the values of adjacent codes.
fn step((low, high): (f64, f64)) -> f64 {
    (high - low) / 255.0
}

#[allow(clippy::cast_possible_truncation)]
fn square_factor(bounds: (f64, f64)) -> f32 {
    (step(bounds) * step(bounds)) as f32
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn encoded(values: &[f32], (low, high): (f64, f64)) -> Vec<u8> {
    if low >= high {
        return vec![0; values.len()];
    }
    let code = |&value: &f32| (f64::from(value) - low) * 255.0 / (high - low);
    values
        .iter()
        .map(|value| code(value).clamp(0.0, 255.0) as u8)
        .collect()
}

#[allow(clippy::cast_possible_truncation)]
fn decoded(code: &[u8], bounds: (f64, f64)) -> Vec<f32> {
    let value = |&code: &u8| (bounds.0 + step(bounds) * f64::from(code)) as f32;
    code.iter().map(value).collect()
}
