//! Posting lists that grow while documents are analysed, compressed in memory.
//!
//!     page    chunk | chunk | chunk | …       of all lists, in the order in which they were needed
//!     chunk   8, 16, 32, … bytes of a list    u32: where the next chunk of the list begins
//!
//!     list    varint (documents since the last entry << 1 | 1), varint position      a new entry
//!             varint (positions since the last one << 1)                             the same entry
//!
//! An entry of one occurrence takes two to five bytes, a fifth of what its token, its document and
//! its position take as numbers. Lists without positions have the position 0 everywhere, and none
//! after the document.

use super::entries::Entries;
use super::varint;
use crate::error::{Result, ensure, out_of_range, part, signed, size, u32_at};

const FIRST_CHUNK: u16 = 8;
const LARGEST_CHUNK: u16 = 1 << 14;
const LINK: usize = size_of::<u32>();
/// Pages never move, so that no memory is needed twice while they grow.
const PAGE_BITS: u32 = 20;
const PAGE: usize = 1 << PAGE_BITS;

/// Documents in the order of their numbers, as the analysis of texts returns them.
pub struct Batch<'a> {
    /// The token of each occurrence.
    pub tokens: &'a [u32],
    /// The position of each occurrence; none if they are not stored.
    pub positions: Option<&'a [u32]>,
    /// Where the occurrences of each document end.
    pub ends: &'a [i64],
}

/// The posting lists of all tokens.
pub struct Growing {
    with_positions: bool,
    pages: Pages,
    lists: Vec<List>,
    num_documents: u32,
}

/// A list: where its bytes are, and its last occurrence.
#[derive(Clone, Copy, Default)]
struct List {
    first: u32,
    at: u32,
    /// Bytes of the last chunk, and how many of them are free.
    chunk: u16,
    free: u16,
    count: u32,
    occurrences: u32,
    document: u32,
    position: u32,
}

impl Growing {
    /// Empty lists.
    pub fn new(with_positions: bool) -> Self {
        Self {
            with_positions,
            pages: Pages::default(),
            lists: Vec::new(),
            num_documents: 0,
        }
    }

    /// Bytes of memory in use.
    pub fn size_bytes(&self) -> usize {
        self.pages.size_bytes() + self.lists.len() * size_of::<List>()
    }

    /// The number of documents of tokens.
    pub fn counts(&self, tokens: &[u32]) -> Vec<i64> {
        let count = |&token| i64::from(self.list(token).count);
        tokens.iter().map(count).collect()
    }

    /// Adds documents, which are numbered from those before them on.
    pub fn add(&mut self, batch: &Batch<'_>) -> Result<()> {
        let expected = if self.with_positions {
            batch.tokens.len()
        } else {
            0
        };
        let found = batch.positions.map_or(0, <[u32]>::len);
        ensure(found == expected, "positions", found, expected)?;
        let num_tokens = batch
            .tokens
            .iter()
            .max()
            .map_or(0, |most| *most as usize + 1);
        if num_tokens > self.lists.len() {
            self.lists.resize(num_tokens, List::default());
        }
        let mut start = 0;
        for &end in batch.ends {
            let end = size(end, "end of a document")?;
            let count = end
                .checked_sub(start)
                .ok_or_else(|| out_of_range("end of a document"))?;
            let tokens = part(batch.tokens, start, count, "tokens of a document")?;
            match batch.positions {
                None => self.add_document(tokens.iter().map(|token| (*token, None)))?,
                Some(all) => {
                    let own = part(all, start, count, "positions of a document")?;
                    let pairs = tokens.iter().zip(own);
                    self.add_document(pairs.map(|(token, at)| (*token, Some(*at))))?;
                }
            }
            start = end;
        }
        ensure(
            start == batch.tokens.len(),
            "tokens",
            batch.tokens.len(),
            start,
        )
    }

    fn add_document(
        &mut self,
        occurrences: impl Iterator<Item = (u32, Option<u32>)>,
    ) -> Result<()> {
        let document = self.num_documents;
        for (token, position) in occurrences {
            let list = self
                .lists
                .get_mut(token as usize)
                .ok_or_else(|| out_of_range("token"))?;
            if list.count > 0 && list.document == document {
                let step = position.map_or(0, |own| own.wrapping_sub(list.position));
                self.pages.push(list, u64::from(step) << 1)?;
            } else {
                let step = document - list.document;
                self.pages.push(list, u64::from(step) << 1 | 1)?;
                if let Some(own) = position {
                    self.pages.push(list, u64::from(own))?;
                }
                list.document = document;
                list.count += 1;
            }
            list.position = position.unwrap_or(0);
            list.occurrences = list
                .occurrences
                .checked_add(1)
                .ok_or_else(|| out_of_range("occurrences of a token"))?;
        }
        self.num_documents = document
            .checked_add(1)
            .ok_or_else(|| out_of_range("number of documents"))?;
        Ok(())
    }

    /// Decodes the entries of tokens; one that did not occur has none.
    pub fn entries(&self, tokens: &[u32]) -> Result<Entries> {
        let lists = || tokens.iter().map(|&token| self.list(token));
        let num_entries = lists().map(|list| list.count as usize).sum();
        let num_positions = lists().map(|list| list.occurrences as usize).sum();
        let mut made = Entries {
            ends: Vec::with_capacity(tokens.len()),
            documents: Vec::with_capacity(num_entries),
            frequencies: Vec::with_capacity(num_entries),
            positions: Vec::with_capacity(if self.with_positions {
                num_positions
            } else {
                0
            }),
        };
        let mut bytes = Vec::new();
        for list in lists() {
            self.pages.read(list, &mut bytes)?;
            decode(&bytes, self.with_positions, &mut made)?;
            made.ends.push(signed(made.documents.len(), "entries")?);
        }
        Ok(made)
    }

    /// The list of a token, which is empty if the token did not occur.
    fn list(&self, token: u32) -> List {
        self.lists.get(token as usize).copied().unwrap_or_default()
    }
}

/// The chunks of all lists. An address is the number of a page and a place in it.
#[derive(Default)]
struct Pages(Vec<Vec<u8>>);

impl Pages {
    fn size_bytes(&self) -> usize {
        let full = self.0.len().saturating_sub(1) * PAGE;
        full + self.0.last().map_or(0, Vec::len)
    }

    /// Appends a number to a list.
    #[inline]
    fn push(&mut self, list: &mut List, mut value: u64) -> Result<()> {
        loop {
            let low = value.to_le_bytes()[0] & 0x7f;
            value >>= 7;
            if list.free == 0 {
                self.extend(list)?;
            }
            let byte = self
                .rest_mut(list.at)
                .and_then(<[u8]>::first_mut)
                .ok_or_else(|| out_of_range("chunk"))?;
            *byte = if value > 0 { low | 0x80 } else { low };
            list.at += 1;
            list.free -= 1;
            if value == 0 {
                return Ok(());
            }
        }
    }

    /// Starts a chunk of a list, whose last one is full.
    #[cold]
    fn extend(&mut self, list: &mut List) -> Result<()> {
        let chunk = after(list.chunk);
        let begin = self.reserve(usize::from(chunk) + LINK)?;
        if list.chunk == 0 {
            list.first = begin;
        } else {
            let link = self.rest_mut(list.at).and_then(|rest| rest.get_mut(..LINK));
            link.ok_or_else(|| out_of_range("chunk"))?
                .copy_from_slice(&begin.to_le_bytes());
        }
        (list.at, list.chunk, list.free) = (begin, chunk, chunk);
        Ok(())
    }

    /// Adds zeros and returns their address.
    fn reserve(&mut self, num_bytes: usize) -> Result<u32> {
        if self
            .0
            .last()
            .is_none_or(|page| page.len() + num_bytes > PAGE)
        {
            self.0.push(Vec::with_capacity(PAGE));
        }
        let number = self.0.len() - 1;
        let page = self.0.last_mut().ok_or_else(|| out_of_range("page"))?;
        let begin = u32::try_from((number << PAGE_BITS) + page.len())
            .map_err(|_| out_of_range("size of posting lists"))?;
        page.resize(page.len() + num_bytes, 0);
        Ok(begin)
    }

    /// Replaces `out` by the bytes of a list.
    fn read(&self, list: List, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        if list.chunk == 0 {
            return Ok(());
        }
        let end = list.at + u32::from(list.free);
        let (mut at, mut chunk) = (list.first, after(0));
        while at + u32::from(chunk) != end {
            let bytes = self.rest(at)?;
            out.extend_from_slice(part(bytes, 0, usize::from(chunk), "chunk")?);
            at = u32_at(bytes, usize::from(chunk), "next chunk")?;
            chunk = after(chunk);
        }
        let used = usize::from(chunk - list.free);
        out.extend_from_slice(part(self.rest(at)?, 0, used, "chunk")?);
        Ok(())
    }

    fn rest(&self, at: u32) -> Result<&[u8]> {
        let page = self.0.get((at >> PAGE_BITS) as usize);
        page.and_then(|page| page.get(at as usize % PAGE..))
            .ok_or_else(|| out_of_range("chunk"))
    }

    #[inline]
    fn rest_mut(&mut self, at: u32) -> Option<&mut [u8]> {
        let page = self.0.get_mut((at >> PAGE_BITS) as usize)?;
        page.get_mut(at as usize % PAGE..)
    }
}

/// The size of the chunk after one of a size.
fn after(chunk: u16) -> u16 {
    (chunk.saturating_mul(2)).clamp(FIRST_CHUNK, LARGEST_CHUNK)
}

/// Appends the entries of a list.
fn decode(bytes: &[u8], with_positions: bool, out: &mut Entries) -> Result<()> {
    let (mut at, mut document, mut position) = (0, 0u32, 0u32);
    while at < bytes.len() {
        let value = varint::take_wide(bytes, &mut at)?;
        let step = u32::try_from(value >> 1).map_err(|_| out_of_range("entry"))?;
        if value & 1 == 1 {
            document = document.wrapping_add(step);
            out.documents.push(document);
            out.frequencies.push(1);
            position = if with_positions {
                varint::take(bytes, &mut at)?
            } else {
                0
            };
        } else {
            let frequency = out
                .frequencies
                .last_mut()
                .ok_or_else(|| out_of_range("entry"))?;
            *frequency += 1;
            position = position.wrapping_add(step);
        }
        if with_positions {
            out.positions.push(position);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn entries_return_in_the_order_of_the_tokens() {
        let mut lists = Growing::new(true);
        let first = Batch {
            tokens: &[7, 3, 7, 3],
            positions: Some(&[0, 1, 2, 0]),
            ends: &[3, 4],
        };
        let second = Batch {
            tokens: &[7],
            positions: Some(&[u32::MAX]),
            ends: &[0, 1],
        };
        lists.add(&first).unwrap();
        lists.add(&second).unwrap();
        let entries = lists.entries(&[7, 9, 3]).unwrap();
        assert_eq!(entries.ends, [2, 2, 4]);
        assert_eq!(entries.documents, [0, 3, 0, 1]);
        assert_eq!(entries.frequencies, [2, 1, 1, 1]);
        assert_eq!(entries.positions, [0, 2, u32::MAX, 1, 0]);
        assert_eq!(lists.counts(&[3, 7, 8, 9]), [2, 2, 0, 0]);
    }

    #[test]
    fn long_lists_cover_many_chunks() {
        for with_positions in [false, true] {
            let mut lists = Growing::new(with_positions);
            let (mut documents, mut frequencies, mut all) = (Vec::new(), Vec::new(), Vec::new());
            for document in 0..30_000u32 {
                let frequency = (document % 1000).saturating_sub(990);
                let positions: Vec<u32> = (0..frequency).map(|n| n * 100 + document).collect();
                let batch = Batch {
                    tokens: &vec![1; frequency as usize],
                    positions: with_positions.then_some(positions.as_slice()),
                    ends: &[i64::from(frequency)],
                };
                lists.add(&batch).unwrap();
                if frequency > 0 {
                    documents.push(document);
                    frequencies.push(frequency);
                    all.extend(positions);
                }
            }
            let entries = lists.entries(&[0, 1]).unwrap();
            assert_eq!(entries.ends, [0, i64::try_from(documents.len()).unwrap()]);
            assert_eq!(entries.documents, documents);
            assert_eq!(entries.frequencies, frequencies);
            assert_eq!(
                entries.positions,
                if with_positions { all } else { Vec::new() }
            );
        }
    }

    #[test]
    fn tokens_positions_and_ends_that_contradict_each_other_are_refused() {
        let add = |positions, ends| {
            let batch = Batch {
                tokens: &[1, 2],
                positions,
                ends,
            };
            Growing::new(true).add(&batch)
        };
        assert!(add(Some(&[1, 2]), &[2]).is_ok());
        assert!(add(None, &[2]).is_err());
        assert!(add(Some(&[1]), &[2]).is_err());
        assert!(add(Some(&[1, 2]), &[3]).is_err());
        assert!(add(Some(&[1, 2]), &[1]).is_err());
        assert!(add(Some(&[1, 2]), &[2, 1]).is_err());
    }
}
