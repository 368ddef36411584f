//! Types of the elements of vectors, and the types in which distances are added up.

use std::ops::{Add, AddAssign, Mul, Sub};

/// A type in which distances are added up.
pub trait Wide:
    Copy
    + Default
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + AddAssign
    + Into<f64>
{
    fn of(value: f64) -> Self;
    fn narrow(self) -> f32;
}

impl Wide for f32 {
    #[allow(clippy::cast_possible_truncation)] // rounds
    #[inline(always)]
    fn of(value: f64) -> Self {
        value as Self
    }

    #[inline(always)]
    fn narrow(self) -> f32 {
        self
    }
}

impl Wide for f64 {
    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }

    #[allow(clippy::cast_possible_truncation)] // rounds
    #[inline(always)]
    fn narrow(self) -> f32 {
        self as f32
    }
}

/// An element of a vector. Bits of a float16 are a `u16`.
pub trait Element: Copy + Send + Sync {
    type Wide: Wide;

    fn widen(self) -> Self::Wide;
}

impl Element for f32 {
    type Wide = Self;

    #[inline(always)]
    fn widen(self) -> Self {
        self
    }
}

impl Element for f64 {
    type Wide = Self;

    #[inline(always)]
    fn widen(self) -> Self {
        self
    }
}

impl Element for u8 {
    type Wide = f32;

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from(self)
    }
}

impl Element for i8 {
    type Wide = f32;

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from(self)
    }
}

impl Element for u16 {
    type Wide = f32;

    /// The value of a float16.
    ///
    /// Its exponent and mantissa are those of a float32 that is 2^112 times less. Infinity and
    /// NaN get the greatest exponent instead.
    #[inline(always)]
    fn widen(self) -> f32 {
        const SCALE: f32 = f32::from_bits((127 + 112) << 23);
        let magnitude = u32::from(self & 0x7FFF) << 13;
        let scaled = (f32::from_bits(magnitude) * SCALE).to_bits();
        let special = if self & 0x7C00 == 0x7C00 {
            0x7F80_0000
        } else {
            0
        };
        f32::from_bits(scaled | special | u32::from(self & 0x8000) << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_float16_are_widened() {
        let known = [
            (0x0000, 0.0),
            (0x0001, 2f32.powi(-24)),
            (0x03FF, 1023.0 * 2f32.powi(-24)),
            (0x0400, 2f32.powi(-14)),
            (0x3C00, 1.0),
            (0x3555, 0.333_251_95),
            (0x7BFF, 65504.0),
            (0x7C00, f32::INFINITY),
        ];
        for (bits, value) in known {
            let bits: u16 = bits;
            assert_eq!(bits.widen().to_bits(), value.to_bits());
            assert_eq!((bits | 0x8000).widen().to_bits(), (-value).to_bits());
        }
        assert!(0x7C01u16.widen().is_nan() && 0xFFFFu16.widen().is_nan());
    }
}
