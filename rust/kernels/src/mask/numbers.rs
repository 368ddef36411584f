//! Sets of numbers: sorted, disjoint ranges of ordinals.
//!
//!     unsigned    v                             ordinals are unsigned and ordered as the
//!     signed      v with its sign flipped       numbers are; floats have the total order
//!     float       v with its sign flipped,      of IEEE 754: -NaN < -inf < … < inf < NaN,
//!                 of negative ones all bits     and -0.0 is less than 0.0
//! Booleans are unsigned numbers of one bit.

use crate::error::{Corrupt, Result, ensure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Unsigned,
    Signed,
    Float,
}

impl Order {
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "unsigned" => Ok(Self::Unsigned),
            "signed" => Ok(Self::Signed),
            "float" => Ok(Self::Float),
            _ => Err(Corrupt(format!(
                "order: expected unsigned, signed or float, found {name}"
            ))),
        }
    }

    /// The ordinal of a number of `bits` bits.
    pub(super) fn ordinal(self, value: u128, bits: usize) -> u128 {
        let sign = 1 << (bits - 1);
        match self {
            Self::Unsigned => value,
            Self::Float if value & sign != 0 => value ^ greatest(bits),
            Self::Signed | Self::Float => value ^ sign,
        }
    }
}

/// The greatest ordinal of numbers of some bits.
pub(super) fn greatest(bits: usize) -> u128 {
    u128::MAX >> (128 - bits)
}

/// A set of numbers of one width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers {
    pub(super) order: Order,
    pub bits: usize,
    /// First and last ordinal of each range; ranges do not touch each other.
    pub(super) ranges: Vec<(u128, u128)>,
}

impl Numbers {
    /// The numbers in ranges of ordinals, which are disjoint and ascending.
    pub fn new(order: Order, bits: usize, ranges: Vec<(u128, u128)>) -> Result<Self> {
        ensure(
            matches!(bits, 1 | 8 | 16 | 32 | 64 | 128),
            "numbers, bits",
            bits,
            "1, 8, 16, 32, 64 or 128",
        )?;
        Ok(Self {
            order,
            bits,
            ranges,
        })
    }

    /// The numbers from `low` to `high`, both included; without one of them, the range is open.
    pub fn within(
        order: Order,
        bits: usize,
        low: Option<u128>,
        high: Option<u128>,
    ) -> Result<Self> {
        let mut made = Self::new(order, bits, Vec::new())?;
        let least = low.map_or(0, |low| order.ordinal(low, bits));
        let most = high.map_or(greatest(bits), |high| order.ordinal(high, bits));
        if least <= most {
            made.ranges.push((least, most));
        }
        Ok(made)
    }

    /// The given numbers.
    pub fn among(order: Order, bits: usize, values: impl Iterator<Item = u128>) -> Result<Self> {
        let mut made = Self::new(order, bits, Vec::new())?;
        let mut ordinals: Vec<u128> = values.map(|value| order.ordinal(value, bits)).collect();
        ordinals.sort_unstable();
        for ordinal in ordinals {
            match made.ranges.last_mut() {
                Some((_, end)) if ordinal <= end.saturating_add(1) => *end = ordinal,
                _ => made.ranges.push((ordinal, ordinal)),
            }
        }
        Ok(made)
    }

    pub fn and(&self, other: &Self) -> Result<Self> {
        let is_same = (self.order, self.bits) == (other.order, other.bits);
        ensure(is_same, "sets of numbers", other.bits, self.bits)?;
        let (mut left, mut right) = (self.ranges.iter(), other.ranges.iter());
        let (mut one, mut two) = (left.next(), right.next());
        let mut ranges = Vec::new();
        while let (Some(a), Some(b)) = (one, two) {
            let (first, last) = (a.0.max(b.0), a.1.min(b.1));
            if first <= last {
                ranges.push((first, last));
            }
            if a.1 < b.1 {
                one = left.next();
            } else {
                two = right.next();
            }
        }
        Ok(Self {
            ranges,
            ..self.clone()
        })
    }

    pub fn not(&self) -> Self {
        let (mut ranges, mut next) = (Vec::with_capacity(self.ranges.len() + 1), Some(0));
        for &(first, last) in &self.ranges {
            if let Some(start) = next
                && start < first
            {
                ranges.push((start, first - 1));
            }
            next = (last < greatest(self.bits)).then(|| last + 1);
        }
        if let Some(start) = next {
            ranges.push((start, greatest(self.bits)));
        }
        Self {
            order: self.order,
            bits: self.bits,
            ranges,
        }
    }

    /// The same set of unsigned numbers of another width, as far as that width has them.
    pub fn of_bits(&self, bits: usize) -> Result<Self> {
        let mut made = Self::new(Order::Unsigned, bits, Vec::new())?;
        let most = greatest(bits);
        let inside = self.ranges.iter().take_while(|(first, _)| *first <= most);
        made.ranges = inside
            .map(|&(first, last)| (first, last.min(most)))
            .collect();
        Ok(made)
    }

    /// The same numbers as unsigned ones of fewer bits, as far as these have them: those of which
    /// the other bits are zero.
    pub fn narrow(&self, bits: usize) -> Result<Self> {
        let zero = self.order.ordinal(0, self.bits);
        let last = zero + greatest(bits);
        let mut made = Self::new(Order::Unsigned, bits, Vec::new())?;
        let after = self.ranges.partition_point(|&(_, end)| end < zero);
        let inside = self.ranges.iter().skip(after);
        made.ranges = inside
            .take_while(|(start, _)| *start <= last)
            .map(|&(start, end)| (start.saturating_sub(zero), end.min(last) - zero))
            .collect();
        Ok(made)
    }

    pub(super) fn holds(&self, ordinal: u128) -> bool {
        self.ranges
            .iter()
            .any(|&(first, last)| (first..=last).contains(&ordinal))
    }

    /// Whether all, or no, numbers of at most `width` bits, taken as unsigned, are in the set;
    /// None if some are.
    pub fn of_width(&self, width: usize) -> Option<bool> {
        if self.order != Order::Unsigned && width >= self.bits {
            return match self.ranges.as_slice() {
                [] => Some(false),
                [(0, last)] if *last == greatest(self.bits) => Some(true),
                _ => None,
            };
        }
        let first = self.order.ordinal(0, self.bits);
        let last = first + if width == 0 { 0 } else { greatest(width) };
        let after = self.ranges.partition_point(|&(_, end)| end < first);
        match self.ranges.get(after) {
            Some(&(start, end)) if start <= first && last <= end => Some(true),
            Some(&(start, _)) if start <= last => None,
            _ => Some(false),
        }
    }
}
