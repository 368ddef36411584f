//! The documents with the greatest scores.
//!
//! Documents are visited in windows. Within a window each clause has a bound, the greatest score
//! of its blocks there; a window whose bounds do not exceed the k-th best score so far is skipped
//! without decoding it (block-max pruning). For a sum of clauses, those with the smallest bounds
//! cannot lift a document above that score by themselves: only documents of the others, the active
//! clauses, are visited (MaxScore), and a document is given up as soon as what is left cannot
//! suffice. If all clauses have to match, only the one with the fewest documents is active.
//!
//!     one active token         the scores of a block at once, and only those above a cutoff
//!     several frequent tokens  a table of the scores in the window, added line by line
//!     anything else            document by document
//!
//! Bounds are compared with some slack, since sums of floats depend on their order. Scores are
//! computed in the order of the query. Of equal scores the first documents are kept.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::clause::{Clause, Node};
use super::cursor::Cursor;
use super::documents::{DocumentSet, END};
use super::phrase::Matcher;
use crate::error::{Result, out_of_range};

/// The least number of documents of a window.
const WINDOW: u32 = 2048;

/// A table is used if a window has this many entries on the average.
const TABLE_ENTRIES: usize = 256;

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
    let mut best = Best {
        k,
        factor,
        slack: 0.0,
        floor,
        heap: BinaryHeap::new(),
        all: (Vec::new(), Vec::new()),
    };
    match Sum::new(clause, norms)? {
        Some(sum) if k.is_some() => sum.search(allowed, &mut best)?,
        _ => search_one(clause.begin(norms)?, allowed, &mut best)?,
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

    /// A score of some clauses that is of no use, if others add at most `rest`.
    ///
    /// Those above it may be of use.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    fn cutoff(&self, rest: f64) -> f32 {
        let floor = f64::from(self.floor) / f64::from(self.factor);
        let cutoff = floor - floor.abs() * 2.0 * self.slack - rest * (1.0 + self.slack);
        // Rounded down twice: by the conversion at most to the next float, then to the one before.
        (cutoff as f32).next_down()
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

/// The relative error of a sum of so many scores, and of its bound.
#[allow(clippy::cast_precision_loss)]
fn slack_of(terms: usize) -> f64 {
    f64::from(f32::EPSILON) * (terms + 4) as f64
}

/// Visits the documents of one node.
fn search_one(mut node: Node<'_>, allowed: Option<&DocumentSet>, best: &mut Best) -> Result<()> {
    best.slack = slack_of(node.terms());
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

/// Which documents of a sum count.
enum Needs {
    Any,
    All,
    Phrase(Matcher),
}

/// The clauses of a sum and their bounds.
struct Sum<'a> {
    nodes: Vec<Node<'a>>,
    needs: Needs,
    /// Bounds in the window.
    bounds: Vec<f64>,
    /// Nodes by their bounds in the window, ascending; and the sums of these bounds. If all are
    /// needed, the one with the fewest documents is last.
    order: Vec<usize>,
    sums: Vec<f64>,
    /// How many of the first nodes in this order are not visited by themselves.
    passive: usize,
    /// The scores of a document.
    scores: Vec<f32>,
    /// Documents that may be of use, with their scores by the active node.
    survivors: Vec<(u32, f32)>,
    /// The scores of each active node in a window of `WINDOW` documents.
    table: Vec<f32>,
}

impl<'a> Sum<'a> {
    /// The sum that a clause is; none if it is none.
    fn new(clause: &'a Clause, norms: &'a [f32]) -> Result<Option<Self>> {
        let all = |clauses: &'a [std::sync::Arc<Clause>]| {
            let nodes = clauses.iter().map(|clause| clause.begin(norms));
            nodes.collect::<Result<Vec<_>>>()
        };
        let (nodes, needs) = match clause {
            Clause::Token(..) => (vec![clause.begin(norms)?], Needs::Any),
            Clause::Any(clauses) => (all(clauses)?, Needs::Any),
            Clause::All(clauses) => (all(clauses)?, Needs::All),
            Clause::Phrase(words, slop) => {
                let tokens = words
                    .iter()
                    .map(|(list, idf, _)| Node::Token(Box::new(Cursor::new(list, *idf, norms))));
                let positions = words.iter().map(|(_, _, position)| *position).collect();
                let needs = Needs::Phrase(Matcher::new(positions, *slop));
                (tokens.collect(), needs)
            }
            _ => return Ok(None),
        };
        let count = nodes.len();
        if count == 0 {
            return Ok(None);
        }
        Ok(Some(Self {
            nodes,
            needs,
            bounds: vec![0.0; count],
            order: (0..count).collect(),
            sums: vec![0.0; count + 1],
            passive: 0,
            scores: vec![0.0; count],
            survivors: Vec::new(),
            table: Vec::new(),
        }))
    }

    fn needs_all(&self) -> bool {
        !matches!(self.needs, Needs::Any)
    }

    fn search(mut self, allowed: Option<&DocumentSet>, best: &mut Best) -> Result<()> {
        best.slack = slack_of(self.nodes.iter().map(Node::terms).sum());
        let count = self.nodes.len();
        self.set_bounds(0, END - 1);
        let overall = (self.order.clone(), self.sums.clone());
        let mut low = 0;
        loop {
            let Some(high) = self.window(low, &overall, best) else {
                return Ok(());
            };
            self.set_bounds(low, high);
            self.set_passive(best);
            if self.passive < count {
                self.visit(low, high, allowed, best)?;
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

    /// The end of the next window: where the first block ends of those nodes that can suffice
    /// anywhere; none if there are no such nodes left.
    fn window(
        &mut self,
        low: u32,
        (order, sums): &(Vec<usize>, Vec<f64>),
        best: &Best,
    ) -> Option<u32> {
        let mut high = None;
        let needs_all = self.needs_all();
        for (rank, (&i, &bound)) in order.iter().zip(sums.iter().skip(1)).enumerate() {
            if best.is_too_low(bound) || (needs_all && rank + 1 < order.len()) {
                continue;
            }
            if let Some(node) = self.nodes.get_mut(i)
                && node.document() != END
            {
                let end = node.until(low);
                high = Some(high.map_or(end, |high: u32| high.min(end)));
            }
        }
        high.map(|high| high.max(low.saturating_add(WINDOW - 1)).min(END - 1))
    }

    fn set_bounds(&mut self, low: u32, high: u32) {
        for (bound, node) in self.bounds.iter_mut().zip(&mut self.nodes) {
            *bound = node.bound(low, high).max(0.0);
        }
        let (bounds, nodes) = (&self.bounds, &self.nodes);
        let bound_of = |i: &usize| bounds.get(*i).copied().unwrap_or(f64::INFINITY);
        if self.needs_all() {
            self.order
                .sort_by_key(|&i| std::cmp::Reverse(nodes.get(i).map(Node::cost)));
        } else {
            self.order
                .sort_by(|a, b| bound_of(a).total_cmp(&bound_of(b)));
        }
        let mut total = 0.0;
        for (sum, i) in self.sums.iter_mut().skip(1).zip(&self.order) {
            total += bound_of(i);
            *sum = total;
        }
        self.passive = 0;
    }

    fn set_passive(&mut self, best: &Best) {
        let count = self.nodes.len();
        if self.needs_all() {
            let is_too_low = best.is_too_low(self.sums.last().copied().unwrap_or(0.0));
            let is_missing = self.bounds.contains(&0.0);
            self.passive = count - usize::from(!(is_too_low || is_missing));
            return;
        }
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
        let active = self.order.get(self.passive..).unwrap_or_default();
        let are_tokens = active
            .iter()
            .all(|&i| matches!(self.nodes.get(i), Some(Node::Token(_))));
        if let ([i], true) = (active, are_tokens) {
            return self.visit_blocks(*i, low, high, allowed, best);
        }
        if are_tokens && self.is_dense() {
            return self.visit_table(low, high, allowed, best);
        }
        let mut document = self.advance(low)?;
        while document <= high {
            let next = allowed.map_or(document, |allowed| allowed.next(document));
            if next == document {
                self.consider_all(document, best)?;
                self.set_passive(best);
                document = self.advance(document + 1)?;
            } else {
                document = self.advance(next)?;
            }
        }
        Ok(())
    }

    /// Whether the active nodes have many documents in a window.
    fn is_dense(&self) -> bool {
        let active = self.order.iter().skip(self.passive);
        let nodes = active.filter_map(|&i| self.nodes.get(i));
        nodes.map(Node::density).sum::<f64>() * f64::from(WINDOW) > TABLE_ENTRIES as f64
    }

    /// Visits the documents of a single active token, block by block.
    fn visit_blocks(
        &mut self,
        active: usize,
        low: u32,
        high: u32,
        allowed: Option<&DocumentSet>,
        best: &mut Best,
    ) -> Result<()> {
        let rest = self.sums.get(self.passive).copied().unwrap_or(0.0);
        let mut survivors = std::mem::take(&mut self.survivors);
        let mut target = low;
        loop {
            let Some(Node::Token(cursor)) = self.nodes.get_mut(active) else {
                return Err(out_of_range("clause"));
            };
            if cursor.advance(target)? > high {
                break;
            }
            let cutoff = best.cutoff(rest);
            if cursor.block_bound() <= cutoff {
                cursor.skip_block();
                continue;
            }
            let (documents, scores) = cursor.rest_of_block()?;
            let count = documents.partition_point(|document| *document <= high);
            let found = documents.iter().zip(scores).take(count);
            survivors.clear();
            survivors.extend(
                found
                    .filter(|(_, score)| **score > cutoff)
                    .map(|(document, score)| (*document, *score)),
            );
            let is_end = count == documents.len();
            for &(document, score) in &survivors {
                let is_allowed = allowed.is_none_or(|allowed| allowed.contains(document));
                if is_allowed && score > best.cutoff(rest) {
                    self.consider(document, (active, score), best)?;
                }
            }
            match self.nodes.get_mut(active) {
                Some(Node::Token(cursor)) if is_end => cursor.skip_block(),
                _ => target = high + 1,
            }
        }
        self.survivors = survivors;
        Ok(())
    }

    /// Visits the documents of several active tokens by a table of their scores.
    fn visit_table(
        &mut self,
        mut low: u32,
        high: u32,
        allowed: Option<&DocumentSet>,
        best: &mut Best,
    ) -> Result<()> {
        let missing = || out_of_range("table of scores");
        let width = WINDOW as usize;
        let (order, passive) = (self.order.clone(), self.passive);
        let mut active: Vec<usize> = order.into_iter().skip(passive).collect();
        active.sort_unstable();
        let rest = self.sums.get(passive).copied().unwrap_or(0.0);
        let mut table = std::mem::take(&mut self.table);
        table.resize(width * (active.len() + 1), 0.0);
        loop {
            // The last window reaches to the end of all numbers: go where there are documents.
            let mut first = END;
            for &i in &active {
                first = first.min(self.nodes.get_mut(i).ok_or_else(missing)?.advance(low)?);
            }
            if first > high {
                self.table = table;
                return Ok(());
            }
            low = first;
            let end = low.saturating_add(WINDOW - 1).min(high);
            table.fill(0.0);
            let (sums, lines) = table.split_at_mut(width);
            for (line, &i) in lines.chunks_exact_mut(width).zip(&active) {
                let Some(Node::Token(cursor)) = self.nodes.get_mut(i) else {
                    return Err(missing());
                };
                fill(cursor, low, end, line)?;
                for (sum, score) in sums.iter_mut().zip(&*line) {
                    *sum += *score;
                }
            }
            let cutoff = best.cutoff(rest).max(0.0);
            for (place, &sum) in sums.iter().enumerate() {
                if sum <= cutoff || sum <= best.cutoff(rest) {
                    continue;
                }
                let document = low + u32::try_from(place).map_err(|_| missing())?;
                if allowed.is_some_and(|allowed| !allowed.contains(document)) {
                    continue;
                }
                self.scores.fill(0.0);
                for (line, &i) in lines.chunks_exact(width).zip(&active) {
                    let score = line.get(place).ok_or_else(missing)?;
                    *self.scores.get_mut(i).ok_or_else(missing)? = *score;
                }
                self.complete(document, passive, f64::from(sum), best)?;
            }
            if end == high {
                self.table = table;
                return Ok(());
            }
            low = end + 1;
        }
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

    /// Adds a document of which the score by the active token is known.
    fn consider(&mut self, document: u32, known: (usize, f32), best: &mut Best) -> Result<()> {
        let missing = || out_of_range("clause");
        let (active, score) = known;
        if matches!(self.needs, Needs::Phrase(_)) {
            let node = self.nodes.get_mut(active).ok_or_else(missing)?;
            node.advance(document)?;
        }
        self.scores.fill(0.0);
        *self.scores.get_mut(active).ok_or_else(missing)? = score;
        self.complete(document, self.passive, f64::from(score), best)
    }

    /// Adds a document to which the active nodes were moved.
    fn consider_all(&mut self, document: u32, best: &mut Best) -> Result<()> {
        let mut possible = 0.0;
        self.scores.fill(0.0);
        for &i in self.order.iter().skip(self.passive) {
            let missing = || out_of_range("clause");
            let node = self.nodes.get_mut(i).ok_or_else(missing)?;
            let score = self.scores.get_mut(i).ok_or_else(missing)?;
            if node.document() == document {
                *score = node.score()?;
            }
            possible += f64::from(*score);
        }
        self.complete(document, self.passive, possible, best)
    }

    /// Adds a document of which the first nodes are not known yet, unless it is too low.
    fn complete(
        &mut self,
        document: u32,
        unknown: usize,
        mut possible: f64,
        best: &mut Best,
    ) -> Result<()> {
        let needs_all = self.needs_all();
        for (rank, &i) in self.order.iter().enumerate().take(unknown).rev() {
            let missing = || out_of_range("clause");
            let left = self.sums.get(rank + 1).ok_or_else(missing)?;
            if best.is_too_low(possible + left) {
                return Ok(());
            }
            let node = self.nodes.get_mut(i).ok_or_else(missing)?;
            if node.advance(document)? == document {
                let score = self.scores.get_mut(i).ok_or_else(missing)?;
                *score = node.score()?;
                possible += f64::from(*score);
            } else if needs_all {
                return Ok(());
            }
        }
        let mut score = 0f32;
        for own in &self.scores {
            score += own;
        }
        if let Needs::Phrase(matcher) = &mut self.needs {
            if score * best.factor <= best.floor {
                return Ok(());
            }
            let cursors = self.nodes.iter_mut().filter_map(|node| match node {
                Node::Token(cursor) => Some(cursor.as_mut()),
                _ => None,
            });
            if !matcher.matches(cursors)? {
                return Ok(());
            }
        }
        best.add(document, score);
        Ok(())
    }
}

/// Writes the scores of a token in the documents from `low` to `end` to a line of a table.
fn fill(cursor: &mut Cursor<'_>, low: u32, end: u32, line: &mut [f32]) -> Result<()> {
    let mut target = low;
    while cursor.advance(target)? <= end {
        let (documents, scores) = cursor.rest_of_block()?;
        let count = documents.partition_point(|document| *document <= end);
        for (&document, &score) in documents.iter().zip(scores).take(count) {
            if let Some(slot) = line.get_mut((document - low) as usize) {
                *slot = score;
            }
        }
        if count < documents.len() {
            target = end + 1;
        } else {
            cursor.skip_block();
        }
    }
    Ok(())
}
