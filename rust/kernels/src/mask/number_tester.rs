//! Tests of stored numbers: which of them are in a set.
//!
//! A value is in the range from a to b if, as unsigned words that wrap around, v - a <= b - a: one
//! subtraction and one comparison.

use std::marker::PhantomData;

use pulp::{Arch, Simd, WithSimd};

use super::numbers::{Numbers, Order, greatest};
use crate::bitmap::BitmapBuilder;
use crate::error::{Corrupt, Result, part};

/// A test of values of one width.
#[derive(Debug)]
pub enum Tester {
    Bits { zero: bool, one: bool },
    Words8(WordTester<u8>),
    Words16(WordTester<u16>),
    Words32(WordTester<u32>),
    Words64(WordTester<u64>),
    Words128(WordTester<u128>),
}

impl Tester {
    /// Prepares the test of many values.
    pub fn of(numbers: &Numbers) -> Result<Self> {
        Ok(match numbers.bits {
            1 => Self::Bits {
                zero: numbers.holds(0),
                one: numbers.holds(1),
            },
            8 => Self::Words8(WordTester::new(numbers)?),
            16 => Self::Words16(WordTester::new(numbers)?),
            32 => Self::Words32(WordTester::new(numbers)?),
            64 => Self::Words64(WordTester::new(numbers)?),
            _ => Self::Words128(WordTester::new(numbers)?),
        })
    }

    /// Bits of one value.
    pub fn bits(&self) -> usize {
        match self {
            Self::Bits { .. } => 1,
            Self::Words8(_) => 8,
            Self::Words16(_) => 16,
            Self::Words32(_) => 32,
            Self::Words64(_) => 64,
            Self::Words128(_) => 128,
        }
    }

    /// Appends the bits of values of whole bytes.
    pub fn of_values(&self, data: &[u8], out: &mut BitmapBuilder) -> Result<()> {
        match self {
            Self::Bits { .. } => return Err(Corrupt("booleans: stored as numbers".into())),
            Self::Words8(tester) => tester.of_values::<1>(data, out),
            Self::Words16(tester) => tester.of_values::<2>(data, out),
            Self::Words32(tester) => tester.of_values::<4>(data, out),
            Self::Words64(tester) => tester.of_values::<8>(data, out),
            Self::Words128(tester) => tester.of_values::<16>(data, out),
        }
        Ok(())
    }

    /// Whether some values of whole bytes may be in the set; false if it is certain that none is.
    pub fn may_hold(&self, data: &[u8]) -> bool {
        match self {
            Self::Bits { .. } => true,
            Self::Words8(tester) => tester.may_hold::<1>(data),
            Self::Words16(tester) => tester.may_hold::<2>(data),
            Self::Words32(tester) => tester.may_hold::<4>(data),
            Self::Words64(tester) => tester.may_hold::<8>(data),
            Self::Words128(tester) => tester.may_hold::<16>(data),
        }
    }

    /// Appends the bits of `count` booleans from bit `start`.
    pub fn of_bitmap(
        &self,
        data: &[u8],
        start: usize,
        count: usize,
        out: &mut BitmapBuilder,
    ) -> Result<()> {
        match self {
            Self::Bits {
                zero: false,
                one: true,
            } => out.extend_from(data, start, count),
            Self::Bits {
                zero: true,
                one: false,
            } => {
                let bytes = (start % 8 + count).div_ceil(8);
                let stored = part(data, start / 8, bytes, "bitmap, bytes")?;
                let flipped: Vec<u8> = stored.iter().map(|byte| !byte).collect();
                out.extend_from(&flipped, start % 8, count)
            }
            Self::Bits { one, .. } => {
                out.extend_constant(*one, count);
                Ok(())
            }
            _ => Err(Corrupt("numbers: stored as booleans".into())),
        }
    }
}

/// An unsigned word with as many bits as the values.
pub trait Word: Copy + Ord + TryFrom<u128> {
    const BITS: u32;
    const MAX: Self;
    fn read(bytes: &[u8]) -> Self;
    /// The ordinal of a float.
    fn float_ordinal(self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn index(self) -> usize;
    /// The same word, or one beyond every small table.
    fn low(self) -> u32;
}

macro_rules! word {
    ($word:ty) => {
        impl Word for $word {
            const BITS: u32 = <$word>::BITS;
            const MAX: Self = <$word>::MAX;

            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                match bytes.first_chunk() {
                    Some(bytes) => Self::from_le_bytes(*bytes),
                    None => 0,
                }
            }

            #[inline(always)]
            fn float_ordinal(self) -> Self {
                let sign = 1 << (Self::BITS - 1);
                self ^ ((0 as Self).wrapping_sub(self >> (Self::BITS - 1)) | sign)
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn index(self) -> usize {
                usize::try_from(self).unwrap_or(usize::MAX) // beyond every table
            }

            #[inline(always)]
            fn low(self) -> u32 {
                u32::try_from(self).unwrap_or(u32::MAX) // beyond every table
            }
        }
    };
}

word!(u8);
word!(u16);
word!(u32);
word!(u64);
word!(u128);

/// Up to this many ranges are compared one after the other.
const FEW: usize = 8;

/// Ordinals that one table covers.
const TABLE: u128 = u16::MAX as u128;

/// A flag for each number of 16 bits; that of the last one is 0.
type FlagTable = Box<[u8; 1 << 16]>;

/// Ordinals that a table covers whose words are all looked at, many values at a time.
const SMALL_TABLE: u128 = 128;

/// A test of words.
#[derive(Debug)]
pub struct WordTester<W> {
    is_float: bool,
    /// What turns a word, or the ordinal of a float, into an ordinal.
    shift: W,
    ranges: Search<W>,
    /// Whether the ranges are those that are not in the set.
    inverted: bool,
}

#[derive(Debug)]
enum Search<W> {
    /// What to add to a word, and the greatest result that is in the range.
    Few(Vec<(W, W)>),
    /// What to add to a word, and a bit per result; there are few words.
    Small(W, Vec<u32>),
    /// What to add to a word, and a flag per result.
    Table(W, FlagTable),
    /// First and last ordinal of each range.
    Sorted(Vec<(W, W)>),
}

impl<W: Word> WordTester<W> {
    fn new(numbers: &Numbers) -> Result<Self> {
        let outside = numbers.not();
        let inverted = outside.ranges.len() < numbers.ranges.len();
        let ranges = if inverted {
            &outside.ranges
        } else {
            &numbers.ranges
        };
        let modulus = greatest(numbers.bits);
        let shift: u128 = match numbers.order {
            Order::Signed => 1 << (numbers.bits - 1),
            Order::Unsigned | Order::Float => 0,
        };
        // Adding this is subtracting the first ordinal.
        let addend = |first: u128| word(shift.wrapping_sub(first) & modulus);
        let spread = match (ranges.first(), ranges.last()) {
            (Some((first, _)), Some((_, last))) => last - first,
            _ => 0,
        };
        let search = if ranges.len() <= FEW {
            let pair = |&(first, last): &_| Ok((addend(first)?, word(last - first)?));
            Search::Few(ranges.iter().map(pair).collect::<Result<_>>()?)
        } else if spread < TABLE {
            let base = ranges.first().map_or(0, |(first, _)| *first);
            let addend = addend(base)?;
            if spread < SMALL_TABLE {
                Search::Small(addend, table(ranges, base))
            } else {
                Search::Table(addend, flags(ranges, base)?)
            }
        } else {
            let pair = |&(first, last): &_| Ok((word(first)?, word(last)?));
            Search::Sorted(ranges.iter().map(pair).collect::<Result<_>>()?)
        };
        Ok(Self {
            is_float: numbers.order == Order::Float,
            shift: word(shift)?,
            ranges: search,
            inverted,
        })
    }

    fn of_values<const N: usize>(&self, data: &[u8], out: &mut BitmapBuilder) {
        let (values, _) = data.as_chunks::<N>();
        match (&self.ranges, self.is_float) {
            (Search::Few(ranges), false) => {
                each(values, self.inverted, out, Ranges(ranges, |v| v));
            }
            (Search::Few(ranges), true) => {
                each(values, self.inverted, out, Ranges(ranges, W::float_ordinal));
            }
            (Search::Small(base, words), false) => {
                each(values, self.inverted, out, Words(*base, words));
            }
            (Search::Small(base, words), true) => {
                let is_in = |value: &[u8; N]| {
                    let place = self.ordered(value).plus(*base).index();
                    let word = words.get(place / 32).copied();
                    word.is_some_and(|word| word >> (place % 32) & 1 == 1)
                };
                slowly(values, self.inverted, out, is_in);
            }
            (Search::Table(base, flags), false) => {
                each(values, self.inverted, out, Flags(*base, flags, |v| v));
            }
            (Search::Table(base, flags), true) => {
                let ordered = W::float_ordinal;
                each(values, self.inverted, out, Flags(*base, flags, ordered));
            }
            (Search::Sorted(ranges), _) => {
                let is_in = |value: &[u8; N]| {
                    let ordinal = self.ordered(value).plus(self.shift);
                    let place = ranges.partition_point(|&(_, last)| last < ordinal);
                    ranges
                        .get(place)
                        .is_some_and(|&(first, _)| first <= ordinal)
                };
                slowly(values, self.inverted, out, is_in);
            }
        }
    }

    /// Whether some values may be in the set; false if it is certain that none is.
    fn may_hold<const N: usize>(&self, data: &[u8]) -> bool {
        let (values, _) = data.as_chunks::<N>();
        match &self.ranges {
            Search::Few(ranges) if !self.is_float && !self.inverted => {
                ranges.iter().any(|&(addend, span)| {
                    Arch::new().dispatch(Any {
                        values,
                        addend,
                        span,
                    })
                })
            }
            _ => true,
        }
    }

    #[inline(always)]
    fn ordered(&self, value: &[u8]) -> W {
        let word = W::read(value);
        if self.is_float {
            word.float_ordinal()
        } else {
            word
        }
    }
}

fn word<W: Word>(value: u128) -> Result<W> {
    W::try_from(value).map_err(|_| Corrupt(format!("{value} has more than {} bits", W::BITS)))
}

/// A bit per ordinal from `base` on.
fn table(ranges: &[(u128, u128)], base: u128) -> Vec<u32> {
    let mut bits = BitmapBuilder::default();
    for &(first, last) in ranges {
        let place = |ordinal: u128| usize::try_from(ordinal - base).unwrap_or(usize::MAX);
        bits.extend_constant(false, place(first).saturating_sub(bits.len()));
        bits.extend_constant(true, place(last) + 1 - place(first));
    }
    let mut bytes = bits.finish();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// A flag per ordinal from `base` on.
fn flags(ranges: &[(u128, u128)], base: u128) -> Result<FlagTable> {
    let mut flags = vec![0; 1 << 16];
    for &(first, last) in ranges {
        let place = |ordinal: u128| usize::try_from(ordinal - base).unwrap_or(usize::MAX);
        if let Some(own) = flags.get_mut(place(first)..=place(last)) {
            own.fill(1);
        }
    }
    let table = flags.into_boxed_slice().try_into();
    table.map_err(|_| Corrupt("a table of other flags".into()))
}

/// A test of 64 values at a time.
trait Block<W: Word>: Copy {
    /// Sets the flag of each value that is in the set; the flags are 0.
    fn flag<const N: usize>(self, values: &[[u8; N]; 64], flags: &mut [u8; 64]);
}

/// What to add to an ordinal, and the greatest result that is in the range; and what turns a word
/// into an ordinal.
#[derive(Clone, Copy)]
struct Ranges<'a, W, F>(&'a [(W, W)], F);

impl<W: Word, F: Fn(W) -> W + Copy> Block<W> for Ranges<'_, W, F> {
    #[inline(always)]
    fn flag<const N: usize>(self, values: &[[u8; N]; 64], flags: &mut [u8; 64]) {
        let Self(ranges, ordered) = self;
        for &(addend, span) in ranges {
            for (flag, value) in flags.iter_mut().zip(values) {
                *flag |= u8::from(ordered(W::read(value)).plus(addend) <= span);
            }
        }
    }
}

/// What to add to a word, and a bit per result.
#[derive(Clone, Copy)]
struct Words<'a, W>(W, &'a [u32]);

impl<W: Word> Block<W> for Words<'_, W> {
    #[inline(always)]
    fn flag<const N: usize>(self, values: &[[u8; N]; 64], flags: &mut [u8; 64]) {
        let Self(base, words) = self;
        let mut places = [0u32; 64];
        for (place, value) in places.iter_mut().zip(values) {
            *place = W::read(value).plus(base).low();
        }
        let mut found = [0u32; 64];
        for (first, &word) in (0u32..).step_by(32).zip(words) {
            for (slot, place) in found.iter_mut().zip(&places) {
                *slot |= word.checked_shr(place.wrapping_sub(first)).unwrap_or(0);
            }
        }
        for (flag, found) in flags.iter_mut().zip(&found) {
            *flag = u8::from(found & 1 == 1);
        }
    }
}

/// What to add to an ordinal, and a flag per result; and what turns a word into an ordinal.
#[derive(Clone, Copy)]
struct Flags<'a, W, F>(W, &'a [u8; 1 << 16], F);

impl<W: Word, F: Fn(W) -> W + Copy> Block<W> for Flags<'_, W, F> {
    #[inline(always)]
    #[allow(clippy::indexing_slicing)] // 16 bits are an index of the table
    fn flag<const N: usize>(self, values: &[[u8; N]; 64], flags: &mut [u8; 64]) {
        let Self(base, table, ordered) = self;
        for (flag, value) in flags.iter_mut().zip(values) {
            let place = ordered(W::read(value)).plus(base).index();
            *flag = table[usize::from(u16::try_from(place).unwrap_or(u16::MAX))];
        }
    }
}

/// Appends a bit per value: whether it is in the set.
fn each<W: Word, const N: usize>(
    values: &[[u8; N]],
    inverted: bool,
    out: &mut BitmapBuilder,
    test: impl Block<W>,
) {
    let flip = if inverted { u64::MAX } else { 0 };
    Arch::new().dispatch(Each {
        values,
        flip,
        out,
        test,
        word: PhantomData,
    });
}

/// The loop of `each`. A closure that is called more than once would be compiled for the oldest
/// processor only.
struct Each<'a, W, B, const N: usize> {
    values: &'a [[u8; N]],
    flip: u64,
    out: &'a mut BitmapBuilder,
    test: B,
    word: PhantomData<W>,
}

impl<W: Word, B: Block<W>, const N: usize> WithSimd for Each<'_, W, B, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let (blocks, rest) = self.values.as_chunks::<64>();
        for block in blocks {
            let mut flags = [0; 64];
            self.test.flag(block, &mut flags);
            self.out.push_word(gathered(&flags) ^ self.flip, 64);
        }
        if !rest.is_empty() {
            let (mut block, mut flags) = ([[0; N]; 64], [0; 64]);
            for (slot, value) in block.iter_mut().zip(rest) {
                *slot = *value;
            }
            self.test.flag(&block, &mut flags);
            let bits = (gathered(&flags) ^ self.flip) & (u64::MAX >> (64 - rest.len()));
            self.out.push_word(bits, rest.len());
        }
    }
}

/// Whether any value is in a range, given what to add to it and the greatest result within.
struct Any<'a, W, const N: usize> {
    values: &'a [[u8; N]],
    addend: W,
    span: W,
}

impl<W: Word, const N: usize> WithSimd for Any<'_, W, N> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> bool {
        let moved = |value: &[u8; N]| W::read(value).plus(self.addend);
        let (blocks, rest) = self.values.as_chunks::<64>();
        let mut least = [W::MAX; 64];
        for block in blocks {
            for (slot, value) in least.iter_mut().zip(block) {
                *slot = moved(value).min(*slot);
            }
        }
        let mut all = least.into_iter().chain(rest.iter().map(moved));
        all.any(|value| value <= self.span)
    }
}

/// The lowest bit of each byte.
#[inline(always)]
fn gathered(flags: &[u8; 64]) -> u64 {
    let (groups, _) = flags.as_chunks::<8>();
    let mut bits = 0;
    for (index, group) in groups.iter().enumerate() {
        let byte = u64::from_le_bytes(*group).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits |= byte << (8 * index);
    }
    bits
}

/// Appends a bit per value, one after the other.
fn slowly<const N: usize>(
    values: &[[u8; N]],
    inverted: bool,
    out: &mut BitmapBuilder,
    is_in: impl Fn(&[u8; N]) -> bool,
) {
    for block in values.chunks(64) {
        let mut bits = 0;
        for (place, value) in block.iter().enumerate() {
            bits |= u64::from(is_in(value) != inverted) << place;
        }
        out.push_word(bits, block.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitmap::{BitmapBuilder, bit};

    /// Sets of which some are searched by ranges, some by small and some by large tables.
    #[test]
    fn values_are_in_the_set_however_it_is_searched() -> Result<()> {
        for (order, step, count) in [
            (Order::Unsigned, 3, 5),
            (Order::Unsigned, 3, 40),
            (Order::Signed, 2, 60),
            (Order::Unsigned, 2, 200),
            (Order::Signed, 100_003, 60),
            (Order::Float, 3, 40),
        ] {
            let some: Vec<u128> = (0..count).map(|n| 7 + n * step).collect();
            for set in [
                Numbers::among(order, 32, some.iter().copied())?,
                Numbers::among(order, 32, some.iter().copied())?.not(),
            ] {
                let values: Vec<u32> = (0..1000).chain([u32::MAX, 1 << 31, 100_010]).collect();
                let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                let (tester, mut bits) = (Tester::of(&set)?, BitmapBuilder::default());
                tester.of_values(&data, &mut bits)?;
                let bits = bits.finish();
                let mut is_any = false;
                for (row, &value) in values.iter().enumerate() {
                    let expected = set.holds(order.ordinal(u128::from(value), 32));
                    assert_eq!(bit(&bits, row), expected, "{value} of {order:?}, {step}");
                    is_any |= expected;
                }
                assert!(tester.may_hold(&data) || !is_any);
                for width in [8, 16] {
                    let narrow = set.narrow(width)?;
                    for value in [0, 7, 8, 10, 11, 127, 128, 255, 307, 32_767, 32_768, 65_535] {
                        let expected =
                            value <= greatest(width) && set.holds(order.ordinal(value, 32));
                        assert_eq!(
                            narrow.holds(value),
                            expected,
                            "{value} of {order:?}, {step}"
                        );
                    }
                }
            }
        }
        Ok(())
    }
}
