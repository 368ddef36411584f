//! Walks over a graph: greedy descent, and the beam search of one level.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pulp::Arch;

use super::scorer::Scorer;
use crate::error::Result;

/// The linked nodes of each node.
pub trait Links {
    /// Calls `visit` with each node that `node` is linked to on `level`.
    fn each(&self, level: usize, node: u32, visit: impl FnMut(u32));

    /// Reads the beginning of the list of a node, so that it is in a cache when it is walked through.
    fn touch(&self, level: usize, node: u32);
}

/// A node and its distance; ordered by distance, then by node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Near(u64);

impl Near {
    pub fn new(distance: f32, node: u32) -> Self {
        let bits = distance.to_bits();
        let ordered = if bits >> 31 == 0 {
            bits | 1 << 31
        } else {
            !bits
        };
        Self(u64::from(ordered) << 32 | u64::from(node))
    }

    #[allow(clippy::cast_possible_truncation)]
    pub fn node(self) -> u32 {
        self.0 as u32
    }

    #[allow(clippy::cast_possible_truncation)]
    pub fn distance(self) -> f32 {
        let ordered = (self.0 >> 32) as u32;
        f32::from_bits(if ordered >> 31 == 1 {
            ordered & !(1 << 31)
        } else {
            !ordered
        })
    }

    /// The distance as a number with the same order.
    fn rank(self) -> u64 {
        self.0 >> 32
    }
}

/// The nodes that a walk has seen; a new walk does not clear it.
#[derive(Default)]
struct Seen {
    marks: Vec<u8>,
    epoch: u8,
}

impl Seen {
    fn begin(&mut self, num_nodes: usize) {
        if self.marks.len() < num_nodes {
            self.marks.resize(num_nodes, 0);
        }
        self.epoch = self.epoch.wrapping_add(1);
        if self.epoch == 0 {
            self.marks.fill(0);
            self.epoch = 1;
        }
    }

    /// Returns whether `node` is seen for the first time; false for unknown nodes.
    #[inline]
    fn first(&mut self, node: u32) -> bool {
        match self.marks.get_mut(node as usize) {
            Some(mark) if *mark != self.epoch => {
                *mark = self.epoch;
                true
            }
            _ => false,
        }
    }
}

/// The memory of walks, which is used again.
#[derive(Default)]
pub struct Walk {
    seen: Seen,
    candidates: BinaryHeap<Reverse<Near>>,
    found: BinaryHeap<Near>,
    nodes: Vec<u32>,
    distances: Vec<f32>,
}

/// A graph, and what its nodes are compared with.
pub struct Ground<'a, L> {
    pub links: &'a L,
    pub scorer: &'a Scorer<'a>,
    pub num_nodes: usize,
    pub arch: Arch,
}

impl Walk {
    /// Returns `node` with its distance.
    pub fn start<L: Links>(&mut self, ground: &Ground<L>, node: u32) -> Result<Near> {
        self.nodes.clear();
        self.nodes.push(node);
        self.score(ground)?;
        let distance = self.distances.first().copied();
        Ok(Near::new(distance.map_or(f32::INFINITY, |d| d), node))
    }

    /// Moves to the closest linked node on `level` until no linked node is closer.
    pub fn descend<L: Links>(
        &mut self,
        ground: &Ground<L>,
        level: usize,
        mut nearest: Near,
    ) -> Result<Near> {
        loop {
            self.nodes.clear();
            let nodes = &mut self.nodes;
            ground
                .links
                .each(level, nearest.node(), |node| nodes.push(node));
            self.score(ground)?;
            let before = nearest;
            for near in self.scored() {
                if near.rank() < nearest.rank() {
                    nearest = near;
                }
            }
            if nearest == before {
                return Ok(nearest);
            }
        }
    }

    /// Returns the `ef` nearest nodes found on `level` that pass, in ascending order.
    ///
    /// Nodes that do not pass are walked through.
    pub fn beam<L: Links>(
        &mut self,
        ground: &Ground<L>,
        level: usize,
        from: &[Near],
        ef: usize,
        passes: impl Fn(Near) -> bool,
    ) -> Result<Vec<Near>> {
        self.seen.begin(ground.num_nodes);
        self.candidates.clear();
        self.found.clear();
        for &near in from {
            self.seen.first(near.node());
            self.candidates.push(Reverse(near));
            if passes(near) {
                self.found.push(near);
            }
        }
        while let Some(Reverse(current)) = self.candidates.pop() {
            let is_full = self.found.len() >= ef;
            if is_full && self.found.peek().is_some_and(|w| current.rank() > w.rank()) {
                break;
            }
            // It is walked through next, unless a closer node is found now.
            if let Some(Reverse(next)) = self.candidates.peek() {
                ground.links.touch(level, next.node());
            }
            self.nodes.clear();
            let (nodes, seen) = (&mut self.nodes, &mut self.seen);
            ground.links.each(level, current.node(), |node| {
                if seen.first(node) {
                    nodes.push(node);
                }
            });
            self.score(ground)?;
            for (&distance, &node) in self.distances.iter().zip(&self.nodes) {
                let near = Near::new(distance, node);
                if self.found.len() < ef {
                    self.candidates.push(Reverse(near));
                    if passes(near) {
                        self.found.push(near);
                    }
                } else if let Some(mut worst) = self.found.peek_mut()
                    && near.rank() <= worst.rank()
                {
                    self.candidates.push(Reverse(near));
                    if near.rank() < worst.rank() && passes(near) {
                        *worst = near;
                    }
                }
            }
        }
        let mut found = self.found.drain().collect::<Vec<_>>();
        found.sort_unstable();
        Ok(found)
    }

    fn score<L: Links>(&mut self, ground: &Ground<L>) -> Result<()> {
        self.distances.clear();
        ground
            .scorer
            .score(ground.arch, &self.nodes, &mut self.distances)
    }

    fn scored(&self) -> impl Iterator<Item = Near> {
        let pairs = self.distances.iter().zip(&self.nodes);
        pairs.map(|(&distance, &node)| Near::new(distance, node))
    }
}
