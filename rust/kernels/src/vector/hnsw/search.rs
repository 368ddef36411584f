//! The nearest vectors of several partitions, each by its graph.

use std::cell::RefCell;

use pulp::Arch;

use super::graph::Linked;
use super::scorer::Scorer;
use super::storage::{Query, Storage};
use super::walk::{Ground, Near, Walk};
use crate::error::{Result, ensure, out_of_range, part};

const QUERY: &str = "values of a query";

/// Fewer passing vectors than one in so many are compared one by one, without the graph.
const SELECTIVE: usize = 10;

/// One partition to search.
pub struct Part<'a> {
    pub graph: Linked<'a>,
    pub storage: Storage<'a>,
    /// The row of each vector.
    pub rows: &'a [u64],
    /// Whether each vector may be returned; all of them without it.
    pub allowed: Option<&'a [bool]>,
    /// The numbers of the queries that search it; all of them without it.
    pub queries: Option<&'a [u32]>,
    /// What is subtracted from the queries.
    pub centroid: Option<&'a [f32]>,
}

/// The targets, one after another.
#[derive(Clone, Copy)]
pub struct Queries<'a> {
    pub values: Query<'a>,
    pub width: usize,
}

/// What is searched.
#[derive(Clone, Copy)]
pub struct Limits {
    pub k: usize,
    /// The number of best nodes that a walk keeps.
    pub ef: usize,
    /// Distances are not less than this.
    pub lower: Option<f32>,
    /// Distances are less than this.
    pub upper: Option<f32>,
}

impl Limits {
    fn contain(&self, distance: f32) -> bool {
        !distance.is_nan()
            && self.lower.is_none_or(|lower| distance >= lower)
            && self.upper.is_none_or(|upper| distance < upper)
    }
}

/// A row and its distance.
pub type Hit = (u64, f32);

thread_local! {
    static WALK: RefCell<Walk> = RefCell::new(Walk::default());
}

/// Adds the nearest rows of all parts to the hits of each query, and keeps the `k` nearest.
///
/// Hits are ordered by distance, then by row.
pub fn nearest(
    parts: &[Part],
    queries: Queries,
    limits: Limits,
    hits: &mut [Vec<Hit>],
) -> Result<()> {
    let all = (0u32..).take(hits.len()).collect::<Vec<_>>();
    WALK.with_borrow_mut(|walk| {
        for part in parts {
            part.require_valid()?;
            for &number in part.queries.unwrap_or(&all) {
                let number = number as usize;
                let hits = hits.get_mut(number).ok_or_else(|| out_of_range(QUERY))?;
                let scorer = part.scorer(queries, number)?;
                for near in part.nearest(walk, &scorer, limits)?.iter().take(limits.k) {
                    if let Some(&row) = part.rows.get(near.node() as usize) {
                        hits.push((row, near.distance()));
                    }
                }
            }
        }
        Ok(())
    })?;
    for hits in hits {
        hits.sort_unstable_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0)));
        hits.truncate(limits.k);
    }
    Ok(())
}

impl<'a> Part<'a> {
    fn scorer(&self, queries: Queries, number: usize) -> Result<Scorer<'a>> {
        let start = number * queries.width;
        match (queries.values, self.centroid) {
            (Query::Floats(values), Some(centroid)) => {
                let query = part(values, start, queries.width, QUERY)?;
                ensure(
                    centroid.len() == query.len(),
                    QUERY,
                    query.len(),
                    centroid.len(),
                )?;
                let residual = query.iter().zip(centroid).map(|(a, b)| a - b);
                self.storage
                    .scorer(Query::Floats(&residual.collect::<Vec<_>>()))
            }
            (Query::Floats(values), None) => {
                let query = part(values, start, queries.width, QUERY)?;
                self.storage.scorer(Query::Floats(query))
            }
            (Query::Bits(values), _) => {
                let query = part(values, start, queries.width, QUERY)?;
                self.storage.scorer(Query::Bits(query))
            }
        }
    }

    fn nearest(&self, walk: &mut Walk, scorer: &Scorer<'_>, limits: Limits) -> Result<Vec<Near>> {
        let Some(allowed) = self.allowed else {
            return self.walked(walk, scorer, limits, |_| true);
        };
        let num_allowed = allowed.iter().filter(|&&is| is).count();
        if num_allowed * SELECTIVE < allowed.len() {
            return one_by_one(allowed, scorer, limits);
        }
        let passes = |node: u32| allowed.get(node as usize).is_some_and(|&is| is);
        self.walked(walk, scorer, limits, passes)
    }

    fn walked(
        &self,
        walk: &mut Walk,
        scorer: &Scorer<'_>,
        limits: Limits,
        passes: impl Fn(u32) -> bool,
    ) -> Result<Vec<Near>> {
        if self.graph.num_nodes() == 0 {
            return Ok(Vec::new());
        }
        let ground = Ground {
            links: &self.graph,
            scorer,
            num_nodes: self.graph.num_nodes(),
            arch: Arch::new(),
        };
        let mut nearest = walk.start(&ground, self.graph.entry_point())?;
        for level in (1..self.graph.num_levels()).rev() {
            nearest = walk.descend(&ground, level, nearest)?;
        }
        let passes = |near: Near| passes(near.node()) && limits.contain(near.distance());
        walk.beam(&ground, 0, &[nearest], limits.ef.max(limits.k), passes)
    }

    fn require_valid(&self) -> Result<()> {
        let num_nodes = self.storage.require_valid()?;
        let graph = self.graph.num_nodes();
        ensure(graph == num_nodes, "nodes of a graph", graph, num_nodes)?;
        let rows = self.rows.len();
        ensure(rows == num_nodes, "rows of vectors", rows, num_nodes)?;
        let allowed = self.allowed.map_or(num_nodes, <[bool]>::len);
        ensure(allowed == num_nodes, "allowed rows", allowed, num_nodes)
    }
}

/// Compares all allowed vectors, and returns the nearest in ascending order.
fn one_by_one(allowed: &[bool], scorer: &Scorer<'_>, limits: Limits) -> Result<Vec<Near>> {
    let marked = (0u32..).zip(allowed);
    let nodes = marked
        .filter_map(|(node, &is)| is.then_some(node))
        .collect::<Vec<_>>();
    let mut distances = Vec::with_capacity(nodes.len());
    scorer.score(Arch::new(), &nodes, &mut distances)?;
    let mut found = distances
        .iter()
        .zip(nodes)
        .filter(|&(&distance, _)| limits.contain(distance))
        .map(|(&distance, node)| Near::new(distance, node))
        .collect::<Vec<_>>();
    if limits.k < found.len() {
        found.select_nth_unstable(limits.k);
        found.truncate(limits.k);
    }
    found.sort_unstable();
    Ok(found)
}
