//! The fast rotation: sign changes, Walsh-Hadamard transforms and Givens rotations.
//!
//!     D a power of two    4 x { negate;  transform all;  scale }
//!     other D             4 x { negate;  transform the first T (rounds 0, 2) or the last T
//!                               components (rounds 1, 3);  scale;
//!                               (a_i, a_{i+D/2}) := (a_i + a_{i+D/2}, a_i - a_{i+D/2}) };  x 1/4
//!
//! T is the largest power of two up to D, and a transform is scaled by 1 / sqrt(T). Signs are
//! 4 x ceil(D/8) bytes: bit `i`, lowest first, of round `k` negates component `i`.

use crate::error::{Result, ensure, out_of_range};

const ROUNDS: usize = 4;

/// The number of bytes of the signs for vectors of a dimension.
pub fn signs_bytes(dimension: usize) -> usize {
    ROUNDS * dimension.div_ceil(8)
}

/// Rotates each of the vectors in place.
pub fn rotate(signs: &[u8], dimension: usize, vectors: &mut [f32]) -> Result<()> {
    check(signs, dimension, vectors)?;
    let flips = flips(signs, dimension);
    vectors
        .chunks_exact_mut(dimension)
        .try_for_each(|vector| rotate_one(&flips, vector))
}

fn check(signs: &[u8], dimension: usize, vectors: &[f32]) -> Result<()> {
    let fits = dimension > 0 && dimension.is_multiple_of(8);
    ensure(fits, "rotation, dimension", dimension, "a multiple of 8")?;
    let bytes = signs_bytes(dimension);
    ensure(
        signs.len() == bytes,
        "rotation, bytes of signs",
        signs.len(),
        bytes,
    )?;
    let is_whole = vectors.len().is_multiple_of(dimension);
    ensure(
        is_whole,
        "rotation, components",
        vectors.len(),
        "whole vectors",
    )
}

/// The factor 1 or -1 of each component, for one round after the other.
fn flips(signs: &[u8], dimension: usize) -> Vec<f32> {
    let rounds = signs.chunks_exact(dimension.div_ceil(8));
    let bits = rounds.flat_map(|round| {
        let bits = round
            .iter()
            .flat_map(|byte| (0..8).map(move |i| byte >> i & 1));
        bits.take(dimension)
    });
    bits.map(|bit| if bit == 1 { -1.0 } else { 1.0 }).collect()
}

fn rotate_one(flips: &[f32], vector: &mut [f32]) -> Result<()> {
    let dimension = vector.len();
    let length = 1 << dimension.ilog2();
    #[allow(clippy::cast_precision_loss)]
    let scale = 1.0 / (length as f32).sqrt();
    for (round, flips) in flips.chunks_exact(dimension).enumerate() {
        for (value, flip) in vector.iter_mut().zip(flips) {
            *value *= flip;
        }
        let start = if round % 2 == 0 {
            0
        } else {
            dimension - length
        };
        let part = vector
            .get_mut(start..start + length)
            .ok_or_else(|| out_of_range("rotation"))?;
        hadamard(part);
        for value in part {
            *value *= scale;
        }
        if length != dimension {
            let (low, high) = vector.split_at_mut(dimension / 2);
            butterfly(low, high);
        }
    }
    if length != dimension {
        for value in vector {
            *value *= 0.25;
        }
    }
    Ok(())
}

/// Transforms a vector whose length is a power of two of at least 8.
fn hadamard(vector: &mut [f32]) {
    for eight in vector.as_chunks_mut::<8>().0 {
        let [a, b, c, d, e, f, g, h] = *eight;
        let [a, b, c, d, e, f, g, h] = [a + b, a - b, c + d, c - d, e + f, e - f, g + h, g - h];
        let [a, b, c, d, e, f, g, h] = [a + c, b + d, a - c, b - d, e + g, f + h, e - g, f - h];
        *eight = [a + e, b + f, c + g, d + h, a - e, b - f, c - g, d - h];
    }
    let mut half = 8;
    while half < vector.len() {
        for pair in vector.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            butterfly(low, high);
        }
        half *= 2;
    }
}

fn butterfly(low: &mut [f32], high: &mut [f32]) {
    for (x, y) in low.iter_mut().zip(high) {
        (*x, *y) = (*x + *y, *x - *y);
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        clippy::cast_precision_loss
    )]
    use super::*;

    #[test]
    fn rotations_keep_lengths_and_angles() {
        for dimension in [8, 16, 24, 40, 64, 96, 136] {
            let signs: Vec<u8> = (0..signs_bytes(dimension))
                .map(|i| (i * 37 % 251) as u8)
                .collect();
            let mut vectors = vec![0.0; dimension * dimension];
            for i in 0..dimension {
                vectors[i * dimension + i] = 1.0;
            }
            rotate(&signs, dimension, &mut vectors).unwrap();
            for (i, a) in vectors.chunks(dimension).enumerate() {
                for (j, b) in vectors.chunks(dimension).enumerate() {
                    let dot: f32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                    let expected = if i == j { 1.0 } else { 0.0 };
                    assert!((dot - expected).abs() < 1e-5, "{dimension} {i} {j} {dot}");
                }
            }
        }
    }

    #[test]
    fn lengths_are_checked() {
        assert!(rotate(&[0; 4], 8, &mut [0.0; 9]).is_err());
        assert!(rotate(&[0; 3], 8, &mut [0.0; 8]).is_err());
        assert!(rotate(&[0; 8], 12, &mut [0.0; 12]).is_err());
        assert!(rotate(&[], 0, &mut []).is_err());
    }
}
