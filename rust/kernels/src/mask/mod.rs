//! Sets of values that rows are tested for, and the bits of the rows whose values are in a set.
//!
//!     x BETWEEN 3 AND 9 OR x IS NULL    ->    {null, 3..9}    ->    1 0 1 1 0 0 …
//! Conditions on one column are such sets, so AND, OR and NOT of them are sets again. A row of a
//! page is tested where it is stored: `values` says how each encoding answers.

pub mod automaton;
pub mod number_tester;
pub mod numbers;
pub mod pages;
pub mod pattern;
pub mod texts;
pub mod values;
pub mod wildcards;

use crate::bitmap::{BitmapBuilder, bit};
use crate::error::{Corrupt, Result, ensure};
use crate::offsets::OffsetsIn;
use number_tester::Tester;
use numbers::{Numbers, Order};
use texts::{Strings, Texts};

/// A set of values of one column; null may be one of them.
#[derive(Debug, Clone)]
pub struct Condition {
    pub test: Test,
    /// Whether null is in the set.
    pub null: bool,
    /// The number of values of a dictionary, if the set contains indices of it.
    pub limit: Option<usize>,
}

/// The values of a set that are not null.
#[derive(Debug, Clone)]
pub enum Test {
    /// All values, or none, of any type.
    Every(bool),
    Numbers(Numbers),
    Texts(Texts),
}

impl Condition {
    pub fn new(test: Test) -> Self {
        Self {
            test,
            null: false,
            limit: None,
        }
    }

    /// All values or none, with or without null.
    pub fn every(values: bool, null: bool) -> Self {
        Self {
            test: Test::Every(values),
            null,
            limit: None,
        }
    }

    pub fn and(&self, other: &Self) -> Result<Self> {
        let test = match (&self.test, &other.test) {
            (Test::Every(true), test) | (test, Test::Every(true)) => test.clone(),
            (Test::Every(false), _) | (_, Test::Every(false)) => Test::Every(false),
            (Test::Numbers(one), Test::Numbers(two)) => Test::Numbers(one.and(two)?),
            (Test::Texts(one), Test::Texts(two)) => Test::Texts(one.and(two)),
            _ => return Err(Corrupt("sets of numbers and of texts".into())),
        };
        Ok(Self {
            test,
            null: self.null && other.null,
            limit: None,
        })
    }

    pub fn or(&self, other: &Self) -> Result<Self> {
        if let (Test::Texts(one), Test::Texts(two)) = (&self.test, &other.test) {
            return Ok(Self {
                test: Test::Texts(one.or(two)),
                null: self.null || other.null,
                limit: None,
            });
        }
        Ok(self.not().and(&other.not())?.not())
    }

    pub fn not(&self) -> Self {
        let test = match &self.test {
            Test::Every(all) => Test::Every(!all),
            Test::Numbers(numbers) => Test::Numbers(numbers.not()),
            Test::Texts(texts) => Test::Texts(texts.not()),
        };
        Self {
            test,
            null: !self.null,
            limit: None,
        }
    }

    /// The bits of `count` numbers of fixed width, none of them null.
    pub fn of_fixed(&self, data: &[u8], count: usize) -> Result<Vec<u8>> {
        let mut bits = BitmapBuilder::default();
        match &self.test {
            Test::Every(all) => bits.extend_constant(*all, count),
            Test::Numbers(numbers) if numbers.bits == 1 => {
                let tester = Tester::of(numbers)?;
                tester.of_bitmap(data, 0, count, &mut bits)?;
            }
            Test::Numbers(numbers) => {
                let expected = count.saturating_mul(numbers.bits / 8);
                ensure(
                    data.len() == expected,
                    "values, bytes",
                    data.len(),
                    expected,
                )?;
                Tester::of(numbers)?.of_values(data, &mut bits)?;
            }
            Test::Texts(_) => return Err(Corrupt("texts: stored as numbers".into())),
        }
        Ok(bits.finish())
    }

    /// The bits of texts, none of them null.
    pub fn of_texts(&self, offsets: OffsetsIn<'_>, data: &[u8]) -> Result<Vec<u8>> {
        let mut bits = BitmapBuilder::default();
        match &self.test {
            Test::Every(all) => bits.extend_constant(*all, offsets.count()),
            Test::Texts(texts) => {
                let ends: Result<Vec<usize>> = (0..=offsets.count())
                    .map(|index| offsets.get(index))
                    .collect();
                texts.test(&Strings::new(&ends?, data)?, &mut bits);
            }
            Test::Numbers(_) => return Err(Corrupt("numbers: stored as texts".into())),
        }
        Ok(bits.finish())
    }

    /// The set of the indices of the values of a dictionary that are in this set, given one bit
    /// per value.
    pub fn of_indices(&self, found: &[u8], count: usize) -> Result<Self> {
        if let Test::Every(_) = self.test {
            return Ok(self.clone());
        }
        let mut ranges: Vec<(u128, u128)> = Vec::new();
        let mut first = None;
        for index in 0..=count {
            let is_in = index < count && bit(found, index);
            match (first, is_in) {
                (None, true) => first = Some(index),
                (Some(start), false) => {
                    ranges.push((start as u128, index as u128 - 1));
                    first = None;
                }
                _ => {}
            }
        }
        let test = match ranges.as_slice() {
            [] => Test::Every(false),
            [(0, last)] if *last + 1 == count as u128 => Test::Every(true),
            _ => Test::Numbers(Numbers::new(Order::Unsigned, INDEX_BITS, ranges)?),
        };
        Ok(Self {
            test,
            null: self.null,
            limit: Some(count),
        })
    }
}

/// Bits of indices of which the stored width is not known yet.
const INDEX_BITS: usize = 64;
