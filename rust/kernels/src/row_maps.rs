//! Sets of row references as Roaring bitmaps of 64 bits: intersections, and postings of many keys.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use roaring::{RoaringBitmap, RoaringTreemap};

use crate::error::{Corrupt, Result, ensure, part, signed, size, u32_at};
use crate::row_set_writer::{Form, Packed};

/// A few bytes of runs can claim very many rows, so few are believed.
const MAX_ROWS_OF_RUNS: u64 = 1 << 24;

/// A set of rows in memory.
#[derive(Debug)]
pub struct RowBitmap {
    rows: RoaringTreemap,
    /// The bytes of its serialized form.
    pub size_bytes: usize,
}

impl RowBitmap {
    /// Reads a serialized set.
    pub fn read(data: &[u8]) -> Result<Self> {
        let rows = set_in(data, &[0, data.len()])?;
        Ok(Self {
            rows,
            size_bytes: data.len(),
        })
    }
}

/// The rows that all of some sets contain, in ascending order.
pub fn intersection(sets: &[&RowBitmap]) -> Result<Vec<u64>> {
    let mut sorted = sets.to_vec();
    sorted.sort_by_cached_key(|set| set.rows.len());
    let Some((smallest, others)) = sorted.split_first() else {
        return Err(Corrupt("no set of rows".to_owned()));
    };
    let mut found = Cow::Borrowed(&smallest.rows);
    for set in others {
        found = Cow::Owned(found.as_ref() & &set.rows);
    }
    let stored = sets.iter().map(|set| set.size_bytes).sum();
    let most = believed(stored);
    ensure(found.len() <= most, "rows of a set", found.len(), "fewer")?;
    Ok(found.iter().collect())
}

/// The set between two ends.
fn set_in(data: &[u8], ends: &[usize]) -> Result<RoaringTreemap> {
    let &[start, stop] = ends else {
        return Err(Corrupt(format!("{} ends of a set", ends.len())));
    };
    let size = stop
        .checked_sub(start)
        .ok_or_else(|| Corrupt(format!("a set of rows from {start} to {stop}")))?;
    let mut data = part(data, start, size, "set of rows")?;
    let set = RoaringTreemap::deserialize_from(&mut data)
        .map_err(|error| Corrupt(format!("not a Roaring bitmap: {error}")))?;
    ensure(data.is_empty(), "bytes after a set of rows", data.len(), 0)?;
    Ok(set)
}

/// The rows of several sets and the ends of each, with a first 0; `bounds` are the ends of the sets.
pub fn unpack(data: &[u8], bounds: &[usize]) -> Result<(Vec<u64>, Vec<i64>)> {
    let (mut rows, mut ends) = (Vec::new(), vec![0]);
    let believed = believed(data.len());
    for ends_of_set in bounds.windows(2) {
        let set = set_in(data, ends_of_set)?;
        let total = set.len().saturating_add(rows.len() as u64);
        ensure(total <= believed, "rows of sets", total, "fewer")?;
        rows.extend(&set);
        ends.push(signed(rows.len(), "rows of sets")?);
    }
    Ok((rows, ends))
}

/// Serialized sets of rows in any order, and the ends of each; `bounds` are the ends of the rows.
pub fn pack(form: Form, rows: &[u64], bounds: &[usize]) -> Result<(Vec<u8>, Vec<i64>)> {
    let mut packed = Packed::default();
    for ends in bounds.windows(2) {
        let &[start, stop] = ends else { continue };
        let size = stop
            .checked_sub(start)
            .ok_or_else(|| Corrupt(format!("rows from {start} to {stop}")))?;
        packed.push_rows(form, part(rows, start, size, "row")?)?;
    }
    Ok((packed.data, packed.ends))
}

/// The rows of several sets of `Form::Map`, and the ends of each with a first 0.
pub fn unpack_maps(data: &[u8], bounds: &[usize]) -> Result<(Vec<u64>, Vec<i64>)> {
    let (mut rows, mut ends) = (Vec::new(), vec![0]);
    let believed = believed(data.len());
    for ends_of_map in bounds.windows(2) {
        for (upper, bitmap) in map_in(data, ends_of_map)? {
            let total = bitmap.len().saturating_add(rows.len() as u64);
            ensure(total <= believed, "rows of sets", total, "fewer")?;
            let upper = u64::from(upper) << u32::BITS;
            rows.extend(bitmap.iter().map(|lower| upper | u64::from(lower)));
        }
        ends.push(signed(rows.len(), "rows of sets")?);
    }
    Ok((rows, ends))
}

/// The rows of all of some sets of `Form::Map`, as one of `Form::Set`.
pub fn unite_maps(data: &[u8], bounds: &[usize]) -> Result<Vec<u8>> {
    let mut all: BTreeMap<u32, RoaringBitmap> = BTreeMap::new();
    for ends_of_map in bounds.windows(2) {
        for (upper, bitmap) in map_in(data, ends_of_map)? {
            match all.entry(upper) {
                Entry::Vacant(entry) => {
                    entry.insert(bitmap);
                }
                Entry::Occupied(mut entry) => *entry.get_mut() |= bitmap,
            }
        }
    }
    let all = RoaringTreemap::from_bitmaps(all);
    ensure(
        all.len() <= believed(data.len()),
        "rows of sets",
        all.len(),
        "fewer",
    )?;
    let mut packed = Packed::default();
    packed.push(Form::Set, &all)?;
    Ok(packed.data)
}

/// Unites the sets of `Form::Map` of each group.
///
/// `order` are places of sets, `groups` the ends of the groups in it. A group of one set keeps the
/// bytes of the set.
pub fn unite_groups(
    data: &[u8],
    bounds: &[usize],
    order: &[usize],
    groups: &[usize],
) -> Result<(Vec<u8>, Vec<i64>)> {
    let mut packed = Packed::default();
    let believed = believed(data.len());
    for ends in groups.windows(2) {
        let &[start, stop] = ends else { continue };
        let count = stop.saturating_sub(start);
        let mut all: BTreeMap<u32, RoaringBitmap> = BTreeMap::new();
        for &place in part(order, start, count, "set")? {
            let ends_of_map = part(bounds, place, 2, "ends of a set")?;
            let maps = map_in(data, ends_of_map)?;
            if let (1, &[first, last]) = (count, ends_of_map) {
                let bytes = part(data, first, last.saturating_sub(first), "set of rows")?;
                packed.data.extend_from_slice(bytes);
                packed.ends.push(signed(packed.data.len(), "sets of rows")?);
                continue;
            }
            for (upper, bitmap) in maps {
                *all.entry(upper).or_default() |= bitmap;
            }
        }
        if count != 1 {
            let united = RoaringTreemap::from_bitmaps(all);
            let total = united.len();
            ensure(total <= believed, "rows of sets", total, "fewer")?;
            packed.push(Form::Map, &united)?;
        }
    }
    Ok((packed.data, packed.ends))
}

/// How many rows a set of some bytes may have.
fn believed(stored_bytes: usize) -> u64 {
    MAX_ROWS_OF_RUNS.max(8_u64.saturating_mul(stored_bytes as u64))
}

/// The bitmaps between two ends, by their upper halves.
fn map_in(data: &[u8], ends: &[usize]) -> Result<Vec<(u32, RoaringBitmap)>> {
    let &[start, stop] = ends else {
        return Err(Corrupt(format!("{} ends of a set", ends.len())));
    };
    let length = stop
        .checked_sub(start)
        .ok_or_else(|| Corrupt(format!("a set of rows from {start} to {stop}")))?;
    let data = part(data, start, length, "set of rows")?;
    let count = u32_at(data, 0, "a set of rows")?;
    let (mut found, mut at) = (Vec::new(), 4);
    for _ in 0..count {
        let upper = u32_at(data, at, "a set of rows")?;
        let length = size(u32_at(data, at + 4, "a set of rows")?, "a bitmap")?;
        let mut bytes = part(data, at + 8, length, "bitmap of rows")?;
        let bitmap = RoaringBitmap::deserialize_from(&mut bytes)
            .map_err(|error| Corrupt(format!("not a Roaring bitmap: {error}")))?;
        ensure(bytes.is_empty(), "bytes after a bitmap", bytes.len(), 0)?;
        if let Some((last, _)) = found.last() {
            ensure(*last < upper, "a set of rows", upper, "an ascending order")?;
        }
        found.push((upper, bitmap));
        at += 8 + length;
    }
    ensure(at == data.len(), "bytes of a set of rows", data.len(), at)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_come_back() {
        let rows = [3, 1 << 40, 7, 7, 9];
        let (data, ends) = pack(Form::Set, &rows, &[0, 2, 2, 5]).unwrap_or_default();
        let bounds: Vec<usize> = ends
            .iter()
            .filter_map(|end| usize::try_from(*end).ok())
            .collect();
        let unpacked = unpack(&data, &bounds).unwrap_or_default();
        assert_eq!(unpacked, (vec![3, 1 << 40, 7, 9], vec![0, 2, 2, 4]));
        let sets: Vec<_> = bounds
            .windows(2)
            .filter_map(|ends| RowBitmap::read(data.get(*ends.first()?..*ends.last()?)?).ok())
            .collect();
        let sets: Vec<_> = sets.iter().collect();
        assert_eq!(intersection(sets.split_at(1).0), Ok(vec![3, 1 << 40]));
        assert_eq!(intersection(&sets), Ok(vec![]));
    }

    #[test]
    fn maps_come_back() {
        let rows = [3, 1 << 40, 7, 7, 3, 9];
        let (data, ends) = pack(Form::Map, &rows, &[0, 2, 2, 6]).unwrap_or_default();
        let bounds: Vec<usize> = ends
            .iter()
            .filter_map(|end| usize::try_from(*end).ok())
            .collect();
        let unpacked = unpack_maps(&data, &bounds).unwrap_or_default();
        assert_eq!(unpacked, (vec![3, 1 << 40, 3, 7, 9], vec![0, 2, 2, 5]));
        let all = unite_maps(&data, &bounds).unwrap_or_default();
        let expected = pack(Form::Set, &[3, 7, 9, 1 << 40], &[0, 4]).unwrap_or_default();
        assert_eq!(all, expected.0);
        for cut in 0..data.len() {
            assert!(unite_maps(data.get(..cut).unwrap_or_default(), &bounds).is_err());
        }
    }

    #[test]
    fn damage() {
        assert!(intersection(&[]).is_err());
        assert!(RowBitmap::read(&[1, 0, 0]).is_err());
        assert!(unpack(&[0; 9], &[0, 9]).is_err());
        assert!(unpack(&[0; 8], &[0, 9]).is_err());
        assert!(pack(Form::Set, &[1], &[0, 2]).is_err());
    }
}
