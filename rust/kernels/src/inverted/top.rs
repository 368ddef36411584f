//! The documents with the greatest scores.
//!
//! A query is a tree over tokens (`tree`). Documents are visited in windows. Within a window each
//! token has a bound, the greatest score of its blocks there; a window whose bounds do not exceed
//! the k-th best score so far is skipped without decoding it (block-max pruning). Tokens with small
//! bounds cannot lift a document above that score by themselves: only the documents of the others,
//! the drivers, are collected (MaxScore). If every match contains a token, it may be the only
//! driver. A document belongs to the driver of the greatest bound that it has, and is left out if its
//! score there and the smaller bounds do not suffice. Others are then looked up in the other lists,
//! and given up as soon as what is left cannot suffice. Of a list with few more entries than there
//! are documents to look up, all entries are tested instead.
//!
//!     drivers ──▶ entries above a cutoff ──▶ scores of other tokens ──▶ tests ──▶ the best k
//!
//! A lower bound of the k-th best score is known from the start: each list has its best entries. If
//! every match contains several tokens, some `promising` documents are looked at before all others.
//! Bounds are compared with some slack, since sums of floats depend on their order. Scores are
//! computed in the order of the query. Of equal scores the first documents are kept.

use super::best::Best;
use super::candidates::{Candidates, Driver, MOST_DOCUMENTS, Window};
use super::clause::{Clause, Node};
use super::cursor::{Decoded, total};
use super::documents::{DocumentSet, END};
use super::norms::Norms;
use super::promising::promising;
use super::tree::{ABSENT, Leaf, Tree, cost};
use crate::error::{Result, out_of_range};

/// The least number of documents of a window.
const FEWEST_DOCUMENTS: u32 = 2048;

/// Allowed documents are looked up if the drivers have this many times as many documents.
const FEW: usize = 8;

/// Promising documents are looked at in groups, until `k` match, or too few of them do.
const FEWEST_SAMPLES: usize = 4;
const MOST_GROUPS: usize = 12;

/// They are looked at if every match contains a token with so many documents for each of a group.
const DOCUMENTS_PER_SAMPLE: usize = 2048;

/// Documents with their scores, and what was decoded to find them.
#[derive(Debug, Default)]
pub struct Found {
    pub documents: Vec<u32>,
    pub scores: Vec<f32>,
    pub decoded: Decoded,
}

/// Returns the documents with the `k` greatest scores above `floor`, best first.
///
/// Without `k`, all documents are returned, in their order.
pub fn search(
    clause: &Clause,
    norms: &Norms,
    k: Option<usize>,
    allowed: Option<&DocumentSet>,
    floor: f32,
) -> Result<Found> {
    if k == Some(0) {
        return Ok(Found::default());
    }
    let mut best = Best::above(k, floor);
    let plan = match k {
        Some(_) => Plan::of(clause, norms)?,
        None => None,
    };
    let decoded = match plan {
        Some(mut plan) => {
            let mut decoded = plan.raise_floor(clause, norms, allowed, &mut best)?;
            plan.search(allowed, &mut best)?;
            decoded += plan.decoded();
            decoded
        }
        None => search_one(clause.begin(norms)?, allowed, &mut best)?,
    };
    let (documents, scores) = best.finish();
    Ok(Found {
        documents,
        scores,
        decoded,
    })
}

/// The relative error of a sum of so many scores, and of its bound.
#[allow(clippy::cast_precision_loss)]
fn slack_of(terms: usize) -> f64 {
    f64::from(f32::EPSILON) * (terms + 4) as f64
}

/// Visits the documents of one node.
fn search_one(
    mut node: Node<'_>,
    allowed: Option<&DocumentSet>,
    best: &mut Best,
) -> Result<Decoded> {
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
            return Ok(node.decoded());
        }
        low = high + 1;
        if let Some(allowed) = allowed {
            low = allowed.next(low);
        }
        if node.document() == END || low == END {
            return Ok(node.decoded());
        }
    }
}

/// A search of the tokens of a tree.
struct Plan<'a> {
    tree: Tree<'a>,
    leaves: Vec<Leaf<'a>>,
    /// Whether documents have to be tested in the end.
    has_tests: bool,
    /// Tokens of which every match contains at least one, and the number of their documents.
    required: (Vec<usize>, usize),
    /// The bounds of the tokens: anywhere, and in the window.
    most: Vec<f64>,
    bounds: Vec<f64>,
    /// Tokens whose documents are collected.
    drivers: Vec<Driver>,
    order: Vec<usize>,
    candidates: Candidates,
}

impl<'a> Plan<'a> {
    /// The search of a clause; none if some of its scores may not be positive.
    fn of(clause: &'a Clause, norms: &'a Norms) -> Result<Option<Self>> {
        let made = Tree::of(clause, norms)?;
        Ok(made.map(|(tree, leaves)| Self::new(tree, leaves)))
    }

    fn new(tree: Tree<'a>, leaves: Vec<Leaf<'a>>) -> Self {
        let required = tree.drivers(&leaves);
        let bound = |leaf: &Leaf<'_>| leaf.factor * f64::from(leaf.cursor.most());
        Self {
            has_tests: tree.has_tests(),
            required: (required.clone(), cost(&required, &leaves)),
            most: leaves.iter().map(bound).collect(),
            bounds: vec![0.0; leaves.len()],
            drivers: Vec::new(),
            order: (0..leaves.len()).collect(),
            candidates: Candidates::default(),
            tree,
            leaves,
        }
    }

    /// Finds a lower bound of the k-th best score; returns what was decoded for it.
    fn raise_floor(
        &self,
        clause: &Clause,
        norms: &Norms,
        allowed: Option<&DocumentSet>,
        best: &mut Best,
    ) -> Result<Decoded> {
        let k = best.k.ok_or_else(missing)?;
        if let Some(score) = self.tree.reached_by(k, allowed, &self.leaves) {
            best.raise(score);
            return Ok(Decoded::default());
        }
        let group = k.max(FEWEST_SAMPLES);
        let (_, fewest) = &self.required;
        if group.saturating_mul(DOCUMENTS_PER_SAMPLE) > *fewest {
            return Ok(Decoded::default());
        }
        let most = group.saturating_mul(MOST_GROUPS);
        let documents = promising(&self.leaves, allowed, most);
        let mut decoded = Decoded::default();
        let mut sample = Best::above(best.k, best.floor);
        let mut num_tested = 0;
        for some in documents.chunks(group) {
            let mut plan = Plan::of(clause, norms)?.ok_or_else(missing)?;
            plan.look_at_few(some.to_vec(), &mut sample)?;
            decoded += plan.decoded();
            num_tested += some.len();
            if let Some(least) = sample.least() {
                best.raise(least);
                break;
            }
            if sample.num_hits() * MOST_GROUPS < num_tested {
                break;
            }
        }
        Ok(decoded)
    }

    fn search(&mut self, allowed: Option<&DocumentSet>, best: &mut Best) -> Result<()> {
        best.slack = slack_of(self.tree.operations());
        let mut low = allowed.map_or(0, |allowed| allowed.next(0));
        while low != END {
            let Some((first, high)) = self.next_window(low, best)? else {
                break;
            };
            let window = Window {
                low: first,
                high,
                allowed,
            };
            self.look_at(window, best)?;
            low = high + 1;
            if let Some(allowed) = allowed {
                low = allowed.next(low);
            }
        }
        Ok(())
    }

    /// The blocks that were decoded so far.
    fn decoded(&self) -> Decoded {
        let mut decoded = self.tree.decoded();
        decoded += total(self.leaves.iter().map(|leaf| leaf.cursor.decoded()));
        decoded
    }

    /// Adds the documents of a window that are among the best, unless its bounds are too low.
    fn look_at(&mut self, window: Window<'_>, best: &mut Best) -> Result<()> {
        self.set_bounds(window.low, window.high);
        let bound = self.tree.bound(&self.bounds);
        if bound >= 0.0 && !best.is_too_low(bound) {
            let bounds = std::mem::take(&mut self.bounds);
            self.choose_drivers(&bounds, best);
            self.visit(&bounds, window, best)?;
            self.bounds = bounds;
        }
        Ok(())
    }

    /// Adds those of some documents that are among the best.
    fn look_at_few(&mut self, mut documents: Vec<u32>, best: &mut Best) -> Result<()> {
        best.slack = slack_of(self.tree.operations());
        documents.sort_unstable();
        self.candidates.select(self.leaves.len(), documents);
        let bounds = std::mem::take(&mut self.most);
        self.add_candidates(&bounds, best)?;
        self.most = bounds;
        Ok(())
    }

    /// The first and the last document of the next window from `low` on: where the first block of
    /// a driver ends; none if no document from there on can be of use.
    fn next_window(&mut self, mut low: u32, best: &Best) -> Result<Option<(u32, u32)>> {
        let most = std::mem::take(&mut self.most);
        self.choose_drivers(&most, best);
        self.most = most;
        if let [driver] = self.drivers.as_slice() {
            let leaf = self.leaves.get_mut(driver.leaf).ok_or_else(missing)?;
            let cutoff = best.cutoff(driver.rest, leaf.factor);
            low = leaf.cursor.next_above(low, cutoff);
        }
        let mut end = None;
        for driver in &self.drivers {
            let leaf = self.leaves.get_mut(driver.leaf).ok_or_else(missing)?;
            let cursor = &mut leaf.cursor;
            if low <= cursor.last() {
                let own = cursor.until(low);
                end = Some(end.map_or(own, |end: u32| end.min(own)));
            }
        }
        Ok(end.map(|end| {
            let least = low.saturating_add(FEWEST_DOCUMENTS - 1);
            let most = low.saturating_add(MOST_DOCUMENTS - 1).min(END - 1);
            (low, end.max(least).min(most))
        }))
    }

    fn set_bounds(&mut self, low: u32, high: u32) {
        for (bound, leaf) in self.bounds.iter_mut().zip(&mut self.leaves) {
            let own = leaf.cursor.greatest(low, high);
            *bound = own.map_or(f64::from(ABSENT), |own| leaf.factor * own);
        }
    }

    /// Chooses tokens so that only their documents can be of use.
    fn choose_drivers(&mut self, bounds: &[f64], best: &Best) {
        let bound_of = |leaf: usize| bounds.get(leaf).copied().unwrap_or(0.0).max(0.0);
        let total: f64 = (0..bounds.len()).map(bound_of).sum();
        let order = &mut self.order;
        order.sort_by(|a, b| bound_of(*a).total_cmp(&bound_of(*b)));
        let mut sum = 0.0;
        let too_low = order.iter().take_while(|leaf| {
            sum += bound_of(**leaf);
            best.is_too_low(sum)
        });
        let passive = too_low.count();
        let suffice = order.get(passive..).unwrap_or_default();
        let (required, fewest) = &self.required;
        let chosen = if cost(suffice, &self.leaves) < *fewest {
            suffice
        } else {
            required
        };
        self.drivers.clear();
        let mut before = 0.0;
        for &leaf in chosen.iter().rev() {
            let rest = total - bound_of(leaf);
            let below = rest - before;
            before += bound_of(leaf);
            self.drivers.push(Driver { leaf, rest, below });
        }
    }

    /// The number of documents of the drivers.
    fn driver_cost(&self) -> usize {
        let own = self.drivers.iter();
        let own = own.filter_map(|driver| self.leaves.get(driver.leaf));
        own.map(Leaf::cost).sum()
    }

    /// Adds the documents of a window that are among the best.
    fn visit(&mut self, bounds: &[f64], window: Window<'_>, best: &mut Best) -> Result<()> {
        let num_driven = self.driver_cost();
        let candidates = &mut self.candidates;
        match window.allowed {
            Some(allowed) if allowed.count < num_driven / FEW => {
                candidates.select(self.leaves.len(), window.documents_of(allowed));
                self.drivers.clear();
            }
            _ => candidates.collect(&self.drivers, &mut self.leaves, window, best)?,
        }
        self.add_candidates(bounds, best)
    }

    /// Adds the candidates that are among the best; the scores of the drivers are known.
    fn add_candidates(&mut self, bounds: &[f64], best: &mut Best) -> Result<()> {
        let candidates = &mut self.candidates;
        let bound_of = |leaf: usize| bounds.get(leaf).copied().unwrap_or(0.0).max(0.0);
        let (leaves, drivers) = (&self.leaves, &self.drivers);
        let is_driver = |leaf: usize| drivers.iter().any(|driver| driver.leaf == leaf);
        self.order.clear();
        self.order
            .extend((0..leaves.len()).filter(|leaf| !is_driver(*leaf)));
        // Those that every match contains come first, the rarest first; then the greatest bounds.
        let key = |leaf: usize| {
            let own = leaves.get(leaf).filter(|own| own.is_required);
            own.map_or(usize::MAX, Leaf::cost)
        };
        self.order.sort_by(|&a, &b| {
            let by_key = key(a).cmp(&key(b));
            by_key.then(bound_of(b).total_cmp(&bound_of(a)))
        });
        let mut left: f64 = self.order.iter().map(|leaf| bound_of(*leaf)).sum();
        for &token in &self.order {
            let leaf = self.leaves.get_mut(token).ok_or_else(missing)?;
            if bounds.get(token).is_some_and(|bound| *bound >= 0.0) {
                candidates.add(token, leaf, (left, bound_of(token)), best)?;
            }
            left -= bound_of(token);
        }
        self.order
            .extend(self.drivers.iter().map(|driver| driver.leaf));
        for (document, scores, sum) in candidates.iter() {
            if best.is_too_low(sum) {
                continue;
            }
            let mut score = self.tree.score(scores, None)?;
            if self.has_tests && score.is_some_and(|score| score > best.floor) {
                score = self.tree.score(scores, Some(document))?;
            }
            if let Some(score) = score {
                best.add(document, score);
            }
        }
        Ok(())
    }
}

#[cold]
fn missing() -> crate::error::Corrupt {
    out_of_range("clause")
}
