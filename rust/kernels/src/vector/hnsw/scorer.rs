//! A target of searches in the form that its storage compares with nodes.

use std::ops::ControlFlow;

use pulp::{Arch, Simd, WithSimd};

use super::row;
use crate::error::Result;
use crate::vector::byte_sums::each_square;
use crate::vector::distance::{differing_bits, l2_of, product, product_of, scaled};

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
        factor: f64,
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

impl Scorer<'_> {
    /// Appends the distances of `nodes`.
    pub fn score(&self, arch: Arch, nodes: &[u32], out: &mut Vec<f32>) -> Result<()> {
        if let Self::Codes {
            codes,
            target,
            factor,
        } = self
        {
            let rows = nodes.iter().map(|&node| row(codes, node, target.len()));
            return each_square(rows, target, |squares| {
                out.push(scaled(squares, *factor));
                ControlFlow::Continue(())
            });
        }
        arch.dispatch(Score {
            scorer: self,
            nodes,
            out,
        })
    }

    #[inline(always)]
    #[allow(clippy::cast_precision_loss)] // numbers of bits are less than 2^24
    fn append<S: Simd>(&self, simd: S, nodes: &[u32], out: &mut Vec<f32>) -> Result<()> {
        match self {
            Self::Floats {
                rows,
                target,
                is_dot,
            } if *is_dot => each(
                rows,
                target.len(),
                nodes,
                out,
                #[inline(always)]
                |row| 1.0 - product_of(simd, row, target),
            ),
            Self::Floats { rows, target, .. } => each(
                rows,
                target.len(),
                nodes,
                out,
                #[inline(always)]
                |row| l2_of(simd, row, target),
            ),
            Self::Bits { rows, target } => each(
                rows,
                target.len(),
                nodes,
                out,
                #[inline(always)]
                |row| differing_bits(row, target) as f32,
            ),
            Self::Codes { .. } => Ok(()), // see `score`
            Self::CodeProducts {
                codes,
                target,
                base,
            } => each(
                codes,
                target.len(),
                nodes,
                out,
                #[inline(always)]
                |code| base - product(code, target),
            ),
            Self::Table {
                codes,
                num_sub_vectors,
                table,
                num_codewords,
                base,
            } => each(
                codes,
                *num_sub_vectors,
                nodes,
                out,
                #[inline(always)]
                |code| looked_up(table, *num_codewords, code) + base,
            ),
        }
    }
}

/// A closure that only borrows would not be inlined, and so not be compiled for each processor.
struct Score<'s, 'a> {
    scorer: &'s Scorer<'a>,
    nodes: &'s [u32],
    out: &'s mut Vec<f32>,
}

impl WithSimd for Score<'_, '_> {
    type Output = Result<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Result<()> {
        self.scorer.append(simd, self.nodes, self.out)
    }
}

/// Appends the distance of each node.
///
/// Functions that are not inlined would be compiled for the oldest processor only.
#[inline(always)]
fn each<T>(
    rows: &[T],
    width: usize,
    nodes: &[u32],
    out: &mut Vec<f32>,
    distance: impl Fn(&[T]) -> f32,
) -> Result<()> {
    for &node in nodes {
        out.push(distance(row(rows, node, width)?));
    }
    Ok(())
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
