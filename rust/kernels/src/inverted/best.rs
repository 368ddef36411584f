//! The best documents of a search so far, and the score that others must exceed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

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
pub struct Best {
    pub k: Option<usize>,
    /// Relative error of a bound.
    pub slack: f64,
    /// Scores that do not exceed it are of no use.
    pub floor: f32,
    heap: BinaryHeap<Hit>,
    all: (Vec<u32>, Vec<f32>),
}

impl Best {
    /// None yet; scores up to `floor` are of no use.
    pub fn above(k: Option<usize>, floor: f32) -> Self {
        Self {
            k,
            slack: 0.0,
            floor,
            heap: BinaryHeap::new(),
            all: (Vec::new(), Vec::new()),
        }
    }

    /// Number of documents among the best `k`.
    pub fn num_hits(&self) -> usize {
        self.heap.len()
    }

    /// The k-th best score; none if there are fewer documents.
    pub fn least(&self) -> Option<f32> {
        let is_full = self.k.is_some_and(|k| self.heap.len() == k);
        let worst = self.heap.peek().filter(|_| is_full);
        worst.map(|hit| hit.score)
    }

    /// Leaves out documents whose scores are less than one that `k` documents have.
    pub fn raise(&mut self, reached: f32) {
        self.floor = self.floor.max(reached.next_down());
    }

    /// Whether scores up to a bound are of no use.
    #[inline]
    pub fn is_too_low(&self, bound: f64) -> bool {
        self.k.is_some() && bound + bound.abs() * self.slack <= f64::from(self.floor)
    }

    /// A score of a token that is of no use, if it is multiplied and others add at most `rest`.
    ///
    /// Those above it may be of use.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    pub fn cutoff(&self, rest: f64, factor: f64) -> f32 {
        let floor = f64::from(self.floor);
        let cutoff = floor - floor.abs() * 2.0 * self.slack - rest * (1.0 + self.slack);
        let cutoff = cutoff / factor;
        // Rounded down twice: by the conversion at most to the next float, then to the one before.
        (cutoff as f32).next_down()
    }

    /// Adds a document, if its score is of use.
    #[inline]
    pub fn add(&mut self, document: u32, score: f32) {
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
        if let Some(least) = self.least() {
            self.floor = self.floor.max(least);
        }
    }

    /// The documents and their scores; of the best `k`, the best one first.
    pub fn finish(self) -> (Vec<u32>, Vec<f32>) {
        if self.k.is_none() {
            return self.all;
        }
        let hits = self.heap.into_sorted_vec();
        hits.iter().map(|hit| (hit.document, hit.score)).unzip()
    }
}
