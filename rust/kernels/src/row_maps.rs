//! Sets of row references as Roaring bitmaps of 64 bits: intersections, and postings of many keys.

use roaring::RoaringTreemap;

use crate::error::{Corrupt, Result, ensure, part, signed};

/// A few bytes of runs can claim very many rows, so few are believed.
const MAX_ROWS_OF_RUNS: u64 = 1 << 24;

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
    let believed = MAX_ROWS_OF_RUNS.max(8_u64.saturating_mul(data.len() as u64));
    ensure(
        found.len() <= believed,
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
    let believed = MAX_ROWS_OF_RUNS.max(8_u64.saturating_mul(data.len() as u64));
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
    fn damage() {
        assert!(intersection(&[], &[0]).is_err());
        assert!(intersection(&[1, 0, 0], &[0, 3]).is_err());
        assert!(unpack(&[0; 9], &[0, 9]).is_err());
        assert!(unpack(&[0; 8], &[0, 9]).is_err());
        assert!(pack(&[1], &[0, 2]).is_err());
    }
}
