//! Compresses strings by FSST, with the `fsst-rs` crate and a table trained for the strings.

use ::fsst::Compressor;

use crate::error::{Result, ensure, out_of_range, part};
use crate::fsst::{MAGIC, TABLE_BYTES};
use crate::fsst_training::train;
use crate::offsets::OffsetsIn;

const TERMINATOR: u8 = 0;

/// Strings as one buffer and the end of each.
#[derive(Debug)]
pub struct Compressed {
    /// A symbol table of `TABLE_BYTES`.
    pub table: Vec<u8>,
    /// `n + 1` offsets into `data`.
    pub offsets: Vec<i64>,
    pub data: Vec<u8>,
}

/// Trains a table on the strings and compresses them.
pub fn compress(offsets: OffsetsIn<'_>, data: &[u8]) -> Result<Compressed> {
    let mut strings = Vec::with_capacity(offsets.count());
    for index in 0..offsets.count() {
        strings.push(string(data, offsets.get(index)?, offsets.get(index + 1)?)?);
    }
    let compressor = train(&strings);
    let total = strings.iter().map(|string| string.len()).sum();
    let mut ends = Vec::with_capacity(strings.len() + 1);
    ends.push(0);
    // Memory is committed when it is written to, so an overestimate costs nothing.
    let mut coded = Vec::with_capacity(total);
    let (mut run_ends, mut run_coded) = (Vec::new(), Vec::new());
    for run in runs(&strings) {
        run_ends.clear();
        run_coded.clear();
        compressor.compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(
            run,
            &mut run_coded,
            &mut run_ends,
        );
        let base = coded.len() as u64;
        for &end in &run_ends {
            ends.push(i64::try_from(base + end).map_err(|_| out_of_range("fsst string"))?);
        }
        coded.extend_from_slice(&run_coded);
    }
    Ok(Compressed {
        table: table_bytes(&compressor)?,
        offsets: ends,
        data: coded,
    })
}

/// Adjacent strings of about this many bytes are compressed at once: the encoder allocates twice
/// their size, regardless of the result.
const RUN_BYTES: usize = 512 * 1024;

/// Cuts strings into runs of about `RUN_BYTES`, of at least one string.
fn runs<'a, 'b>(strings: &'b [&'a [u8]]) -> impl Iterator<Item = &'b [&'a [u8]]> {
    let mut filled = 0;
    strings.chunk_by(move |string, next| {
        filled += string.len();
        let fits = filled + next.len() <= RUN_BYTES;
        filled = if fits { filled } else { 0 };
        fits
    })
}

fn string(data: &[u8], start: usize, end: usize) -> Result<&[u8]> {
    ensure(
        start <= end,
        "string offsets",
        end,
        format_args!("at least {start}"),
    )?;
    part(data, start, end - start, "string data")
}

fn table_bytes(compressor: &Compressor) -> Result<Vec<u8>> {
    let symbols = compressor.symbol_table();
    let count = u8::try_from(symbols.len()).map_err(|_| out_of_range("fsst symbols"))?;
    let mut table = vec![count, TERMINATOR, count, 1];
    table.extend_from_slice(&MAGIC);
    table.extend(
        symbols
            .iter()
            .flat_map(|symbol| symbol.to_u64().to_le_bytes()),
    );
    table.extend_from_slice(compressor.symbol_lengths());
    table.resize(TABLE_BYTES, 0);
    Ok(table)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_possible_wrap)]
    use super::*;
    use crate::fsst::decompress;

    fn strings(texts: &[&[u8]]) -> (Vec<i64>, Vec<u8>) {
        let mut offsets = vec![0];
        let mut data = Vec::new();
        for text in texts {
            data.extend_from_slice(text);
            offsets.push(data.len() as i64);
        }
        (offsets, data)
    }

    #[test]
    fn strings_of_several_runs_stay_apart() {
        let long = vec![b'x'; RUN_BYTES + 1];
        let texts: Vec<Vec<u8>> = (0..300u32)
            .map(|i| match i % 100 {
                0 => long.clone(),
                1 => Vec::new(),
                _ => format!("row {i} of many, ").into_bytes().repeat(500),
            })
            .collect();
        let views: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let sizes: Vec<usize> = runs(&views)
            .map(|run| run.iter().map(|text| text.len()).sum())
            .collect();
        assert!(sizes.len() > 5);
        assert!(sizes.iter().all(|&size| size <= long.len()));
        let (offsets, data) = strings(&views);
        assert_eq!(sizes.iter().sum::<usize>(), data.len());
        let made = compress(OffsetsIn::Large(&offsets), &data).unwrap();
        let back = decompress(&made.table, &made.offsets, &made.data).unwrap();
        assert_eq!(back, (offsets, data));
    }
}
