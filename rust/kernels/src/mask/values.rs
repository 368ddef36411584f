//! How the values of a mini-block chunk are tested, for each encoding.
//!
//!     flat, booleans      where they are stored
//!     bit-packed          by the width of the chunk, which bounds its values; else unpacked
//!     runs                one test per run
//!     variable            where they are stored
//!     others              decoded into memory that is reused for each chunk, and fits the cache

use std::ops::Range;

use super::Test;
use super::numbers::{Numbers, Tester};
use super::texts::{Strings, Texts};
use crate::bitmap::{BitmapBuilder, bit};
use crate::block::inline_header;
use crate::compression;
use crate::error::{Corrupt, Result, ensure};
use crate::rle;
use crate::values::{self, Offsets, Plan, Values, append, is_all, only};

/// A test that is prepared for the chunks of a page.
#[derive(Debug)]
pub enum Prepared<'a> {
    Every(bool),
    Numbers(&'a Numbers, Tester),
    Texts(&'a Texts),
}

impl<'a> Prepared<'a> {
    pub fn new(test: &'a Test) -> Result<Self> {
        Ok(match test {
            Test::Every(all) => Self::Every(*all),
            Test::Numbers(numbers) => Self::Numbers(numbers, numbers.tester()?),
            Test::Texts(texts) => Self::Texts(texts),
        })
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
    out: &mut BitmapBuilder,
) -> Result<()> {
    match (plan, prepared) {
        (_, Prepared::Every(all)) => {
            out.extend_constant(*all, chunk.num_tested());
            Ok(())
        }
        (Plan::General { scheme, inner }, _) => {
            let Some((first, others)) = chunk.buffers.split_first() else {
                return Err(Corrupt("compressed chunk: no buffer".into()));
            };
            let raw = compression::decompress(*scheme, first)?;
            let mut buffers = vec![raw.as_slice()];
            buffers.extend_from_slice(others);
            let unpacked = Chunk {
                buffers: &buffers,
                ..*chunk
            };
            test(inner, &unpacked, prepared, scratch, out)
        }
        (_, Prepared::Numbers(numbers, tester)) => {
            of_numbers(plan, chunk, numbers, tester, scratch, out)
        }
        (_, Prepared::Texts(texts)) => of_texts(plan, chunk, texts, scratch, out),
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
    numbers: &Numbers,
    tester: &Tester,
    scratch: &mut Scratch,
    out: &mut BitmapBuilder,
) -> Result<()> {
    let found = number_bits(plan)?;
    ensure(found == tester.bits(), "values, bits", found, tester.bits())?;
    match plan {
        Plan::Flat { bits: 1 } => {
            let (data, bytes) = (only(chunk.buffers)?, chunk.count.div_ceil(8));
            ensure(data.len() == bytes, "bitmap, bytes", data.len(), bytes)?;
            let mut bits =
                |range: &Range<usize>| tester.of_bitmap(data, range.start, range.len(), out);
            return chunk.ranges.iter().try_for_each(&mut bits);
        }
        Plan::Flat { bits } if chunk.is_whole() => {
            let (data, bytes) = (only(chunk.buffers)?, chunk.count.saturating_mul(bits / 8));
            ensure(data.len() == bytes, "flat values, bytes", data.len(), bytes)?;
            return tester.of_values(data, out);
        }
        Plan::InlineBitpacking { bits } => {
            let (width, _) = inline_header(only(chunk.buffers)?, *bits)?;
            if let Some(all) = numbers.of_width(width) {
                out.extend_constant(all, chunk.num_tested());
                return Ok(());
            }
        }
        Plan::Rle { bits } if chunk.is_whole() => {
            return of_runs(chunk, bits / 8, tester, out);
        }
        _ => {}
    }
    scratch.bytes.clear();
    let mut decoded = Values::Fixed(std::mem::take(&mut scratch.bytes));
    append(plan, chunk.buffers, chunk.count, chunk.ranges, &mut decoded)?;
    if let Values::Fixed(bytes) = decoded {
        tester.of_values(&bytes, out)?;
        scratch.bytes = bytes;
    }
    Ok(())
}

/// Appends the bit of each run as often as the run is long.
fn of_runs(
    chunk: &Chunk<'_>,
    width: usize,
    tester: &Tester,
    out: &mut BitmapBuilder,
) -> Result<()> {
    let [items, lengths] = chunk.buffers else {
        let found = chunk.buffers.len();
        return Err(Corrupt(format!("rle: expected 2 buffers, found {found}")));
    };
    rle::check(items, lengths, width, chunk.count)?;
    let mut bits = BitmapBuilder::default();
    tester.of_values(items, &mut bits)?;
    let (bits, mut left) = (bits.finish(), chunk.count);
    for (run, &length) in lengths.iter().enumerate() {
        let length = usize::from(length).min(left);
        out.extend_constant(bit(&bits, run), length);
        left -= length;
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
        let stored = values::Strings::parse(only(chunk.buffers)?, *offset_bits, chunk.count)?;
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
