//! Offsets of lists for the levels: from 0 on, and without items that no list contains.

use crate::bitmap::BitmapBuilder;
use crate::error::{Corrupt, Result, ensure, rest, size};
use crate::offsets::OffsetsIn;

/// The result of `shown`.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    /// From 0 on, one more than lists; lists that are not alive have no items.
    pub offsets: Vec<i64>,
    /// Whether a list that is alive has no items.
    pub has_empty: bool,
    /// One bit per item, unset below lists that are not alive; absent if these have none.
    pub wanted: Option<Vec<u8>>,
}

/// Scans the lists once; `alive` has one byte per list, 0 or 1; if absent, all are alive.
pub fn shown(offsets: OffsetsIn<'_>, alive: Option<&[u8]>) -> Result<Shown> {
    match offsets {
        OffsetsIn::Small(offsets) => walk(offsets, alive),
        OffsetsIn::Large(offsets) => walk(offsets, alive),
    }
}

fn walk<T: Copy + Into<i64>>(offsets: &[T], alive: Option<&[u8]>) -> Result<Shown> {
    let lists = offsets.len().saturating_sub(1);
    let (mut made, mut end, mut shortest) = (Vec::with_capacity(lists + 1), 0i64, 0i64);
    let (mut empty, mut hidden) = (0u8, 0i64);
    made.push(0);
    let mut add = |bounds: &[T], alive: u8| {
        let length = match bounds {
            [start, stop] => (*stop).into().wrapping_sub((*start).into()),
            _ => 0,
        };
        shortest = shortest.min(length);
        empty |= u8::from(length == 0) & alive;
        hidden |= length * i64::from(1 - alive);
        end = end.wrapping_add(length * i64::from(alive));
        made.push(end);
    };
    match alive {
        None => offsets.windows(2).for_each(|bounds| add(bounds, 1)),
        Some(alive) => {
            ensure(alive.len() == lists, "lists", alive.len(), lists)?;
            for (bounds, &alive) in offsets.windows(2).zip(alive) {
                add(bounds, alive & 1);
            }
        }
    }
    if shortest < 0 {
        return Err(Corrupt("list offsets descend".into()));
    }
    Ok(Shown {
        offsets: made,
        has_empty: empty != 0,
        wanted: alive
            .filter(|_| hidden != 0)
            .map(|alive| mask(offsets, alive))
            .transpose()?,
    })
}

fn mask<T: Copy + Into<i64>>(offsets: &[T], alive: &[u8]) -> Result<Vec<u8>> {
    let mut bits = BitmapBuilder::default();
    let (mut left, first) = (offsets, |offsets: &[T]| {
        offsets.first().map_or(0, |&at| at.into())
    });
    // Adjacent lists that are alive, or are not, form one stretch of items.
    for lists in alive.chunk_by(|a, b| a == b) {
        let from = first(left);
        left = rest(left, lists.len(), "list offsets")?;
        let items = size(first(left) - from, "list length")?;
        bits.extend_constant(lists.first().is_some_and(|alive| alive & 1 == 1), items);
    }
    Ok(bits.finish())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn items_below_nulls_are_not_counted() {
        let offsets = OffsetsIn::Small(&[2, 4, 4, 7, 8]);
        let made = shown(offsets, Some(&[1, 1, 0, 1])).unwrap();
        assert_eq!(made.offsets, [0, 2, 2, 2, 3]);
        assert!(made.has_empty);
        assert_eq!(made.wanted, Some(vec![0b10_0011]));
        let made = shown(offsets, Some(&[1, 0, 1, 1])).unwrap();
        assert_eq!(made.offsets, [0, 2, 2, 5, 6]);
        assert!(!made.has_empty && made.wanted.is_none());
    }

    #[test]
    fn all_are_alive_without_a_mask() {
        let made = shown(OffsetsIn::Large(&[5, 6, 6]), None).unwrap();
        assert_eq!(made.offsets, [0, 1, 1]);
        assert!(made.has_empty && made.wanted.is_none());
        assert_eq!(shown(OffsetsIn::Large(&[]), None).unwrap().offsets, [0]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(shown(OffsetsIn::Small(&[3, 2]), None).is_err());
        assert!(shown(OffsetsIn::Small(&[0, 2]), Some(&[])).is_err());
    }
}
