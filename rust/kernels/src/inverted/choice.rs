//! Which entries of a list a search looks at: those that may be of use by themselves, and those of
//! documents that are looked at anyway.

use super::grades::{self, Grade};
use super::marks::Marks;

/// A choice of entries.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    /// Entries with scores above it are chosen.
    pub cutoff: f32,
    /// The least grade of such an entry; none if there is no such entry.
    pub least: Option<Grade>,
    /// The documents whose entries are chosen, whatever their scores are; none if there are none.
    pub marks: Option<&'a Marks>,
}

impl Choice<'_> {
    /// Writes the places of the entries that may be chosen; returns how many there are.
    #[inline]
    pub fn places(self, documents: &[u32], grades: &[Grade], out: &mut [u8]) -> usize {
        let Some(marks) = self.marks else {
            let chosen = self
                .least
                .map(|least| grades::places_from(grades, least, out));
            return chosen.unwrap_or(0);
        };
        let least = self.least.map_or(u16::MAX, u16::from);
        let mut count = 0;
        for ((place, document), own) in (0u8..=u8::MAX).zip(documents).zip(grades) {
            // Without a branch: a place that does not count is overwritten by the next one.
            if let Some(slot) = out.get_mut(count) {
                *slot = place;
            }
            let is_chosen = (u16::from(*own) >= least) | marks.contains(*document);
            count += usize::from(is_chosen);
        }
        count
    }

    /// Whether an entry is chosen, given its exact score.
    #[inline]
    pub fn keeps(self, document: u32, score: f32) -> bool {
        score > self.cutoff || self.marks.is_some_and(|marks| marks.contains(document))
    }
}
