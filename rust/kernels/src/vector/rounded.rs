//! Vectors that are rounded to integers, with a step of their own.

use pulp::{Simd, WithSimd};

/// How many values are summed at once.
const LANES: usize = super::LANES;

/// The sum with it is rounded to an integer, for numbers of less than 2^22.
const EVEN: f32 = 12_582_912.0;

/// Rounds a vector, after a mean was subtracted from it, to codes between `-most` and `most`.
pub struct Rounded<'a> {
    pub values: &'a mut [f32],
    pub mean: &'a [f32],
    pub most: f32,
    pub codes: &'a mut [i8],
    /// More than the relative rounding of a sum.
    pub rounding: f32,
}

/// The lengths of a rounded vector.
#[derive(Clone, Copy, Default)]
pub struct Lengths {
    /// What a code is multiplied by.
    pub step: f32,
    /// The length of the vector.
    pub length: f32,
    /// More than the length of the difference from its codes.
    pub error: f32,
    /// The squared length of its codes.
    pub squares: f32,
}

impl WithSimd for Rounded<'_> {
    type Output = Lengths;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Lengths {
        for (value, mean) in self.values.iter_mut().zip(self.mean) {
            *value -= mean;
        }
        let step = greatest(self.values) / self.most;
        encode(self.values, step, self.codes);
        lengths(self.values, step, self.codes, self.rounding)
    }
}

/// Measures a vector by other codes than those that it was rounded to.
pub struct Measured<'a> {
    pub values: &'a [f32],
    pub step: f32,
    pub codes: &'a [i8],
    /// More than the relative rounding of a sum.
    pub rounding: f32,
}

impl WithSimd for Measured<'_> {
    type Output = Lengths;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Lengths {
        lengths(self.values, self.step, self.codes, self.rounding)
    }
}

#[inline(always)]
fn greatest(values: &[f32]) -> f32 {
    let (chunks, tail) = values.as_chunks::<LANES>();
    let mut greatest = [0f32; LANES];
    for chunk in chunks {
        for (greatest, value) in greatest.iter_mut().zip(chunk) {
            *greatest = if value.abs() > *greatest {
                value.abs()
            } else {
                *greatest
            };
        }
    }
    let all = greatest.iter().copied().chain(tail.iter().map(|x| x.abs()));
    all.fold(0.0, f32::max)
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // saturates, or 0 for NaN
fn encode(values: &[f32], step: f32, codes: &mut [i8]) {
    let factor = if step > 0.0 { 1.0 / step } else { 0.0 };
    for (code, value) in codes.iter_mut().zip(values) {
        *code = ((value * factor + EVEN) - EVEN) as i8;
    }
}

#[inline(always)]
fn lengths(values: &[f32], step: f32, codes: &[i8], rounding: f32) -> Lengths {
    let [mut squares, mut differences, mut of_codes] = [[0f32; LANES]; 3];
    for (values, codes) in values.chunks(LANES).zip(codes.chunks(LANES)) {
        let sums = squares.iter_mut().zip(&mut differences).zip(&mut of_codes);
        for (((square, difference), of_code), (value, code)) in sums.zip(values.iter().zip(codes)) {
            let rounded = step * f32::from(*code);
            let gap = value - rounded;
            *square += value * value;
            *difference += gap * gap;
            *of_code += rounded * rounded;
        }
    }
    let squares: f32 = squares.iter().sum();
    let differences: f32 = differences.iter().sum();
    let length = squares.sqrt();
    Lengths {
        step,
        length,
        error: differences.sqrt() * (1.0 + rounding) + length * 4.0 * f32::EPSILON,
        squares: of_codes.iter().sum(),
    }
}
