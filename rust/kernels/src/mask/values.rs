//! How the values of a mini-block chunk are tested, for each encoding.
//!
//!     flat, booleans      where they are stored
//!     bit-packed          by the width of the chunk, which bounds its values; else unpacked to the
//!                         narrowest words that have this width
//!     runs                one test per run
//!     LZ4 of decimals     by the bytes in which the values of the chunk differ, if the others are zero
//!     variable            where they are stored
//!     FSST                patterns on the codes, see `automaton`
//!     others              decoded into memory that is reused for each chunk, and fits the cache

use std::ops::Range;

use super::automaton::Automaton;
use super::number_tester::Tester;
use super::numbers::{Numbers, Order};
use super::texts::{Strings, Texts};
use super::{Condition, INDEX_BITS, Test};
use crate::bitmap::{BitmapBuilder, bit};
use crate::bitpacking::{GROUP, packed_bytes};
use crate::block::inline_header;
use crate::compression;
use crate::error::{Corrupt, Result, ensure};
use crate::fsst::SymbolTable;
use crate::lz4_values::Sequences;
use crate::narrow_words;
use crate::offsets::Offsets;
use crate::ranges::is_all;
use crate::rle;
use crate::stored_strings::StoredStrings;
use crate::values::{self, Plan, Values, append, only};

/// A test that is prepared for the chunks of a page.
#[derive(Debug)]
pub enum Prepared<'a> {
    Every(bool),
    Numbers(Box<NumberTest>),
    Texts(&'a Texts, Option<Box<Automaton>>),
}

/// A test of numbers, which may be indices of a dictionary.
#[derive(Debug)]
pub struct NumberTest {
    /// Of the numbers as they are.
    whole: WidthTest,
    /// Of numbers that are unpacked to words of fewer bits, the narrowest first.
    narrow: Vec<WidthTest>,
}

/// A test of numbers of one width.
#[derive(Debug)]
struct WidthTest {
    numbers: Numbers,
    tester: Tester,
    /// The indices at or after the end of the dictionary.
    beyond: Option<(Numbers, Tester)>,
}

impl<'a> Prepared<'a> {
    /// Prepares the test of a condition for values that are stored by a plan.
    pub fn new(condition: &'a Condition, plan: &Plan) -> Result<Self> {
        Ok(match (&condition.test, condition.limit) {
            (Test::Every(all), _) => Self::Every(*all),
            (Test::Numbers(numbers), None) => {
                Self::Numbers(Box::new(NumberTest::new(numbers.clone(), None, plan)?))
            }
            (Test::Numbers(indices), Some(limit)) => {
                let bits = number_bits(plan)?;
                let is_known = matches!(bits, 8 | 16 | 32 | 64);
                ensure(
                    is_known,
                    "dictionary indices, bits",
                    bits,
                    "8, 16, 32 or 64",
                )?;
                let numbers = indices.of_bits(bits)?;
                let after =
                    Numbers::within(Order::Unsigned, INDEX_BITS, Some(limit as u128), None)?;
                let after = Some(after.of_bits(bits)?);
                Self::Numbers(Box::new(NumberTest::new(numbers, after, plan)?))
            }
            (Test::Texts(texts), _) => {
                let automaton = coded(plan).and_then(|table| Automaton::new(texts, table));
                Self::Texts(texts, automaton.map(Box::new))
            }
        })
    }
}

/// The symbol table of texts that are stored as codes.
fn coded(plan: &Plan) -> Option<&SymbolTable> {
    match plan {
        Plan::Fsst { table, .. } if table.is_coded() => Some(table),
        Plan::General { inner, .. } => coded(inner),
        _ => None,
    }
}

/// What is known of the values that were tested.
#[derive(Debug, Default)]
pub struct Found {
    /// Whether they are in the set.
    pub values: BitmapBuilder,
    /// Whether they are indices beyond the dictionary; those after the last bit are not.
    pub beyond: BitmapBuilder,
}

impl Found {
    /// The bits of indices beyond the dictionary, one for each value so far.
    fn beyond(&mut self) -> &mut BitmapBuilder {
        let missing = self.values.len().saturating_sub(self.beyond.len());
        self.beyond.extend_constant(false, missing);
        &mut self.beyond
    }
}

impl NumberTest {
    fn new(numbers: Numbers, beyond: Option<Numbers>, plan: &Plan) -> Result<Self> {
        let mut narrow = Vec::new();
        let bits = match plan {
            Plan::InlineBitpacking { bits } => *bits,
            Plan::General { inner, .. } if matches!(**inner, Plan::Flat { bits: 128 }) => 128,
            _ => 0,
        };
        for fewer in NARROW_BITS.into_iter().filter(|&fewer| fewer < bits) {
            let after = beyond
                .as_ref()
                .map(|after| after.narrow(fewer))
                .transpose()?;
            narrow.push(WidthTest::new(numbers.narrow(fewer)?, after)?);
        }
        Ok(Self {
            whole: WidthTest::new(numbers, beyond)?,
            narrow,
        })
    }
}

/// The widths to which values are unpacked.
const NARROW_BITS: [usize; 4] = [8, 16, 32, 64];

impl WidthTest {
    fn new(numbers: Numbers, beyond: Option<Numbers>) -> Result<Self> {
        let beyond = match beyond {
            Some(after) => Some((after.clone(), Tester::of(&after)?)),
            None => None,
        };
        Ok(Self {
            tester: Tester::of(&numbers)?,
            numbers,
            beyond,
        })
    }

    /// Appends the bits of values of whole bytes.
    fn of_values(&self, data: &[u8], out: &mut Found) -> Result<()> {
        if let Some((_, tester)) = &self.beyond
            && tester.may_hold(data)
        {
            tester.of_values(data, out.beyond())?;
        }
        self.tester.of_values(data, &mut out.values)
    }

    /// Appends the bits of `count` values of at most `width` bits, if they are all equal.
    fn of_width(&self, width: usize, count: usize, out: &mut Found) -> bool {
        let is_in = self.numbers.of_width(width);
        let is_beyond = match &self.beyond {
            Some((numbers, _)) => numbers.of_width(width),
            None => Some(false),
        };
        if let (Some(is_in), Some(is_beyond)) = (is_in, is_beyond) {
            if is_beyond {
                out.beyond().extend_constant(true, count);
            }
            out.values.extend_constant(is_in, count);
            return true;
        }
        false
    }
}

/// Memory that is reused from chunk to chunk.
#[derive(Debug, Default)]
pub struct Scratch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// The values of a chunk: its buffers, their number, and the ranges of those to test.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    pub buffers: &'a [&'a [u8]],
    pub count: usize,
    pub ranges: &'a [Range<usize>],
}

impl Chunk<'_> {
    fn num_tested(&self) -> usize {
        self.ranges.iter().map(ExactSizeIterator::len).sum()
    }

    fn is_whole(&self) -> bool {
        is_all(self.ranges, self.count)
    }
}

/// Appends a bit for each value that is tested.
pub fn test(
    plan: &Plan,
    chunk: &Chunk<'_>,
    prepared: &Prepared<'_>,
    scratch: &mut Scratch,
    out: &mut Found,
) -> Result<()> {
    match (plan, prepared) {
        (_, Prepared::Every(all)) => {
            out.values.extend_constant(*all, chunk.num_tested());
            Ok(())
        }
        (Plan::General { scheme, inner }, _) => {
            let Some((first, others)) = chunk.buffers.split_first() else {
                return Err(Corrupt("compressed chunk: no buffer".into()));
            };
            if let (Some(sequences), Prepared::Numbers(test)) =
                (values::sequences(plan, first, chunk.count), prepared)
                && chunk.is_whole()
                && of_sequences(&sequences, test, scratch, out)?
            {
                return Ok(());
            }
            let raw = compression::decompress(*scheme, first)?;
            let mut buffers = vec![raw.as_slice()];
            buffers.extend_from_slice(others);
            let unpacked = Chunk {
                buffers: &buffers,
                ..*chunk
            };
            test(inner, &unpacked, prepared, scratch, out)
        }
        (_, Prepared::Numbers(numbers)) => of_numbers(plan, chunk, numbers, scratch, out),
        (_, Prepared::Texts(_, Some(automaton))) => {
            of_codes(plan, chunk, automaton, scratch, &mut out.values)
        }
        (_, Prepared::Texts(texts, None)) => of_texts(plan, chunk, texts, scratch, &mut out.values),
    }
}

/// The bits of each number of a page.
pub fn number_bits(plan: &Plan) -> Result<usize> {
    match plan {
        Plan::Flat { bits }
        | Plan::InlineBitpacking { bits }
        | Plan::Rle { bits }
        | Plan::ByteStreamSplit { bits } => Ok(*bits),
        Plan::General { inner, .. } => number_bits(inner),
        _ => Err(Corrupt("numbers: stored in another way".into())),
    }
}

fn of_numbers(
    plan: &Plan,
    chunk: &Chunk<'_>,
    test: &NumberTest,
    scratch: &mut Scratch,
    out: &mut Found,
) -> Result<()> {
    let NumberTest { whole, narrow } = test;
    let (found, expected) = (number_bits(plan)?, whole.tester.bits());
    ensure(found == expected, "values, bits", found, expected)?;
    match plan {
        Plan::Flat { bits: 1 } => {
            let (data, bytes) = (only(chunk.buffers)?, chunk.count.div_ceil(8));
            ensure(data.len() == bytes, "bitmap, bytes", data.len(), bytes)?;
            let mut bits = |range: &Range<usize>| {
                let (start, count) = (range.start, range.len());
                whole.tester.of_bitmap(data, start, count, &mut out.values)
            };
            return chunk.ranges.iter().try_for_each(&mut bits);
        }
        Plan::Flat { bits } if chunk.is_whole() => {
            let (data, bytes) = (only(chunk.buffers)?, chunk.count.saturating_mul(bits / 8));
            ensure(data.len() == bytes, "flat values, bytes", data.len(), bytes)?;
            return whole.of_values(data, out);
        }
        Plan::InlineBitpacking { bits } => {
            let (width, packed) = inline_header(only(chunk.buffers)?, *bits)?;
            let (found, expected) = (packed.len(), packed_bytes(width));
            ensure(
                found == expected,
                "bit-packed group, bytes",
                found,
                expected,
            )?;
            ensure(
                chunk.count <= GROUP,
                "bit-packed chunk, values",
                chunk.count,
                "at most 1024",
            )?;
            if whole.of_width(width, chunk.num_tested(), out) {
                return Ok(());
            }
            let narrow = narrow.iter().find(|test| width <= test.tester.bits());
            if let Some(narrow) = narrow.filter(|_| chunk.is_whole()) {
                let fewer = narrow.tester.bits();
                scratch.bytes.clear();
                narrow_words::append(packed, *bits, width, fewer, &mut scratch.bytes)?;
                scratch.bytes.truncate(chunk.count * fewer / 8);
                return narrow.of_values(&scratch.bytes, out);
            }
        }
        Plan::Rle { bits } if chunk.is_whole() => return of_runs(chunk, bits / 8, whole, out),
        _ => {}
    }
    scratch.bytes.clear();
    let mut decoded = Values::Fixed(std::mem::take(&mut scratch.bytes));
    append(plan, chunk.buffers, chunk.count, chunk.ranges, &mut decoded)?;
    if let Values::Fixed(bytes) = decoded {
        whole.of_values(&bytes, out)?;
        scratch.bytes = bytes;
    }
    Ok(())
}

/// Appends the bits of values that have a sequence each, by their low bytes; returns false if the
/// others are not zero.
fn of_sequences(
    sequences: &Sequences<'_>,
    test: &NumberTest,
    scratch: &mut Scratch,
    out: &mut Found,
) -> Result<bool> {
    let Some(width) = sequences.low_bits() else {
        return Ok(false);
    };
    if test.whole.of_width(width, sequences.count(), out) {
        return Ok(true);
    }
    let narrow = test.narrow.iter().find(|test| width <= test.tester.bits());
    let Some(narrow) = narrow else {
        return Ok(false);
    };
    scratch.bytes.clear();
    sequences.append_low(narrow.tester.bits(), &mut scratch.bytes);
    narrow.of_values(&scratch.bytes, out)?;
    Ok(true)
}

/// Appends the bit of each run as often as the run is long.
fn of_runs(chunk: &Chunk<'_>, width: usize, test: &WidthTest, out: &mut Found) -> Result<()> {
    let [items, lengths] = chunk.buffers else {
        let found = chunk.buffers.len();
        return Err(Corrupt(format!("rle: expected 2 buffers, found {found}")));
    };
    rle::check(items, lengths, width, chunk.count)?;
    let mut runs = Found::default();
    test.of_values(items, &mut runs)?;
    if !runs.beyond.is_empty() {
        repeat(runs.beyond, lengths, chunk.count, out.beyond());
    }
    repeat(runs.values, lengths, chunk.count, &mut out.values);
    Ok(())
}

/// Appends bits, each as often as the length says, until there are `count` of them.
fn repeat(bits: BitmapBuilder, lengths: &[u8], count: usize, out: &mut BitmapBuilder) {
    let zeros = bits.zeros();
    if zeros == 0 || zeros == bits.len() {
        out.extend_constant(zeros == 0, count);
        return;
    }
    let (bits, mut left) = (bits.finish(), count);
    for (run, &length) in lengths.iter().enumerate() {
        let length = usize::from(length).min(left);
        out.extend_constant(bit(&bits, run), length);
        left -= length;
    }
}

/// Tests texts by their codes.
fn of_codes(
    plan: &Plan,
    chunk: &Chunk<'_>,
    automaton: &Automaton,
    scratch: &mut Scratch,
    out: &mut BitmapBuilder,
) -> Result<()> {
    let Plan::Fsst { offset_bits, .. } = plan else {
        return Err(Corrupt("texts: stored in another way".into()));
    };
    let stored = StoredStrings::parse(only(chunk.buffers)?, *offset_bits, chunk.count)?;
    scratch.ends.clear();
    stored.ends(&mut scratch.ends);
    let strings = Strings::new(&scratch.ends, stored.buffer)?;
    for range in chunk.ranges {
        for part in (range.start..range.end).step_by(64) {
            let count = (range.end - part).min(64);
            let mut bits = 0;
            for (place, codes) in strings.part(part, count)?.enumerate() {
                bits |= u64::from(automaton.test(codes)?) << place;
            }
            out.push_word(bits, count);
        }
    }
    Ok(())
}

fn of_texts(
    plan: &Plan,
    chunk: &Chunk<'_>,
    texts: &Texts,
    scratch: &mut Scratch,
    out: &mut BitmapBuilder,
) -> Result<()> {
    let (Plan::Variable { offset_bits } | Plan::Fsst { offset_bits, .. }) = plan else {
        return Err(Corrupt("texts: stored in another way".into()));
    };
    scratch.ends.clear();
    if matches!(plan, Plan::Variable { .. }) && chunk.is_whole() {
        let stored = StoredStrings::parse(only(chunk.buffers)?, *offset_bits, chunk.count)?;
        stored.ends(&mut scratch.ends);
        texts.test(&Strings::new(&scratch.ends, stored.buffer)?, out);
        return Ok(());
    }
    scratch.bytes.clear();
    let mut decoded = Values::Variable {
        offsets: Offsets::with_capacity(64, chunk.num_tested())?,
        data: std::mem::take(&mut scratch.bytes),
    };
    append(plan, chunk.buffers, chunk.count, chunk.ranges, &mut decoded)?;
    if let Values::Variable {
        offsets: Offsets::Large(offsets),
        data,
    } = decoded
    {
        let end = |&end: &i64| usize::try_from(end).unwrap_or(usize::MAX); // none is negative
        scratch.ends.extend(offsets.iter().map(end));
        texts.test(&Strings::new(&scratch.ends, &data)?, out);
        scratch.bytes = data;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_beyond_the_dictionary_are_found_where_they_are() -> Result<()> {
        let numbers = Numbers::within(Order::Unsigned, 8, None, Some(9))?;
        let condition = Condition::new(Test::Numbers(numbers)).of_indices(&[0b101], 3)?;
        let Prepared::Numbers(test) = Prepared::new(&condition, &Plan::Flat { bits: 8 })? else {
            return Err(Corrupt("other values are tested".into()));
        };
        let mut found = Found::default();
        test.whole.of_values(&[0, 1, 2].repeat(33), &mut found)?;
        assert!(found.beyond.is_empty());
        test.whole.of_values(&[2, 3, 255], &mut found)?;
        let bits = |bits: BitmapBuilder| {
            let (count, bits) = (bits.len(), bits.finish());
            (0..count)
                .filter(|row| bit(&bits, *row))
                .collect::<Vec<_>>()
        };
        assert_eq!(bits(found.beyond), [100, 101]);
        let expected = (0..99).filter(|row| row % 3 != 1).chain([99]);
        assert_eq!(bits(found.values), expected.collect::<Vec<_>>());
        Ok(())
    }

    #[test]
    fn indices_of_a_dictionary_have_whole_bytes() -> Result<()> {
        let indices = Condition::every(true, false).of_indices(&[1], 1)?;
        assert!(Prepared::new(&indices, &Plan::Flat { bits: 1 }).is_ok());
        let numbers = Numbers::within(Order::Unsigned, 8, None, Some(9))?;
        let some = Condition::new(Test::Numbers(numbers)).of_indices(&[1], 2)?;
        assert!(Prepared::new(&some, &Plan::Flat { bits: 8 }).is_ok());
        for bits in [1, 128] {
            assert!(Prepared::new(&some, &Plan::Flat { bits }).is_err());
        }
        Ok(())
    }
}
