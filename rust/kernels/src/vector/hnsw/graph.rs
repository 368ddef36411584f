//! A graph as it is stored: one list of linked nodes per row, level after level.
//!
//!     vector_ids   0 1 2 3 4 | 1 4 | 4     level 0 has every node once; ids of a level ascend
//!     offsets      row i links to neighbors[offsets[i]..offsets[i + 1]]
//!
//! A level ends where the ids no longer ascend: upper levels are subsets of those below, and the
//! stored borders of old files are wrong.

use std::hint::black_box;
use std::ops::Range;

use pulp::Arch;

use super::walk::Links;
use crate::error::{Corrupt, Result, ensure, out_of_range, size};

const ROWS: &str = "rows of a graph";

/// The rows of one partition.
#[derive(Default)]
pub struct Rows {
    pub vector_ids: Vec<u32>,
    pub offsets: Vec<i32>,
    pub neighbors: Vec<u32>,
    pub distances: Vec<f32>,
}

/// A checked graph without its links, which are as large as all the rest.
pub struct Graph {
    vector_ids: Vec<u32>,
    offsets: Vec<usize>,
    /// The links to known nodes, where others were left out.
    kept: Option<Vec<u32>>,
    levels: Vec<Range<usize>>,
    entry_point: u32,
}

/// A graph with its links, to search.
pub struct Linked<'a> {
    graph: &'a Graph,
    neighbors: &'a [u32],
}

impl Graph {
    /// Checks the rows of a partition of `num_nodes` vectors.
    ///
    /// Links to unknown nodes are damage; with `drops_unknown`, they are left out.
    pub fn new(
        vector_ids: &[u32],
        offsets: &[i32],
        neighbors: &[u32],
        num_nodes: usize,
        entry_point: u32,
        drops_unknown: bool,
    ) -> Result<Self> {
        let levels = levels(vector_ids, num_nodes)?;
        let known = num_nodes == 0 || (entry_point as usize) < num_nodes;
        ensure(known, "entry point of a graph", entry_point, "a node")?;
        ensure(
            offsets.len() == vector_ids.len() + 1,
            "offsets of links",
            offsets.len(),
            vector_ids.len() + 1,
        )?;
        let (offsets, kept) = match whole_lists(offsets, neighbors, num_nodes)? {
            Some(offsets) => (offsets, None),
            None => {
                let (ends, kept) = known_links(offsets, neighbors, num_nodes, drops_unknown)?;
                (ends, Some(kept))
            }
        };
        Ok(Self {
            vector_ids: vector_ids.to_vec(),
            offsets,
            kept,
            levels,
            entry_point,
        })
    }

    pub fn num_nodes(&self) -> usize {
        self.levels.first().map_or(0, Range::len)
    }

    pub fn num_levels(&self) -> usize {
        self.levels.len()
    }

    /// Its memory, with its links.
    pub fn size_bytes(&self) -> usize {
        let bounds = self.offsets.first().zip(self.offsets.last());
        let num_links = bounds.map_or(0, |(first, last)| last - first);
        (self.vector_ids.len() + num_links) * 4 + self.offsets.len() * 8
    }

    /// The graph with the links that it was made of.
    pub fn linked<'a>(&'a self, neighbors: &'a [u32]) -> Linked<'a> {
        let neighbors = self.kept.as_deref().unwrap_or(neighbors);
        let graph = self;
        Linked { graph, neighbors }
    }
}

impl Linked<'_> {
    pub fn num_nodes(&self) -> usize {
        self.graph.num_nodes()
    }

    pub fn num_levels(&self) -> usize {
        self.graph.num_levels()
    }

    pub fn entry_point(&self) -> u32 {
        self.graph.entry_point
    }

    fn links(&self, level: usize, node: u32) -> Option<&[u32]> {
        let row = if level == 0 {
            node as usize
        } else {
            let range = self.graph.levels.get(level)?.clone();
            let start = range.start;
            start
                + self
                    .graph
                    .vector_ids
                    .get(range)?
                    .binary_search(&node)
                    .ok()?
        };
        let offsets = &self.graph.offsets;
        let (&start, &end) = (offsets.get(row)?, offsets.get(row + 1)?);
        self.neighbors.get(start..end)
    }
}

impl Links for Linked<'_> {
    #[inline]
    fn each(&self, level: usize, node: u32, visit: impl FnMut(u32)) {
        if let Some(links) = self.links(level, node) {
            links.iter().copied().for_each(visit);
        }
    }

    #[inline]
    fn touch(&self, level: usize, node: u32) {
        black_box(
            self.links(level, node)
                .and_then(|links| links.first().copied()),
        );
    }
}

/// Offsets from 0 on, and links.
type Lists = (Vec<usize>, Vec<u32>);

/// Returns the offsets of lists; None if they descend or some link is to no node.
fn whole_lists(offsets: &[i32], neighbors: &[u32], num_nodes: usize) -> Result<Option<Vec<usize>>> {
    let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) else {
        return Ok(None);
    };
    let first = size(first, "offset of links")?;
    let links = neighbors
        .get(first..size(last, "offset of links")?)
        .ok_or_else(|| out_of_range("links of a graph"))?;
    let most = Arch::new().dispatch(
        #[inline(always)]
        || links.iter().fold(0, |most, &node| node.max(most)),
    );
    if !offsets.is_sorted() || !links.is_empty() && most as usize >= num_nodes {
        return Ok(None);
    }
    let sizes = offsets
        .iter()
        .map(|&offset| size(offset, "offset of links"));
    sizes.collect::<Result<_>>().map(Some)
}

/// Copies the links to known nodes, list by list; returns their offsets and the links.
fn known_links(
    offsets: &[i32],
    neighbors: &[u32],
    num_nodes: usize,
    drops_unknown: bool,
) -> Result<Lists> {
    let mut ends = Vec::with_capacity(offsets.len());
    let mut kept = Vec::with_capacity(neighbors.len());
    ends.push(0);
    for (&start, &end) in offsets.iter().zip(offsets.iter().skip(1)) {
        let range = size(start, "offset of links")?..size(end, "offset of links")?;
        let links = neighbors
            .get(range)
            .ok_or_else(|| out_of_range("links of a graph"))?;
        let before = kept.len();
        kept.extend(links.iter().filter(|&&node| (node as usize) < num_nodes));
        let dropped = links.len() + before - kept.len();
        ensure(
            dropped == 0 || drops_unknown,
            "links to unknown nodes",
            dropped,
            0,
        )?;
        ends.push(kept.len());
    }
    Ok((ends, kept))
}

/// Returns the rows of each level.
fn levels(vector_ids: &[u32], num_nodes: usize) -> Result<Vec<Range<usize>>> {
    let lowest = vector_ids.iter().take(num_nodes);
    let whole = vector_ids.len() >= num_nodes && lowest.zip(0u32..).all(|(&id, node)| id == node);
    ensure(whole, ROWS, vector_ids.len(), "each node once on level 0")?;
    let mut levels = Vec::new();
    let mut start = 0;
    for (row, pair) in vector_ids.windows(2).enumerate() {
        if let [id, next] = pair
            && row + 1 >= num_nodes
            && id >= next
        {
            levels.push(start..row + 1);
            start = row + 1;
        }
    }
    if start < vector_ids.len() {
        levels.push(start..vector_ids.len());
    }
    match vector_ids.iter().find(|&&id| id as usize >= num_nodes) {
        Some(id) => Err(Corrupt(format!("{ROWS}: vector {id} of {num_nodes}"))),
        None => Ok(levels),
    }
}
