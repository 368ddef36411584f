//! Hierarchical graphs of near vectors (HNSW): one graph per partition of a vector index.
//!
//! Level 0 links every vector of the partition with near ones; each upper level links a random
//! subset of the level below. A search descends greedily from the entry point, which is in all
//! levels, and then walks level 0 with a beam of the best nodes so far.

pub mod build;
pub mod graph;
mod levels;
mod lists;
pub mod scorer;
pub mod search;
pub mod storage;
mod walk;

use crate::error::{Result, out_of_range};

const NODES: &str = "nodes of a graph";

/// The values of a node.
#[inline(always)]
fn row<T>(rows: &[T], node: u32, width: usize) -> Result<&[T]> {
    let start = node as usize * width;
    rows.get(start..start + width)
        .ok_or_else(|| out_of_range(NODES))
}
