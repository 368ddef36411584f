//! Codes of rotated residuals, and the factors by which their distances are estimated.
//!
//!     y   rotated residual    z   rotated centroid    N = |y|^2    e = bits - 1
//!
//!     sign of component i     bit i, lowest first: 1 if y_i is not negative;  s_i = bit - 1/2
//!     further bits            u_i = floor(t |y_i| / |y| + 1e-5), at most 2^e - 1; ~u_i if negative
//!     both together           w_i = (bit << e) + stored u_i - (2^e - 1/2)
//!     X = sum y_i s_i, Y = sum z_i s_i; with w_i instead of s_i for the factors of all bits
//!
//!               l2, cosine       dot
//!     add       N + 2 N Y / X    1 - y.z + N Y / X
//!     scale     -2 N / X         -N / X
//!     error     2 E              E = sqrt(N) 1.9 sqrt(max(N D / (4 X^2) - 1, 0) / (D - 1))
//!
//! A quotient by 0 is 0. The scale t of a row maximizes the cosine of w and y; it is not stored.
//! N / X is computed first: products such as N Y would overflow where N, as any distance, does not.

use super::blocks;
use crate::error::{Result, ensure, out_of_range};

/// Multiples of the best scale for normally distributed components, tried first.
const COARSE: [f32; 9] = [0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.25, 1.45, 1.75];

/// Multiples of the best of these, tried next.
const FINE: [f32; 10] = [0.92, 0.94, 0.96, 0.975, 0.99, 1.01, 1.025, 1.04, 1.06, 1.08];

/// The best step of a uniform quantizer of `2 * 2^e` levels for a normal distribution, by e.
const STEPS: [f32; 9] = [
    1.596, 0.996, 0.586, 0.335, 0.188, 0.104, 0.0569, 0.0308, 0.0166,
];

/// Codes and factors of rows.
#[derive(Debug, Default)]
pub struct Encoded {
    pub signs: Vec<u8>,
    pub further: Vec<u8>,
    pub add: Vec<f32>,
    pub scale: Vec<f32>,
    pub error: Vec<f32>,
    pub add_all: Vec<f32>,
    pub scale_all: Vec<f32>,
}

/// What the rows have in common.
#[derive(Clone, Copy)]
pub struct Coding {
    pub dimension: usize,
    /// Bits of a component, the sign included.
    pub bits: usize,
    pub is_dot: bool,
}

/// Encodes rotated residuals.
pub fn encode(
    coding: Coding,
    rotated: &[f32],
    centroids: &[f32],
    partitions: &[u32],
) -> Result<Encoded> {
    check(coding, rotated, centroids, partitions)?;
    let dimension = coding.dimension;
    let further_bits = coding.bits - 1;
    let mut found = Encoded::default();
    let mut row = Row::new(dimension);
    let mut stored = Vec::with_capacity(if further_bits == 0 { 0 } else { rotated.len() });
    for (values, &partition) in rotated.chunks_exact(dimension).zip(partitions) {
        let start = partition as usize * dimension;
        let centroid = centroids
            .get(start..start + dimension)
            .ok_or_else(|| out_of_range("codes, partition"))?;
        let norm = dot(values, values);
        found
            .signs
            .extend(values.as_chunks::<8>().0.iter().map(signs));
        row.signs_of(values);
        let products = Products::of(norm, values, centroid, &row.weights);
        found.add.push(products.add(coding.is_dot));
        found.scale.push(products.scale(coding.is_dot));
        found.error.push(products.error(coding));
        if further_bits > 0 {
            row.quantize(values, norm.sqrt(), further_bits);
            stored.extend_from_slice(&row.stored);
            let products = Products::of(norm, values, centroid, &row.weights);
            found.add_all.push(products.add(coding.is_dot));
            found.scale_all.push(products.scale(coding.is_dot));
        }
    }
    if further_bits > 0 {
        found.further = blocks::pack(&stored, dimension, further_bits)?;
    }
    Ok(found)
}

/// Returns the values w of rows of codes.
pub fn decode(coding: Coding, signs: &[u8], further: &[u8]) -> Result<Vec<f32>> {
    let Coding {
        dimension, bits, ..
    } = coding;
    require(coding)?;
    let is_whole = signs.len().is_multiple_of(dimension / 8);
    ensure(is_whole, "codes, bytes of signs", signs.len(), "whole rows")?;
    let signs = signs
        .iter()
        .flat_map(|byte| (0..8).map(move |i| byte >> i & 1));
    if bits == 1 {
        return Ok(signs.map(|bit| f32::from(bit) - 0.5).collect());
    }
    let further = blocks::unpack(further, dimension, bits - 1)?;
    let num_signs = signs.clone().count();
    ensure(
        further.len() == num_signs,
        "codes, components",
        further.len(),
        num_signs,
    )?;
    let middle = f32::from(1u16 << (bits - 1)) - 0.5;
    let whole = |(bit, value)| f32::from(u16::from(bit) << (bits - 1) | u16::from(value)) - middle;
    Ok(signs.zip(further).map(whole).collect())
}

fn require(coding: Coding) -> Result<()> {
    let Coding {
        dimension, bits, ..
    } = coding;
    ensure((1..=9).contains(&bits), "codes, bits", bits, "1 to 9")?;
    let fits = dimension > 0 && dimension.is_multiple_of(8);
    ensure(fits, "codes, dimension", dimension, "a multiple of 8")
}

fn check(coding: Coding, rotated: &[f32], centroids: &[f32], partitions: &[u32]) -> Result<()> {
    require(coding)?;
    let size = coding.dimension * partitions.len();
    ensure(
        rotated.len() == size,
        "codes, components",
        rotated.len(),
        size,
    )?;
    let is_whole = centroids.len().is_multiple_of(coding.dimension);
    ensure(
        is_whole,
        "codes, components of centroids",
        centroids.len(),
        "whole rows",
    )
}

/// Bits of eight components, lowest first.
fn signs(values: &[f32; 8]) -> u8 {
    let bits = values
        .iter()
        .rev()
        .map(|value| u8::from(value.is_sign_positive()));
    bits.fold(0, |byte, bit| byte << 1 | bit)
}

/// Buffers for a row.
struct Row {
    /// |y_i| / |y|
    sizes: Vec<f32>,
    /// The values s or w.
    weights: Vec<f32>,
    /// u_i as it is stored.
    stored: Vec<u8>,
}

impl Row {
    fn new(dimension: usize) -> Self {
        Self {
            sizes: vec![0.0; dimension],
            weights: vec![0.0; dimension],
            stored: vec![0; dimension],
        }
    }

    fn signs_of(&mut self, values: &[f32]) {
        for (weight, value) in self.weights.iter_mut().zip(values) {
            *weight = 0.5_f32.copysign(*value);
        }
    }

    /// Finds the further bits of a row, and its weights.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn quantize(&mut self, values: &[f32], norm: f32, bits: usize) {
        let factor = quotient(1.0, norm);
        for (size, value) in self.sizes.iter_mut().zip(values) {
            *size = value.abs() * factor;
        }
        let most = f32::from(1u16 << bits) - 1.0;
        let scale = best_scale(&self.sizes, bits, most);
        let mask = most as u8;
        let rows = self.weights.iter_mut().zip(&mut self.stored);
        for ((weight, stored), (size, value)) in rows.zip(self.sizes.iter().zip(values)) {
            let level = level(scale, *size, most);
            *weight = (level + 0.5).copysign(*value);
            let level = level as u8;
            *stored = if value.is_sign_positive() {
                level
            } else {
                !level & mask
            };
        }
    }
}

/// The number of whole steps in a component.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn level(scale: f32, size: f32, most: f32) -> f32 {
    ((scale * size + 1e-5).min(most) as i32) as f32
}

/// The scale for which the cosine of weights and sizes is the greatest of some that are tried.
#[allow(clippy::cast_precision_loss)]
fn best_scale(sizes: &[f32], bits: usize, most: f32) -> f32 {
    let step = STEPS.get(bits).map_or(1.0, |step| *step);
    let normal = (sizes.len() as f32).sqrt() / step;
    let largest = sizes
        .iter()
        .fold(0.0_f32, |largest, &size| largest.max(size));
    let whole = quotient(most + 0.5, largest);
    let coarse = COARSE.iter().map(|factor| normal * factor).chain([whole]);
    let best = best_of(coarse, sizes, most, (normal, -1.0));
    let fine = FINE.iter().map(|factor| best.0 * factor);
    best_of(fine, sizes, most, best).0
}

/// The best of some scales with its cosine.
fn best_of(
    scales: impl Iterator<Item = f32>,
    sizes: &[f32],
    most: f32,
    best: (f32, f32),
) -> (f32, f32) {
    scales.fold(best, |best, scale| {
        let cosine = cosine(scale, sizes, most);
        if cosine > best.1 {
            (scale, cosine)
        } else {
            best
        }
    })
}

fn cosine(scale: f32, sizes: &[f32], most: f32) -> f32 {
    let (mut product, mut square) = ([0.0; 8], [0.0; 8]);
    for sizes in sizes.as_chunks::<8>().0 {
        for ((product, square), &size) in product.iter_mut().zip(&mut square).zip(sizes) {
            let weight = level(scale, size, most) + 0.5;
            *product += weight * size;
            *square += weight * weight;
        }
    }
    let square: f32 = square.iter().sum();
    product.iter().sum::<f32>() / square.sqrt()
}

/// The products of a row on which its factors depend.
struct Products {
    norm: f32,
    with_centroid: f32,
    /// X
    with_weights: f32,
    /// Y
    of_centroid: f32,
    /// N / X
    ratio: f32,
}

impl Products {
    fn of(norm: f32, values: &[f32], centroid: &[f32], weights: &[f32]) -> Self {
        let with_weights = dot(values, weights);
        Self {
            norm,
            with_centroid: dot(values, centroid),
            with_weights,
            of_centroid: dot(centroid, weights),
            ratio: quotient(norm, with_weights),
        }
    }

    fn add(&self, is_dot: bool) -> f32 {
        let shift = self.ratio * self.of_centroid;
        if is_dot {
            1.0 - self.with_centroid + shift
        } else {
            self.norm + 2.0 * shift
        }
    }

    fn scale(&self, is_dot: bool) -> f32 {
        if is_dot {
            -self.ratio
        } else {
            -2.0 * self.ratio
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn error(&self, coding: Coding) -> f32 {
        let dimension = coding.dimension as f32;
        let cosines = quotient(self.ratio * dimension, 4.0 * self.with_weights);
        let excess = (cosines - 1.0).max(0.0);
        let error = self.norm.sqrt() * 1.9 * (excess / (dimension - 1.0)).sqrt();
        if coding.is_dot { error } else { 2.0 * error }
    }
}

/// The quotient of two numbers; 0 if the second one is 0.
pub fn quotient(a: f32, b: f32) -> f32 {
    if b == 0.0 { 0.0 } else { a / b }
}

/// The inner product of vectors whose dimension is a multiple of 8.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; 8];
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
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

    fn rows(count: usize) -> Vec<f32> {
        let numbers = (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 8);
        numbers.map(|i| i as f32 / (1 << 23) as f32 - 1.0).collect()
    }

    #[test]
    fn more_bits_are_closer() {
        let rotated = rows(3 * 72);
        let mut last = 0.0;
        for bits in 1..=9 {
            let coding = Coding {
                dimension: 72,
                bits,
                is_dot: false,
            };
            let found = encode(coding, &rotated, &[0.0; 72], &[0, 0, 0]).unwrap();
            assert_eq!(found.signs.len(), 27);
            assert_eq!(found.scale_all.len(), if bits == 1 { 0 } else { 3 });
            let decoded = decode(coding, &found.signs, &found.further).unwrap();
            let rows = decoded.chunks(72).zip(rotated.chunks(72));
            let cosines = rows.map(|(w, y)| dot(w, y) / (dot(w, w) * dot(y, y)).sqrt());
            let cosine = cosines.fold(1.0, f32::min);
            assert!(cosine > last, "{bits} {cosine} {last}");
            last = cosine;
        }
        assert!(last > 0.9999);
    }

    #[test]
    fn rows_of_zeros_are_at_their_centroid() {
        for bits in [1, 5] {
            let coding = Coding {
                dimension: 8,
                bits,
                is_dot: false,
            };
            let found = encode(coding, &[0.0; 8], &[1.0; 8], &[0]).unwrap();
            assert_eq!(
                (found.add[0], found.scale[0], found.error[0]),
                (0.0, 0.0, 0.0)
            );
        }
    }

    #[test]
    fn factors_grow_with_large_rows() {
        let (small, centroid, scale) = (rows(16), rows(32), 2.0_f32.powi(60));
        let centroid = &centroid[16..];
        let grown = |values: &[f32]| values.iter().map(|x| x * scale).collect::<Vec<_>>();
        for is_dot in [false, true] {
            let coding = Coding {
                dimension: 16,
                bits: 5,
                is_dot,
            };
            let found = encode(coding, &small, centroid, &[0]).unwrap();
            let large = encode(coding, &grown(&small), &grown(centroid), &[0]).unwrap();
            assert_eq!(large.signs, found.signs);
            assert_eq!(large.scale, grown(&found.scale));
            assert_eq!(large.error, grown(&found.error));
            let add = |found: &Encoded| found.add_all[0] - f32::from(u8::from(is_dot));
            assert!((add(&large) / scale / scale - add(&found)).abs() < 1e-5);
        }
    }

    #[test]
    fn sizes_are_checked() {
        let coding = Coding {
            dimension: 8,
            bits: 5,
            is_dot: false,
        };
        assert!(encode(coding, &[0.0; 9], &[0.0; 8], &[0]).is_err());
        assert!(encode(coding, &[0.0; 8], &[0.0; 8], &[1]).is_err());
        assert!(encode(coding, &[0.0; 8], &[0.0; 7], &[0]).is_err());
        assert!(encode(Coding { bits: 10, ..coding }, &[], &[], &[]).is_err());
        assert!(
            encode(
                Coding {
                    dimension: 12,
                    ..coding
                },
                &[],
                &[],
                &[]
            )
            .is_err()
        );
        assert!(decode(coding, &[0; 2], &[0; 32]).is_err());
    }
}
