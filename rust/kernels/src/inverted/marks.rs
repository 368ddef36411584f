//! Marked documents of a window, and the place of each among them.
//!
//!     documents   low … high    one bit for each    ranks    how many marks are before each word

use crate::error::{Result, out_of_range};

/// Documents of a word that are listed without a condition.
const BITS_AT_ONCE: usize = 4;

/// A set of the documents of a window.
#[derive(Default)]
pub struct Marks {
    low: u32,
    words: Vec<u64>,
    ranks: Vec<u32>,
}

impl Marks {
    /// Begins without any marks in a window.
    pub fn begin(&mut self, low: u32, high: u32) {
        self.low = low;
        self.words.clear();
        self.words.resize((high - low) as usize / 64 + 1, 0);
    }

    /// Marks a document of the window.
    #[inline]
    pub fn mark(&mut self, document: u32) -> Result<()> {
        let bit = document - self.low;
        let word = self.words.get_mut(bit as usize / 64);
        *word.ok_or_else(missing)? |= 1 << (bit % 64);
        Ok(())
    }

    /// Whether a document, which is not before the window, is marked.
    #[inline]
    pub fn contains(&self, document: u32) -> bool {
        let bit = document - self.low;
        let word = self.words.get(bit as usize / 64).copied().unwrap_or(0);
        word >> (bit % 64) & 1 == 1
    }

    /// Counts the marks before each word; then `rank` is known.
    pub fn count(&mut self) {
        self.ranks.clear();
        let mut rank = 0;
        self.ranks.extend(self.words.iter().map(|word| {
            let before = rank;
            rank += word.count_ones();
            before
        }));
    }

    /// The place of a marked document among all of them.
    #[inline]
    pub fn rank(&self, document: u32) -> Result<usize> {
        let bit = document - self.low;
        let word = bit as usize / 64;
        let marks = self.words.get(word).ok_or_else(missing)?;
        let before = marks & ((1 << (bit % 64)) - 1);
        let rank = self.ranks.get(word).ok_or_else(missing)?;
        Ok((rank + before.count_ones()) as usize)
    }

    /// Makes a sorted list of the marked documents, of which there are at most `most`, and counts
    /// them.
    pub fn list(&mut self, most: usize, documents: &mut Vec<u32>) -> Result<()> {
        documents.clear();
        documents.resize(most + BITS_AT_ONCE, 0);
        self.ranks.clear();
        let (mut rank, mut first) = (0, self.low);
        for &word in &self.words {
            self.ranks.push(rank);
            let (mut rest, mut at) = (word, rank as usize);
            // Most words have few bits, of no certain number: what is written beyond them is
            // overwritten by the next word.
            while rest != 0 {
                let slots = documents.get_mut(at..at + BITS_AT_ONCE);
                for slot in slots.ok_or_else(missing)? {
                    *slot = first.wrapping_add(rest.trailing_zeros());
                    rest &= rest.wrapping_sub(1);
                }
                at += BITS_AT_ONCE;
            }
            if word != 0 {
                rank += word.count_ones();
            }
            first = first.wrapping_add(64);
        }
        documents.truncate(rank as usize);
        Ok(())
    }
}

#[cold]
fn missing() -> crate::error::Corrupt {
    out_of_range("document of a window")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn marked_documents_have_ranks() {
        for (low, high) in [
            (0, 0),
            (5, 70),
            (1000, 3047),
            (u32::MAX - 200, u32::MAX - 1),
        ] {
            for step in [1, 2, 63, 64, 500] {
                let wanted: Vec<u32> = (low..=high).step_by(step).collect();
                let mut marks = Marks::default();
                marks.begin(low, high);
                for &document in &wanted {
                    marks.mark(document).unwrap();
                }
                let mut listed = vec![3];
                marks.list(wanted.len(), &mut listed).unwrap();
                assert_eq!(listed, wanted);
                for _ in 0..2 {
                    for (rank, &document) in wanted.iter().enumerate() {
                        assert!(marks.contains(document));
                        assert_eq!(marks.rank(document), Ok(rank));
                    }
                    marks.count();
                }
                let marked = (low..=high).filter(|document| marks.contains(*document));
                assert_eq!(marked.count(), wanted.len());
                assert!(!marks.contains(u32::MAX) || high - low >= 63);
            }
        }
    }

    #[test]
    fn more_marks_than_expected_are_an_error() {
        let mut marks = Marks::default();
        marks.begin(0, 63);
        (0..20).for_each(|document| marks.mark(document).unwrap());
        assert!(marks.list(3, &mut Vec::new()).is_err());
        assert!(marks.mark(64).is_err());
    }
}
