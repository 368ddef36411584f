//! Rows of an inverted index as Arrow lists, and the entries that they store.

use super::blocks::{Layout, MOST};
use super::entries::Entries;
use super::positions::{self, Codec};
use crate::error::{Result, ensure, out_of_range, part, signed, size};

/// Lists of byte strings: those of list `i` are `lists[i]..lists[i + 1]`.
#[derive(Clone, Copy)]
pub struct Lists<'a> {
    pub lists: &'a [i32],
    pub offsets: &'a [i64],
    pub data: &'a [u8],
}

impl<'a> Lists<'a> {
    /// Where the strings of a list begin and end in the data: one more than there are strings.
    pub fn offsets_of(self, list: usize) -> Result<&'a [i64]> {
        let (start, end) = pair_at(self.lists, list)?;
        part(self.offsets, start, end - start + 1, "lists")
    }
}

/// Positions of the rows of tokens.
#[derive(Clone, Copy)]
pub enum Positions<'a> {
    Stream {
        codec: Codec,
        /// Where the stream of each token begins and ends.
        offsets: &'a [i64],
        data: &'a [u8],
        /// The block starts of each token are `lists[i]..lists[i + 1]`.
        lists: &'a [i32],
        starts: &'a [u32],
    },
    Pieces {
        /// The documents of each token are `documents[i]..documents[i + 1]`.
        documents: &'a [i32],
        pieces: Lists<'a>,
    },
}

/// Two adjacent offsets as a range.
pub fn pair_at<T: Copy + TryInto<usize> + std::fmt::Display>(
    offsets: &[T],
    index: usize,
) -> Result<(usize, usize)> {
    match part(offsets, index, 2, "offsets")? {
        [start, end] => {
            let (start, end) = (size(*start, "offset")?, size(*end, "offset")?);
            ensure(
                start <= end,
                "offsets",
                end,
                format_args!("at least {start}"),
            )?;
            Ok((start, end))
        }
        _ => Err(out_of_range("offsets")),
    }
}

/// Checks that documents ascend after `last`, are below `most`, and that frequencies are not 0.
pub fn check(documents: &[u32], frequencies: &[u32], last: Option<u32>, most: usize) -> Result<()> {
    let follows = match (last, documents.first()) {
        (Some(last), Some(&first)) => last < first,
        _ => true,
    };
    let ascends = documents.windows(2).all(|two| match two {
        [left, right] => left < right,
        _ => false,
    });
    ensure(
        follows && ascends,
        "documents of a posting list",
        "others",
        "ascending ones",
    )?;
    let last = documents.last().map_or(0, |last| *last as usize);
    ensure(
        last < most,
        "document of a posting list",
        last,
        format_args!("below {most}"),
    )?;
    ensure(
        !frequencies.contains(&0),
        "frequency in a posting list",
        0,
        "at least 1",
    )
}

/// Decodes the entries of all rows, whose numbers of entries are `lengths`.
pub fn decode(
    postings: Lists<'_>,
    lengths: &[u32],
    layout: Layout,
    num_documents: usize,
    stored: Option<Positions<'_>>,
) -> Result<Entries> {
    let mut entries = Entries::default();
    let mut scratch = Vec::new();
    for (row, &length) in lengths.iter().enumerate() {
        let length = length as usize;
        ensure(
            length <= num_documents,
            "entries of a posting list",
            length,
            format_args!("at most {num_documents}"),
        )?;
        let offsets = postings.offsets_of(row)?;
        let blocks = layout.num_blocks(length);
        ensure(
            offsets.len() == blocks + 1,
            "posting blocks",
            offsets.len() - 1,
            blocks,
        )?;
        let first = entries.documents.len();
        for block in 0..blocks {
            let done = entries.documents.len() - first;
            let (start, end) = pair_at(offsets, block)?;
            let bytes = part(postings.data, start, end - start, "posting block")?;
            let count = layout.block_size().min(length - done);
            decode_block(
                layout,
                bytes,
                count,
                (done > 0, num_documents),
                &mut entries,
            )?;
        }
        match stored {
            None => {}
            Some(Positions::Stream {
                codec,
                offsets,
                data,
                lists,
                starts,
            }) => {
                let (start, end) = pair_at(offsets, row)?;
                let stream = part(data, start, end - start, "positions")?;
                let (start, end) = pair_at(lists, row)?;
                ensure(
                    end - start == blocks,
                    "blocks of positions",
                    end - start,
                    blocks,
                )?;
                let starts = part(starts, start, blocks, "blocks of positions")?;
                let frequencies = part(&entries.frequencies, first, length, "frequencies")?;
                for (block, own) in frequencies.chunks(layout.block_size()).enumerate() {
                    let bytes = stream_block(stream, starts, block)?;
                    positions::decode(codec, bytes, own, &mut scratch)?;
                    entries.positions.extend_from_slice(&scratch);
                }
            }
            Some(Positions::Pieces { documents, pieces }) => {
                let (start, end) = pair_at(documents, row)?;
                ensure(
                    end - start == length,
                    "documents with positions",
                    end - start,
                    length,
                )?;
                let frequencies = part(&entries.frequencies, first, length, "frequencies")?;
                for (document, &frequency) in (start..end).zip(frequencies) {
                    document_pieces(pieces, document, frequency, &mut entries.positions)?;
                }
            }
        }
        entries
            .ends
            .push(signed(entries.documents.len(), "entries")?);
    }
    Ok(entries)
}

/// Decodes a block; `place` says whether others of the list precede, and the number of documents.
fn decode_block(
    layout: Layout,
    bytes: &[u8],
    count: usize,
    place: (bool, usize),
    entries: &mut Entries,
) -> Result<()> {
    let (mut documents, mut frequencies) = ([0; MOST], [0; MOST]);
    let (documents, _) = documents.split_at_mut(count);
    let (frequencies, _) = frequencies.split_at_mut(count);
    let at = layout.documents(bytes, documents)?;
    let end = layout.frequencies(bytes, at, frequencies)?;
    ensure(end == bytes.len(), "posting block, bytes", bytes.len(), end)?;
    let last = if place.0 {
        entries.documents.last().copied()
    } else {
        None
    };
    check(documents, frequencies, last, place.1)?;
    entries.documents.extend_from_slice(documents);
    entries.frequencies.extend_from_slice(frequencies);
    Ok(())
}

/// The bytes of the positions of a block.
pub fn stream_block<'a>(stream: &'a [u8], starts: &[u32], block: usize) -> Result<&'a [u8]> {
    let missing = || out_of_range("blocks of positions");
    let start = *starts.get(block).ok_or_else(missing)? as usize;
    let end = starts
        .get(block + 1)
        .map_or(stream.len(), |&end| end as usize);
    let len = end.checked_sub(start).ok_or_else(missing)?;
    part(stream, start, len, "positions, bytes")
}

/// Appends the positions of a document that are stored as pieces.
pub fn document_pieces(
    pieces: Lists<'_>,
    document: usize,
    frequency: u32,
    out: &mut Vec<u32>,
) -> Result<()> {
    let offsets = pieces.offsets_of(document)?;
    let own = (0..offsets.len() - 1)
        .map(|piece| {
            let (start, end) = pair_at(offsets, piece)?;
            part(pieces.data, start, end - start, "positions, bytes")
        })
        .collect::<Result<Vec<_>>>()?;
    positions::decode_pieces(own.into_iter(), frequency, out)
}
