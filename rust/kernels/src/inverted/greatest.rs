//! The documents with the greatest scores of very many, which come one after the other.

/// Pairs of scores and documents, of which the greatest are kept.
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

    /// Adds a document.
    #[inline]
    pub fn add(&mut self, score: f32, document: u32) {
        if score > self.floor {
            self.pairs.push((score, document));
            if self.pairs.len() >= self.most.saturating_mul(2) {
                self.shrink();
            }
        }
    }

    /// The greatest scores and their documents, the greatest first.
    pub fn finish(mut self) -> Vec<(f32, u32)> {
        self.shrink();
        self.pairs.sort_unstable_by(order);
        self.pairs
    }

    fn shrink(&mut self) {
        if self.pairs.len() > self.most {
            let (_, next, _) = self.pairs.select_nth_unstable_by(self.most, order);
            self.floor = next.0;
            self.pairs.truncate(self.most);
        }
    }
}

/// Orders the greatest first; of equal scores the first document.
fn order(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_the_first_of_all_in_order() {
        for most in [1, 2, 7, 100, 1000] {
            let mut greatest = Greatest::new(most);
            let mut all = Vec::new();
            let mut score = 3u16;
            for document in 0..500 {
                score = score.wrapping_mul(193).wrapping_add(17) % 251;
                greatest.add(f32::from(score), document);
                all.push((f32::from(score), document));
            }
            all.sort_by(order);
            all.truncate(most);
            assert_eq!(greatest.finish(), all);
        }
    }
}
