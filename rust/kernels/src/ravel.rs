//! Arrow validity and offsets to the repetition and definition levels of one leaf column.
//!
//! The walk goes from the outer-most layer inward and keeps one entry per slot. A list turns its
//! entry into one per item; a list without items (null, empty, or below a null) stays one entry
//! that owns no slot further in.

use crate::bitmap::{bit, word_at};
use crate::error::{Corrupt, Result, ensure, size};

/// One layer of a leaf column, as Arrow holds it.
#[derive(Debug)]
pub struct Step<'a> {
    /// Bitmap and the bit of its first slot; absent if all are valid.
    pub validity: Option<(&'a [u8], usize)>,
    /// Definition level of a null here (0 if there is none).
    pub null: u16,
    /// Lists only.
    pub list: Option<List<'a>>,
}

/// The list part of a layer.
#[derive(Debug)]
pub struct List<'a> {
    /// One more than slots; the items of all lists with items are contiguous.
    pub offsets: &'a [i64],
    /// Repetition level of this list.
    pub rep: u16,
    /// Definition level of an empty list (0 if there is none).
    pub empty: u16,
}

/// Levels of a column; both have one item per entry.
#[derive(Debug, Default)]
pub struct Levels {
    pub rep: Vec<u16>,
    pub def: Vec<u16>,
    /// Entries that own a value.
    pub num_visible: usize,
}

/// Marks an entry without a slot in the layers further in.
const HIDDEN: u16 = 0x8000;

/// Serialises the layers, given outer-most first, of `num_rows` rows.
pub fn ravel(steps: &[Step<'_>], num_rows: usize) -> Result<Levels> {
    let mut rep = vec![0u16; num_rows];
    let mut def = vec![0u16; num_rows];
    for step in steps {
        match &step.list {
            None => mark_nulls(step, &mut def),
            Some(list) => (rep, def) = expand(step, list, &rep, &def)?,
        }
    }
    let num_visible = def.iter().filter(|&&def| def & HIDDEN == 0).count();
    def.iter_mut().for_each(|def| *def &= !HIDDEN);
    Ok(Levels {
        rep,
        def,
        num_visible,
    })
}

fn mark_nulls(step: &Step<'_>, def: &mut [u16]) {
    let Some((bitmap, mut slot)) = step.validity else {
        return;
    };
    if def.iter().all(|&def| def & HIDDEN == 0) {
        // Each entry has a slot, so that the slots of a block are known in advance.
        for (number, block) in def.chunks_mut(64).enumerate() {
            let valid = word_at(bitmap, slot + 64 * number);
            for (place, def) in (0u32..).zip(block) {
                let is_null = u16::from(*def == 0) & u16::from(valid >> place & 1 == 0);
                *def |= is_null * step.null;
            }
        }
        return;
    }
    for def in def {
        // Branch-free, as branches on random nulls are unpredictable.
        let is_null = u16::from(*def == 0) & u16::from(!bit(bitmap, slot));
        slot += usize::from(*def & HIDDEN == 0);
        *def |= is_null * step.null;
    }
}

fn expand(
    step: &Step<'_>,
    list: &List<'_>,
    rep: &[u16],
    def: &[u16],
) -> Result<(Vec<u16>, Vec<u16>)> {
    let (Some(first), Some(last)) = (list.offsets.first(), list.offsets.last()) else {
        return Err(Corrupt("no list offsets".into()));
    };
    let room = rep.len() + size(last - first, "list offsets")?;
    let (mut out_rep, mut out_def) = (vec![0; room], vec![0; room]);
    let mut bounds = list.offsets.windows(2);
    let (mut slot, mut end) = (0, 0);
    let mut put = |place: usize, rep: u16, def: u16| {
        if let (Some(out_rep), Some(out_def)) = (out_rep.get_mut(place), out_def.get_mut(place)) {
            (*out_rep, *out_def) = (rep, def);
        }
    };
    for (&rep, &def) in rep.iter().zip(def) {
        let rep = if rep == 0 { list.rep } else { rep };
        if def & HIDDEN != 0 {
            put(end, rep, def);
            end += 1;
            continue;
        }
        let length = match bounds.next() {
            Some([start, end]) => size(end - start, "list length")?,
            _ => return Err(Corrupt("fewer list offsets than lists".into())),
        };
        let valid = step
            .validity
            .is_none_or(|(bitmap, first)| bit(bitmap, first + slot));
        slot += 1;
        if def == 0 && valid && length > 0 {
            put(end, rep, 0);
            end += length;
            continue;
        }
        ensure(length == 0, "items of a null list", length, 0)?;
        let level = match (def, valid) {
            (0, true) => list.empty,
            (0, false) => step.null,
            (outer, _) => outer,
        };
        put(end, rep, HIDDEN | level);
        end += 1;
    }
    ensure(end <= room, "list offsets, entries", end, room)?;
    out_rep.truncate(end);
    out_def.truncate(end);
    Ok((out_rep, out_def))
}

/// The most entries of any `values` adjacent values, including the entries before each that own no
/// value; entries after the last value are counted with it.
pub fn most_entries(def: &[u16], max_visible: u16, values: usize) -> usize {
    // Where the last values end, by their number; the entries before the first one end at 0.
    let mut ends = vec![0; (values + 2).next_power_of_two()];
    let mask = ends.len() - 1;
    let end_of = |ends: &[usize], number: usize| ends.get(number & mask).copied().unwrap_or(0);
    let (mut count, mut most) = (0, 0);
    for (index, &def) in def.iter().enumerate() {
        if let Some(end) = ends.get_mut((count + 1) & mask) {
            *end = index + 1; // taken back by the next entry unless this one owns a value
        }
        if let Some(before) = (count + 1).checked_sub(values) {
            most = most.max(index + 1 - end_of(&ends, before));
        }
        count += usize::from(def <= max_visible);
    }
    match count.checked_sub(values) {
        Some(before) => most.max(def.len() - end_of(&ends, before)),
        None => def.len(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lists_of_structs_of_lists() {
        // [[{p:[1,2]},null,{p:null},{p:[]}],[],null,[{p:[null,3]}]], layers 3,6,3,6
        let steps = [
            Step {
                validity: Some((&[0b1011], 0)),
                null: 5,
                list: Some(List {
                    offsets: &[0, 4, 4, 4, 5],
                    rep: 2,
                    empty: 6,
                }),
            },
            Step {
                validity: Some((&[0b1_1101], 0)),
                null: 4,
                list: None,
            },
            Step {
                validity: Some((&[0b1_1001], 0)),
                null: 2,
                list: Some(List {
                    offsets: &[0, 2, 2, 2, 2, 4],
                    rep: 1,
                    empty: 3,
                }),
            },
            Step {
                validity: Some((&[0b1011], 0)),
                null: 1,
                list: None,
            },
        ];
        let levels = ravel(&steps, 4).unwrap();
        assert_eq!(levels.rep, [2, 0, 1, 1, 1, 2, 2, 2, 0]);
        assert_eq!(levels.def, [0, 0, 4, 2, 3, 6, 5, 1, 0]);
        assert_eq!(levels.num_visible, 4);
    }

    #[test]
    fn nested_lists() {
        // [[[0,1],[],[2]],[[3]],[],null,[null,[4,null]]], layers 3,6,6
        let steps = [
            Step {
                validity: Some((&[0b1_0111], 0)),
                null: 4,
                list: Some(List {
                    offsets: &[0, 3, 4, 4, 4, 6],
                    rep: 2,
                    empty: 5,
                }),
            },
            Step {
                validity: Some((&[0b10_1111], 0)),
                null: 2,
                list: Some(List {
                    offsets: &[0, 2, 2, 3, 4, 4, 6],
                    rep: 1,
                    empty: 3,
                }),
            },
            Step {
                validity: Some((&[0b01_1111], 0)),
                null: 1,
                list: None,
            },
        ];
        let levels = ravel(&steps, 5).unwrap();
        assert_eq!(levels.rep, [2, 0, 1, 1, 2, 2, 2, 2, 1, 0]);
        assert_eq!(levels.def, [0, 0, 3, 0, 0, 5, 4, 2, 0, 1]);
    }

    #[test]
    fn items_of_null_lists_are_refused() {
        let steps = [Step {
            validity: Some((&[0b10], 0)),
            null: 1,
            list: Some(List {
                offsets: &[0, 1, 2],
                rep: 1,
                empty: 0,
            }),
        }];
        assert!(ravel(&steps, 2).is_err());
    }

    #[test]
    fn entries_of_neighbouring_values() {
        let def = [0, 2, 2, 0, 0, 2, 1, 2];
        assert_eq!(most_entries(&def, 1, 1), 3);
        assert_eq!(most_entries(&def, 1, 2), 4);
        assert_eq!(most_entries(&def, 1, 4), 8);
        assert_eq!(most_entries(&def, 1, 9), 8);
        assert_eq!(most_entries(&[], 0, 1), 0);
    }
}
