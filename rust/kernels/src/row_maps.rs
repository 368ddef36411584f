//! Sets of row references as Roaring bitmaps of 64 bits: intersections, and postings of many keys.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use roaring::{RoaringBitmap, RoaringTreemap};

use crate::error::{Corrupt, Result, ensure, out_of_range, part, signed, size, u32_at};

/// A few bytes of runs can claim very many rows, so few are believed.
const MAX_ROWS_OF_RUNS: u64 = 1 << 24;

/// The first word of a bitmap that has no runs.
const WITHOUT_RUNS: u32 = 12346;
/// Most rows of a container that is a list.
const MAX_LISTED: usize = 4096;

/// The rows that all of some sets contain, in ascending order; `bounds` are the ends of the sets.
pub fn intersection(data: &[u8], bounds: &[usize]) -> Result<Vec<u64>> {
    let mut found: Option<RoaringTreemap> = None;
    for ends in bounds.windows(2) {
        let set = set_in(data, ends)?;
        found = Some(match found {
            Some(mut both) => {
                both &= set;
                both
            }
            None => set,
        });
    }
    let found = found.ok_or_else(|| Corrupt("no set of rows".to_owned()))?;
    ensure(
        found.len() <= believed(data),
        "rows of a set",
        found.len(),
        "fewer",
    )?;
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
    let believed = believed(data);
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
pub fn pack(rows: &[u64], bounds: &[usize]) -> Result<(Vec<u8>, Vec<i64>)> {
    let mut packed = Packed::default();
    for ends in bounds.windows(2) {
        let &[start, stop] = ends else { continue };
        let size = stop
            .checked_sub(start)
            .ok_or_else(|| Corrupt(format!("rows from {start} to {stop}")))?;
        packed.push(&part(rows, start, size, "row")?.iter().copied().collect())?;
    }
    Ok((packed.data, packed.ends))
}

/// As `pack`, with one bitmap of 32 bits per upper half, whose length precedes it.
pub fn pack_maps(rows: &[u64], bounds: &[usize]) -> Result<(Vec<u8>, Vec<i64>)> {
    let mut packed = Packed::default();
    for ends in bounds.windows(2) {
        let &[start, stop] = ends else { continue };
        let size = stop
            .checked_sub(start)
            .ok_or_else(|| Corrupt(format!("rows from {start} to {stop}")))?;
        packed.push_rows(part(rows, start, size, "row")?)?;
    }
    Ok((packed.data, packed.ends))
}

/// The rows of several sets of `pack_maps`, and the ends of each with a first 0.
pub fn unpack_maps(data: &[u8], bounds: &[usize]) -> Result<(Vec<u64>, Vec<i64>)> {
    let (mut rows, mut ends) = (Vec::new(), vec![0]);
    let believed = believed(data);
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

/// The rows of all of some sets of `pack_maps`, as one set of `pack`.
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
        all.len() <= believed(data),
        "rows of sets",
        all.len(),
        "fewer",
    )?;
    let mut packed = Packed::default();
    packed.push(&all)?;
    Ok(packed.data)
}

/// Unites the sets of `pack_maps` of each group.
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
    let believed = believed(data);
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
            packed.push_map(&united)?;
        }
    }
    Ok((packed.data, packed.ends))
}

/// How many rows a set of some bytes may have.
fn believed(data: &[u8]) -> u64 {
    MAX_ROWS_OF_RUNS.max(8_u64.saturating_mul(data.len() as u64))
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

/// Serialized sets.
#[derive(Debug)]
pub struct Packed {
    /// The sets, one after the other.
    pub data: Vec<u8>,
    /// The end of each in bytes, with a first 0.
    pub ends: Vec<i64>,
}

impl Default for Packed {
    fn default() -> Self {
        Self {
            data: Vec::new(),
            ends: vec![0],
        }
    }
}

impl Packed {
    /// Adds a set.
    pub fn push(&mut self, rows: &RoaringTreemap) -> Result<()> {
        rows.serialize_into(&mut self.data)
            .map_err(|error| Corrupt(format!("a set of rows: {error}")))?;
        self.ends.push(signed(self.data.len(), "sets of rows")?);
        Ok(())
    }

    /// Adds a set of `pack_maps` of rows in any order.
    pub fn push_rows(&mut self, rows: &[u64]) -> Result<()> {
        if rows.is_sorted_by(|one, next| one < next) {
            self.push_ascending(rows)
        } else {
            self.push_map(&rows.iter().copied().collect())
        }
    }

    fn push_map(&mut self, rows: &RoaringTreemap) -> Result<()> {
        let count = rows.bitmaps().count();
        self.data.extend(u32_of(count)?.to_le_bytes());
        for (upper, bitmap) in rows.bitmaps() {
            self.data.extend(upper.to_le_bytes());
            self.data
                .extend(u32_of(bitmap.serialized_size())?.to_le_bytes());
            bitmap
                .serialize_into(&mut self.data)
                .map_err(|error| Corrupt(format!("a set of rows: {error}")))?;
        }
        self.ends.push(signed(self.data.len(), "sets of rows")?);
        Ok(())
    }
}

impl Packed {
    /// Writes the bitmaps of rows without building them: this takes a third of the time.
    fn push_ascending(&mut self, rows: &[u64]) -> Result<()> {
        let fragments = || rows.chunk_by(|one, next| one >> 32 == next >> 32);
        self.data.extend(u32_of(fragments().count())?.to_le_bytes());
        for fragment in fragments() {
            let upper = fragment.first().copied().unwrap_or_default() >> 32;
            self.data.extend(low_u32(upper).to_le_bytes());
            let start = self.data.len();
            self.data.extend([0; 4]); // the size, when it is known
            self.push_bitmap(fragment)?;
            let size = u32_of(self.data.len() - start - 4)?;
            if let Some(place) = self.data.get_mut(start..start + 4) {
                place.copy_from_slice(&size.to_le_bytes());
            }
        }
        self.ends.push(signed(self.data.len(), "sets of rows")?);
        Ok(())
    }

    /// Writes the lower halves of rows of one upper half in the portable format of Roaring bitmaps.
    fn push_bitmap(&mut self, rows: &[u64]) -> Result<()> {
        let containers: Vec<&[u64]> = rows.chunk_by(|one, next| one >> 16 == next >> 16).collect();
        let count = u32_of(containers.len())?;
        self.data.extend(WITHOUT_RUNS.to_le_bytes());
        self.data.extend(count.to_le_bytes());
        for container in &containers {
            let key = low_u32(container.first().copied().unwrap_or_default()) >> 16;
            self.data.extend(low_u16(key).to_le_bytes());
            let last = u32_of(container.len() - 1)?;
            self.data.extend(low_u16(last).to_le_bytes());
        }
        let mut at = 8 + 8 * count;
        for container in &containers {
            self.data.extend(at.to_le_bytes());
            at += u32_of(container_bytes(container.len()))?;
        }
        for container in &containers {
            self.push_container(container);
        }
        Ok(())
    }

    fn push_container(&mut self, rows: &[u64]) {
        if rows.len() <= MAX_LISTED {
            let listed = rows
                .iter()
                .flat_map(|row| low_u16(low_u32(*row)).to_le_bytes());
            self.data.extend(listed);
            return;
        }
        let mut words = [0_u64; 1024];
        for row in rows {
            let bit = usize::from(low_u16(low_u32(*row)));
            if let Some(word) = words.get_mut(bit / 64) {
                *word |= 1 << (bit % 64);
            }
        }
        self.data
            .extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
}

/// Bytes of a container: a list of 16 bits per row, or one bit for each of 65,536 rows.
fn container_bytes(num_rows: usize) -> usize {
    if num_rows <= MAX_LISTED {
        2 * num_rows
    } else {
        8192
    }
}

#[allow(clippy::cast_possible_truncation)]
fn low_u32(number: u64) -> u32 {
    number as u32
}

#[allow(clippy::cast_possible_truncation)]
fn low_u16(number: u32) -> u16 {
    number as u16
}

fn u32_of(number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| out_of_range("a set of rows"))
}

/// Keys in ascending order, their serialized sets, and the ends of these with a first 0.
pub type Finished = (Vec<u32>, Vec<u8>, Vec<i64>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_come_back() {
        let rows = [3, 1 << 40, 7, 7, 9];
        let (data, ends) = pack(&rows, &[0, 2, 2, 5]).unwrap_or_default();
        let bounds: Vec<usize> = ends
            .iter()
            .filter_map(|end| usize::try_from(*end).ok())
            .collect();
        let unpacked = unpack(&data, &bounds).unwrap_or_default();
        assert_eq!(unpacked, (vec![3, 1 << 40, 7, 9], vec![0, 2, 2, 4]));
        let first: Vec<usize> = bounds.iter().copied().take(2).collect();
        assert_eq!(intersection(&data, &first), Ok(vec![3, 1 << 40]));
        assert_eq!(intersection(&data, &bounds), Ok(vec![]));
    }

    #[test]
    fn maps_come_back() {
        let rows = [3, 1 << 40, 7, 7, 3, 9];
        let (data, ends) = pack_maps(&rows, &[0, 2, 2, 6]).unwrap_or_default();
        let bounds: Vec<usize> = ends
            .iter()
            .filter_map(|end| usize::try_from(*end).ok())
            .collect();
        let unpacked = unpack_maps(&data, &bounds).unwrap_or_default();
        assert_eq!(unpacked, (vec![3, 1 << 40, 3, 7, 9], vec![0, 2, 2, 5]));
        let all = unite_maps(&data, &bounds).unwrap_or_default();
        let expected = pack(&[3, 7, 9, 1 << 40], &[0, 4]).unwrap_or_default();
        assert_eq!(all, expected.0);
        for cut in 0..data.len() {
            assert!(unite_maps(data.get(..cut).unwrap_or_default(), &bounds).is_err());
        }
    }

    #[test]
    fn damage() {
        assert!(intersection(&[], &[0]).is_err());
        assert!(intersection(&[1, 0, 0], &[0, 3]).is_err());
        assert!(unpack(&[0; 9], &[0, 9]).is_err());
        assert!(unpack(&[0; 8], &[0, 9]).is_err());
        assert!(pack(&[1], &[0, 2]).is_err());
        assert!(pack_maps(&[1], &[0, 2]).is_err());
    }
}
