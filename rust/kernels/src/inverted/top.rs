//! The documents with the greatest scores.
//!
//! Documents are visited in windows. Within a window each clause has a bound, the greatest weight
//! of its blocks there; a window whose bounds do not exceed the k-th best score so far is skipped
//! without decoding it (block-max pruning). For a sum of clauses, those with the smallest bounds
//! cannot lift a document above that score by themselves: only documents of the others are visited
//! (MaxScore), and a document is given up as soon as what is left cannot suffice.
//!
//! Bounds are compared with some slack, since sums of floats depend on their order. Scores are
//! computed in the order of the query. Of equal scores the first documents are kept.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::clause::{Clause, Node};
use super::documents::{DocumentSet, END};
use crate::error::{Result, out_of_range};

/// Returns the documents with the `k` greatest scores above `floor`, best first.
///
/// Without `k`, all documents are returned, in their order.
pub fn search(
    clause: &Clause,
    norms: &[f32],
    k: Option<usize>,
    allowed: Option<&DocumentSet>,
    floor: f32,
) -> Result<(Vec<u32>, Vec<f32>)> {
    if k == Some(0) {
        return Ok((Vec::new(), Vec::new()));
    }
    let (clause, factor) = match clause {
        Clause::Scaled(inner, factor) if *factor > 0.0 => (inner.as_ref(), *factor),
        other => (other, 1.0),
    };
    let node = clause.begin(norms)?;
    let mut best = Best {
        k,
        factor,
        slack: f64::from(f32::EPSILON) * (node.terms() + 4) as f64,
        floor,
        heap: BinaryHeap::new(),
        all: (Vec::new(), Vec::new()),
    };
    match (node, k) {
        (Node::Any(any), Some(_)) => search_sum(any.nodes, allowed, &mut best)?,
        (node, _) => search_one(node, allowed, &mut best)?,
    }
    Ok(best.finish())
}

/// A document with its score; the least one has the smallest score, or is the last of these.
struct Hit {
    score: f32,
    document: u32,
}

impl Ord for Hit {
    /// Orders the worst hit first, as the greatest one of a heap.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = other.score.total_cmp(&self.score);
        by_score.then(self.document.cmp(&other.document))
    }
}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Hit {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Hit {}

/// The best documents so far.
struct Best {
    k: Option<usize>,
    /// Scores are multiplied by it.
    factor: f32,
    /// Relative error of a bound.
    slack: f64,
    /// Scores that do not exceed it are of no use.
    floor: f32,
    heap: BinaryHeap<Hit>,
    all: (Vec<u32>, Vec<f32>),
}

impl Best {
    /// Whether scores up to a bound are of no use.
    #[inline]
    fn is_too_low(&self, bound: f64) -> bool {
        let bound = bound * f64::from(self.factor);
        self.k.is_some() && bound + bound.abs() * self.slack <= f64::from(self.floor)
    }

    #[inline]
    fn add(&mut self, document: u32, score: f32) {
        let score = score * self.factor;
        let Some(k) = self.k else {
            self.all.0.push(document);
            self.all.1.push(score);
            return;
        };
        if score <= self.floor {
            return;
        }
        if self.heap.len() == k {
            self.heap.pop();
        }
        self.heap.push(Hit { score, document });
        if self.heap.len() == k
            && let Some(worst) = self.heap.peek()
        {
            self.floor = self.floor.max(worst.score);
        }
    }

    fn finish(self) -> (Vec<u32>, Vec<f32>) {
        if self.k.is_none() {
            return self.all;
        }
        let hits = self.heap.into_sorted_vec();
        hits.iter().map(|hit| (hit.document, hit.score)).unzip()
    }
}

/// Visits the documents of one node.
fn search_one(mut node: Node<'_>, allowed: Option<&DocumentSet>, best: &mut Best) -> Result<()> {
    let mut low = 0;
    loop {
        let high = if best.k.is_some() {
            node.until(low)
        } else {
            END - 1
        };
        let is_worth = best.k.is_none() || !best.is_too_low(node.bound(low, high));
        if is_worth {
            let mut document = node.advance(low)?;
            while document <= high {
                let next = allowed.map_or(document, |allowed| allowed.next(document));
                if next == document {
                    let score = node.score()?;
                    best.add(document, score);
                    document = node.advance(document + 1)?;
                } else {
                    document = node.advance(next)?;
                }
            }
        }
        if high == END - 1 {
            return Ok(());
        }
        low = high + 1;
        if let Some(allowed) = allowed {
            low = allowed.next(low);
        }
        if node.document() == END || low == END {
            return Ok(());
        }
    }
}

/// The clauses of a sum and their bounds.
struct Sum<'a> {
    nodes: Vec<Node<'a>>,
    /// Bounds in the window.
    bounds: Vec<f64>,
    /// Nodes by their bounds in the window, ascending; and the sums of these bounds.
    order: Vec<usize>,
    sums: Vec<f64>,
    /// How many of the first nodes in this order are not worth visiting by themselves.
    passive: usize,
    /// The scores of a document.
    scores: Vec<f32>,
}

/// Visits the documents of a sum of nodes.
fn search_sum(nodes: Vec<Node<'_>>, allowed: Option<&DocumentSet>, best: &mut Best) -> Result<()> {
    let count = nodes.len();
    let mut sum = Sum {
        nodes,
        bounds: vec![0.0; count],
        order: (0..count).collect(),
        sums: vec![0.0; count + 1],
        passive: 0,
        scores: vec![0.0; count],
    };
    sum.set_bounds(0, END - 1);
    let overall = (sum.order.clone(), sum.sums.clone());
    let mut low = 0;
    loop {
        let Some(high) = sum.window(low, &overall, best) else {
            return Ok(());
        };
        sum.set_bounds(low, high);
        sum.set_passive(best);
        if sum.passive < count {
            sum.visit(low, high, allowed, best)?;
        }
        if high == END - 1 {
            return Ok(());
        }
        low = high + 1;
        if let Some(allowed) = allowed {
            low = allowed.next(low);
            if low == END {
                return Ok(());
            }
        }
    }
}

impl Sum<'_> {
    /// The end of the next window: where the first block ends of those nodes that can suffice
    /// anywhere; none if there are no such nodes left.
    fn window(
        &mut self,
        low: u32,
        (order, sums): &(Vec<usize>, Vec<f64>),
        best: &Best,
    ) -> Option<u32> {
        let mut high = None;
        for (&i, &bound) in order.iter().zip(sums.iter().skip(1)) {
            if best.is_too_low(bound) {
                continue;
            }
            if let Some(node) = self.nodes.get_mut(i)
                && node.document() != END
            {
                let end = node.until(low);
                high = Some(high.map_or(end, |high: u32| high.min(end)));
            }
        }
        high
    }

    fn set_bounds(&mut self, low: u32, high: u32) {
        for (bound, node) in self.bounds.iter_mut().zip(&mut self.nodes) {
            *bound = node.bound(low, high).max(0.0);
        }
        let bounds = &self.bounds;
        let bound_of = |i: &usize| bounds.get(*i).copied().unwrap_or(f64::INFINITY);
        self.order
            .sort_by(|a, b| bound_of(a).total_cmp(&bound_of(b)));
        let mut total = 0.0;
        for (sum, i) in self.sums.iter_mut().skip(1).zip(&self.order) {
            total += bound_of(i);
            *sum = total;
        }
        self.passive = 0;
    }

    fn set_passive(&mut self, best: &Best) {
        let sums = self.sums.iter().skip(1 + self.passive);
        self.passive += sums.take_while(|sum| best.is_too_low(**sum)).count();
    }

    /// Visits the documents from `low` to `high`.
    fn visit(
        &mut self,
        low: u32,
        high: u32,
        allowed: Option<&DocumentSet>,
        best: &mut Best,
    ) -> Result<()> {
        let mut document = self.advance(low)?;
        while document <= high {
            let next = allowed.map_or(document, |allowed| allowed.next(document));
            if next == document {
                if let Some(score) = self.score(document, best)? {
                    best.add(document, score);
                    self.set_passive(best);
                }
                document = self.advance(document + 1)?;
            } else {
                document = self.advance(next)?;
            }
        }
        Ok(())
    }

    /// Moves the active nodes, and returns the first of their documents.
    fn advance(&mut self, target: u32) -> Result<u32> {
        let mut next = END;
        for &i in self.order.iter().skip(self.passive) {
            if let Some(node) = self.nodes.get_mut(i) {
                next = next.min(node.advance(target)?);
            }
        }
        Ok(next)
    }

    /// The score of a document at which the active nodes are; none if it is certainly too low.
    fn score(&mut self, document: u32, best: &Best) -> Result<Option<f32>> {
        let mut possible = 0.0;
        for (rank, &i) in self.order.iter().enumerate().rev() {
            let missing = || out_of_range("clause");
            let node = self.nodes.get_mut(i).ok_or_else(missing)?;
            if rank < self.passive {
                let left = self.sums.get(rank + 1).ok_or_else(missing)?;
                if best.is_too_low(possible + left) {
                    return Ok(None);
                }
                node.advance(document)?;
            }
            let score = self.scores.get_mut(i).ok_or_else(missing)?;
            *score = 0.0;
            if node.document() == document {
                *score = node.score()?;
                possible += f64::from(*score);
            }
        }
        Ok(Some(self.scores.iter().sum()))
    }
}
