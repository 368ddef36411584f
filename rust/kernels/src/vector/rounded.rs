//! Vectors that are rounded to integers, with a step of their own.

use pulp::{Simd, WithSimd};

/// How many values are summed at once.
const LANES: usize = super::LANES;

/// The sum with it is rounded to an integer, for numbers of less than 2^22.
const EVEN: f32 = 12_582_912.0;

/// Rounds a vector, after a mean was subtracted from it, to codes between `-most` and `most`.
pub struct Rounded<'a, C> {
    pub values: &'a mut [f32],
    pub mean: &'a [f32],
    pub most: f32,
    pub codes: &'a mut [C],
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

impl<C: Code> WithSimd for Rounded<'_, C> {
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

/// An integer that rounds a number.
pub trait Code: Copy {
    fn rounded(value: f32) -> Self;
    fn value(self) -> f32;
}

macro_rules! codes {
    ($($code:ty),*) => {
        $(impl Code for $code {
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation)] // saturates, or 0 for NaN
            fn rounded(value: f32) -> Self {
                ((value + EVEN) - EVEN) as Self
            }

            #[inline(always)]
            fn value(self) -> f32 {
                f32::from(self)
            }
        })*
    };
}

codes!(i8, i16);

#[inline(always)]
fn encode<C: Code>(values: &[f32], step: f32, codes: &mut [C]) {
    let factor = if step > 0.0 { 1.0 / step } else { 0.0 };
    for (code, value) in codes.iter_mut().zip(values) {
        *code = C::rounded(value * factor);
    }
}

#[inline(always)]
fn lengths<C: Code>(values: &[f32], step: f32, codes: &[C], rounding: f32) -> Lengths {
    let [mut squares, mut differences, mut of_codes] = [[0f32; LANES]; 3];
    for (values, codes) in values.chunks(LANES).zip(codes.chunks(LANES)) {
        let sums = squares.iter_mut().zip(&mut differences).zip(&mut of_codes);
        for (((square, difference), of_code), (value, code)) in sums.zip(values.iter().zip(codes)) {
            let rounded = step * code.value();
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
