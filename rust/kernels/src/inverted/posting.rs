//! A posting list that is open for searches: its blocks, the first document of each, and the
//! greatest weight of each.
//!
//! The weights are computed from all entries when the list is opened, with the statistics of the
//! search. So they are exact, whatever the file says about its blocks; a search that relies on them
//! finds the same documents as one that looks at all. Opening also checks every entry.

use super::blocks::{Layout, MOST};
use super::bm25;
use super::grades::{self, Grade};
use super::greatest::Greatest;
use super::lists::{self, pair_at};
use super::norms::Norms;
use super::own_positions::OwnPositions;
use crate::error::{Result, ensure, out_of_range, part};

/// Entries with the greatest weights that are kept.
const BEST_ENTRIES: usize = 32;

/// A long list keeps one entry in so many, those with the greatest weights, but not too many.
const HEAVY_SHARE: usize = 32;
const MOST_HEAVY: usize = 8192;
const FEWEST_HEAVY: usize = 256;

/// A posting list.
pub struct Posting {
    layout: Layout,
    /// Number of entries.
    pub count: usize,
    data: Vec<u8>,
    starts: Vec<usize>,
    /// The first document of each block.
    pub firsts: Vec<u32>,
    /// The greatest weight of each block.
    pub weights: Vec<f32>,
    /// The grade of the weight of each entry.
    grades: Vec<Grade>,
    /// The greatest weight of all.
    pub most: f32,
    /// The greatest weights of entries with their documents, the greatest first.
    pub best: Vec<(f32, u32)>,
    /// The documents of many more such entries in their order, with their weights.
    pub heavy: Vec<(u32, f32)>,
    /// The last document.
    pub last: u32,
    positions: Option<OwnPositions>,
}

impl Posting {
    /// Opens a list of `count` entries in documents with these norms.
    ///
    /// `offsets` says where its blocks begin in `data`, and where the last one ends.
    pub fn open(
        layout: Layout,
        count: usize,
        (offsets, data): (&[i64], &[u8]),
        norms: &Norms,
        positions: Option<OwnPositions>,
    ) -> Result<Self> {
        ensure(
            (1..=norms.len()).contains(&count),
            "entries of a posting list",
            count,
            format_args!("1 to {}", norms.len()),
        )?;
        let blocks = layout.num_blocks(count);
        ensure(
            offsets.len() == blocks + 1,
            "posting blocks",
            offsets.len(),
            blocks + 1,
        )?;
        let begin = pair_at(offsets, 0)?.0;
        let end = pair_at(offsets, blocks - 1)?.1;
        let len = end
            .checked_sub(begin)
            .ok_or_else(|| out_of_range("posting list"))?;
        let mut list = Self {
            layout,
            count,
            data: part(data, begin, len, "posting list, bytes")?.to_vec(),
            starts: Vec::with_capacity(blocks + 1),
            firsts: Vec::with_capacity(blocks),
            weights: Vec::with_capacity(blocks),
            grades: Vec::with_capacity(count),
            most: 0.0,
            best: Vec::new(),
            heavy: Vec::new(),
            last: 0,
            positions,
        };
        for block in 0..blocks {
            let (start, end) = pair_at(offsets, block)?;
            let within = begin <= start && end - begin <= len;
            ensure(
                within,
                "posting block, end",
                end,
                format_args!("at most {len}"),
            )?;
            list.starts.push(start - begin);
            if block == blocks - 1 {
                list.starts.push(end - begin);
            }
        }
        list.look_at_all(norms)?;
        Ok(list)
    }

    /// Checks all entries and computes the weights of the blocks.
    fn look_at_all(&mut self, norms: &Norms) -> Result<()> {
        let (mut documents, mut frequencies) = ([0; MOST], [0; MOST]);
        let mut weights = [0f32; MOST];
        let mut last = None;
        let mut heaviest = Greatest::new(BEST_ENTRIES.max(self.num_heavy()));
        for block in 0..self.starts.len() - 1 {
            let count = self.count_of(block);
            let (documents, _) = documents.split_at_mut(count);
            let (frequencies, _) = frequencies.split_at_mut(count);
            let at = self.documents(block, documents)?;
            let end = self.frequencies(block, at, frequencies)?;
            let bytes = self.block(block)?;
            ensure(end == bytes.len(), "posting block, bytes", bytes.len(), end)?;
            lists::check(documents, frequencies, last, norms.len())?;
            let (weights, _) = weights.split_at_mut(count);
            norms.read(documents, weights)?;
            let mut most = 0f32;
            for (weight, &frequency) in weights.iter_mut().zip(&*frequencies) {
                *weight = bm25::weight(bm25::float32(frequency), *weight);
                most = most.max(*weight);
            }
            heaviest.add_all(weights, documents);
            let own = weights.iter().map(|weight| grades::grade(*weight));
            self.grades.extend(own);
            last = documents.last().copied();
            self.firsts.extend(documents.first());
            self.weights.push(most);
            self.most = self.most.max(most);
        }
        self.last = last.ok_or_else(|| out_of_range("posting list"))?;
        self.keep(&heaviest.finish());
        Ok(())
    }

    /// Keeps the entries with the greatest weights, which are in the order of documents.
    fn keep(&mut self, entries: &[(f32, u32)]) {
        let mut best = Greatest::new(BEST_ENTRIES);
        entries
            .iter()
            .for_each(|(weight, document)| best.add(*weight, *document));
        self.best = best.finish();
        self.best.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let heavy = entries.iter().take(self.num_heavy());
        self.heavy = heavy
            .map(|(weight, document)| (*document, *weight))
            .collect();
    }

    /// The number of heavy entries; none of a short list.
    fn num_heavy(&self) -> usize {
        let wanted = (self.count / HEAVY_SHARE).min(MOST_HEAVY);
        if wanted < FEWEST_HEAVY { 0 } else { wanted }
    }

    /// The memory that it takes.
    pub fn size_bytes(&self) -> usize {
        let positions = self.positions.as_ref().map_or(0, OwnPositions::size_bytes);
        self.data.len()
            + 16 * self.starts.len()
            + self.grades.len()
            + positions
            + 8 * (self.best.len() + self.heavy.len())
            + 200
    }

    /// Whether positions are stored.
    pub fn has_positions(&self) -> bool {
        self.positions.is_some()
    }

    /// Entries of a full block.
    #[inline]
    pub fn block_size(&self) -> usize {
        self.layout.block_size()
    }

    /// Entries of a block.
    #[inline]
    pub fn count_of(&self, block: usize) -> usize {
        let size = self.layout.block_size();
        size.min(self.count.saturating_sub(block * size))
    }

    /// The grades of the entries of a block.
    #[inline]
    pub fn grades(&self, block: usize) -> Result<&[Grade]> {
        let start = block * self.layout.block_size();
        part(&self.grades, start, self.count_of(block), "grades")
    }

    #[inline]
    fn block(&self, block: usize) -> Result<&[u8]> {
        let (start, end) = match self.starts.get(block..block + 2) {
            Some([start, end]) => (*start, *end),
            _ => return Err(out_of_range("posting block")),
        };
        self.data
            .get(start..end)
            .ok_or_else(|| out_of_range("posting block"))
    }

    /// Decodes the documents of a block; returns where its frequencies begin.
    #[inline]
    pub fn documents(&self, block: usize, out: &mut [u32]) -> Result<usize> {
        self.layout.documents(self.block(block)?, out)
    }

    /// Decodes the frequencies of a block; returns where they end.
    #[inline]
    pub fn frequencies(&self, block: usize, at: usize, out: &mut [u32]) -> Result<usize> {
        self.layout.frequencies(self.block(block)?, at, out)
    }

    /// Decodes the positions of a block as differences within each document; `false` if they are
    /// stored in pieces, one document after the other.
    pub fn differences(
        &self,
        block: usize,
        frequencies: &[u32],
        out: &mut Vec<u32>,
    ) -> Result<bool> {
        let positions = self.positions.as_ref();
        positions
            .ok_or_else(|| out_of_range("positions: there are none, and they"))?
            .differences(block, frequencies, out)
    }

    /// Appends the positions of an entry that are stored in pieces.
    pub fn pieces(
        &self,
        block: usize,
        at: usize,
        frequency: u32,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let positions = self.positions.as_ref();
        positions
            .ok_or_else(|| out_of_range("pieces of positions"))?
            .pieces(block * self.layout.block_size() + at, frequency, out)
    }
}
