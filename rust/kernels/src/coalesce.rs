//! Joins byte ranges of a file that lie close together, so that they are read in few requests.
//!
//!     wanted     |aa|   |bb| ....... 1 MB ....... |cc|
//!     regions    |aa----bb|                       |cc|        one buffer, region after region
//!
//! Ranges may come in any order, overlap or be empty. A region has the same offset modulo 64 in the
//! buffer as in the file.

use crate::error::{Result, out_of_range};

const ALIGNMENT: i64 = 64;

/// A range of bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub offset: i64,
    pub size: i64,
}

impl Span {
    fn is_within(self, file_size: i64) -> bool {
        self.offset >= 0 && self.size >= 0 && self.offset <= file_size.saturating_sub(self.size)
    }
}

/// A part of the file that is read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    pub offset: i64,
    pub size: i64,
    /// Where it begins in the buffer.
    pub place: i64,
}

/// Disjoint regions that cover some ranges.
pub struct Layout {
    pub regions: Vec<Region>,
    /// Where each range begins in the buffer.
    pub starts: Vec<i64>,
    /// The size of the buffer.
    pub size: i64,
}

/// The first range that does not lie within a file.
pub fn first_outside(spans: &[Span], file_size: i64) -> Option<usize> {
    spans.iter().position(|span| !span.is_within(file_size))
}

/// The bytes of all ranges; none if one does not lie within a file.
pub fn bytes_within(spans: impl Iterator<Item = Span>, file_size: i64) -> Option<i64> {
    let mut total = 0i64;
    for span in spans {
        total = total.checked_add(span.is_within(file_size).then_some(span.size)?)?;
    }
    Some(total)
}

/// Plans the reads of ranges within a file; those at most `gap` bytes apart are read together.
pub fn lay_out(spans: &[Span], gap: i64) -> Result<Layout> {
    let mut starts = vec![0; spans.len()];
    let mut sorted: Vec<(Span, &mut i64)> = spans.iter().copied().zip(&mut starts).collect();
    if !spans.is_sorted() {
        sorted.sort_unstable_by_key(|(span, _)| *span);
    }
    let mut regions: Vec<Region> = Vec::with_capacity(spans.len());
    let (mut end, mut reached) = (0i64, 0i64); // of the buffer, and of the last region in the file
    for (span, start) in sorted {
        if regions.is_empty() || span.offset.saturating_sub(reached) > gap {
            let aligned = end
                .checked_add(ALIGNMENT - 1)
                .map(|end| end - end % ALIGNMENT);
            let place = aligned.and_then(|end| end.checked_add(span.offset % ALIGNMENT));
            regions.push(Region {
                offset: span.offset,
                size: 0,
                place: place.ok_or_else(|| out_of_range("ranges"))?,
            });
            reached = span.offset;
        }
        let own = regions.last_mut().ok_or_else(|| out_of_range("ranges"))?;
        reached = reached.max(span.offset.saturating_add(span.size));
        own.size = reached - own.offset;
        end = own.place.saturating_add(own.size);
        *start = own.place + (span.offset - own.offset);
    }
    Ok(Layout {
        regions,
        starts,
        size: end,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn spans<const N: usize>(pairs: [(i64, i64); N]) -> Vec<Span> {
        pairs.map(|(offset, size)| Span { offset, size }).into()
    }

    #[test]
    fn near_ranges_are_joined_and_keep_their_order() {
        let made = lay_out(&spans([(1000, 5), (70, 10), (90, 0), (75, 20)]), 8).unwrap();
        let regions = [(70, 25, 6), (1000, 5, 104)].map(|(offset, size, place)| Region {
            offset,
            size,
            place,
        });
        assert_eq!(made.regions, regions);
        assert_eq!(made.starts, [104, 6, 26, 11]);
        assert_eq!(made.size, 109);
    }

    #[test]
    fn no_ranges_need_no_bytes() {
        let made = lay_out(&[], 8).unwrap();
        assert!(made.regions.is_empty() && made.starts.is_empty());
        assert_eq!(made.size, 0);
    }

    #[test]
    fn ranges_outside_of_the_file_are_found() {
        let max = i64::MAX;
        for wrong in [(-1, 1), (1, -1), (95, 6), (101, 0), (max, max), (max, 0)] {
            let spans = spans([(0, 100), wrong]);
            assert_eq!(first_outside(&spans, 100), Some(1));
            assert_eq!(bytes_within(spans.into_iter(), 100), None);
        }
        let spans = spans([(0, 100), (100, 0), (3, 5)]);
        assert_eq!(first_outside(&spans, 100), None);
        assert_eq!(bytes_within(spans.into_iter(), 100), Some(105));
    }
}
