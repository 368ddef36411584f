//! A set of documents of a partition: one bit for each.

use crate::error::{Result, ensure, out_of_range};

/// The number after all documents.
pub const END: u32 = u32::MAX;

/// A set of documents.
#[derive(Debug)]
pub struct DocumentSet {
    words: Vec<u64>,
    pub count: usize,
}

impl DocumentSet {
    /// The documents whose row reference is in a sorted list, or is not in it.
    ///
    /// `references` are sorted; `order` has the document of each, if documents are in another
    /// order. Several documents may have the same reference.
    pub fn new(
        references: &[u64],
        order: Option<&[u32]>,
        listed: &[u64],
        is_complement: bool,
    ) -> Result<Self> {
        let num_documents = references.len();
        ensure(
            order.is_none_or(|order| order.len() == num_documents),
            "order of documents",
            order.map_or(0, <[u32]>::len),
            num_documents,
        )?;
        let all = if is_complement { u64::MAX } else { 0 };
        let mut words = vec![all; num_documents.div_ceil(64)];
        if is_complement && let Some(last) = words.last_mut() {
            *last = u64::MAX >> ((64 - num_documents % 64) % 64);
        }
        let mut count = 0;
        let mut at = 0;
        for &reference in listed {
            if references.get(at).is_some_and(|next| *next < reference) {
                let left = references
                    .get(at..)
                    .ok_or_else(|| out_of_range("references"))?;
                at += skip(left, reference);
            }
            while references.get(at) == Some(&reference) {
                let document = match order {
                    None => at,
                    Some(order) => *order.get(at).ok_or_else(|| out_of_range("order"))? as usize,
                };
                let word = words
                    .get_mut(document / 64)
                    .ok_or_else(|| out_of_range("order of documents"))?;
                *word ^= 1 << (document % 64);
                count += 1;
                at += 1;
            }
        }
        let count = if is_complement {
            num_documents.saturating_sub(count)
        } else {
            count
        };
        Ok(Self { words, count })
    }

    /// Whether the set contains a document.
    #[inline]
    pub fn contains(&self, document: u32) -> bool {
        let word = self.words.get(document as usize / 64);
        word.is_some_and(|word| word >> (document % 64) & 1 == 1)
    }

    /// The first document of the set from `document` on; `END` if there is none.
    #[inline]
    pub fn next(&self, document: u32) -> u32 {
        let mut index = document as usize / 64;
        let Some(word) = self.words.get(index) else {
            return END;
        };
        let mut word = word & (u64::MAX << (document % 64));
        while word == 0 {
            index += 1;
            let Some(next) = self.words.get(index) else {
                return END;
            };
            word = *next;
        }
        u32::try_from(index * 64 + word.trailing_zeros() as usize).unwrap_or(END)
    }
}

/// How many items of a sorted list are less than a value: near the start in few steps.
fn skip(sorted: &[u64], value: u64) -> usize {
    let mut step = 1;
    while sorted.get(step).is_some_and(|item| *item < value) {
        step *= 2;
    }
    let start = step / 2;
    let end = (step + 1).min(sorted.len());
    let Some(near) = sorted.get(start..end) else {
        return sorted.len();
    };
    start + near.partition_point(|item| *item < value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn all(set: &DocumentSet) -> Vec<u32> {
        let mut out = Vec::new();
        let mut at = set.next(0);
        while at != END {
            out.push(at);
            at = set.next(at + 1);
        }
        out
    }

    #[test]
    fn documents_are_those_of_the_listed_references() {
        for n in [0u64, 1, 63, 64, 65, 200] {
            let references: Vec<u64> = (0..n).map(|i| 2 * i).collect();
            for step in [1, 3, 7, 50] {
                let listed: Vec<u64> = (0..500).step_by(step).collect();
                let has = |i: &u32| listed.binary_search(&references[*i as usize]).is_ok();
                let numbers = 0..u32::try_from(n).unwrap();
                let wanted: Vec<u32> = numbers.clone().filter(has).collect();
                let others: Vec<u32> = numbers.filter(|i| !has(i)).collect();
                let set = DocumentSet::new(&references, None, &listed, false).unwrap();
                assert_eq!((all(&set), set.count), (wanted.clone(), wanted.len()));
                let set = DocumentSet::new(&references, None, &listed, true).unwrap();
                assert_eq!((all(&set), set.count), (others.clone(), others.len()));
            }
        }
        let set = DocumentSet::new(&[5, 5, 7], Some(&[2, 0, 1]), &[5], false).unwrap();
        assert_eq!(all(&set), [0, 2]);
        assert!(DocumentSet::new(&[5, 5], Some(&[64, 0]), &[5], false).is_err());
    }
}
