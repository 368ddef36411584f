//! The documents with the greatest scores of very many, which come one after the other.

/// Pairs of scores and documents, of which the greatest are kept, in the order in which they came.
pub struct Greatest {
    most: usize,
    /// A score that others have to exceed.
    floor: f32,
    pairs: Vec<(f32, u32)>,
}

impl Greatest {
    /// Keeps at most so many.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            floor: f32::NEG_INFINITY,
            pairs: Vec::new(),
        }
    }

    /// Adds the documents of a block.
    pub fn add_all(&mut self, scores: &[f32], documents: &[u32]) {
        let floor = self.floor;
        let begin = self.pairs.len();
        self.pairs.resize(begin + scores.len(), (0.0, 0));
        let free = self.pairs.get_mut(begin..).unwrap_or_default();
        let mut count = 0;
        for (&score, &document) in scores.iter().zip(documents) {
            // Without a branch: a few of each block are kept, in no order.
            if let Some(slot) = free.get_mut(count) {
                *slot = (score, document);
            }
            count += usize::from(score > floor);
        }
        self.pairs.truncate(begin + count);
        self.shrink_if_full();
    }

    /// Adds a document.
    #[inline]
    pub fn add(&mut self, score: f32, document: u32) {
        if score > self.floor {
            self.pairs.push((score, document));
            self.shrink_if_full();
        }
    }

    /// The greatest scores and their documents; of equal scores, those that came first.
    pub fn finish(mut self) -> Vec<(f32, u32)> {
        self.shrink();
        self.pairs
    }

    #[inline]
    fn shrink_if_full(&mut self) {
        if self.pairs.len() > self.most.saturating_mul(2) {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if self.pairs.len() <= self.most {
            return;
        }
        let mut scores: Vec<f32> = self.pairs.iter().map(|(score, _)| *score).collect();
        let last = self.most.saturating_sub(1);
        let (greater, least, _) = scores.select_nth_unstable_by(last, |a, b| b.total_cmp(a));
        let least = *least;
        let mut equal = self.most - greater.iter().filter(|score| **score > least).count();
        self.pairs.retain(|(score, _)| {
            let is_kept = *score > least || (*score >= least && equal > 0);
            equal -= usize::from(is_kept && *score <= least);
            is_kept
        });
        self.floor = least;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_the_first_of_all_in_order() {
        for most in [1, 2, 7, 100, 1000] {
            let (mut greatest, mut others) = (Greatest::new(most), Greatest::new(most));
            let mut all = Vec::new();
            let mut score = 3u16;
            for document in 0..500 {
                score = score.wrapping_mul(193).wrapping_add(17) % 251;
                greatest.add(f32::from(score), document);
                all.push((f32::from(score), document));
            }
            for block in all.chunks(64) {
                let (scores, documents): (Vec<f32>, Vec<u32>) = block.iter().copied().unzip();
                others.add_all(&scores, &documents);
            }
            all.sort_by(|a, b| b.0.total_cmp(&a.0));
            all.truncate(most);
            all.sort_by_key(|(_, document)| *document);
            assert_eq!(greatest.finish(), all);
            assert_eq!(others.finish(), all);
        }
    }
}
