//! Collects the rows of each key, in any order of keys, as runs. Finally, the keys are sorted.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

use crate::error::{Result, ensure, out_of_range};
use crate::offsets::OffsetsIn;
use crate::row_run::Run;
use crate::row_set_writer::{Form, Packed};

/// Approximate bytes of a key in addition to its own: its entry, its run, and what they allocate.
const KEY_BYTES: usize = 96;

/// The rows of each key.
#[derive(Debug)]
pub struct KeyRows<K> {
    places: HashMap<K, usize, RandomState>,
    runs: Vec<Run>,
    nulls: Run,
    size_bytes: usize,
    /// After `sort`: the keys in descending order, so that the least is the last.
    sorted: Vec<(K, Run)>,
}

impl<K> Default for KeyRows<K> {
    fn default() -> Self {
        Self {
            places: HashMap::default(),
            runs: Vec::new(),
            nulls: Run::default(),
            size_bytes: 0,
            sorted: Vec::new(),
        }
    }
}

impl<K: Hash + Eq + Ord> KeyRows<K> {
    /// About how much memory it needs.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes + self.nulls.size_bytes()
    }

    /// Number of different keys.
    pub fn num_keys(&self) -> usize {
        self.runs.len()
    }

    /// Adds rows without a key.
    pub fn add_nulls(&mut self, rows: &[u64]) {
        for &row in rows {
            self.nulls.push(row);
        }
    }

    /// The place of a key, which is added if it is new.
    fn place<Q>(&mut self, key: &Q, own: impl FnOnce(&Q) -> K, key_bytes: usize) -> usize
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some(&place) = self.places.get(key) {
            return place;
        }
        let place = self.runs.len();
        self.places.insert(own(key), place);
        self.runs.push(Run::default());
        self.size_bytes += KEY_BYTES + key_bytes;
        place
    }

    fn push(&mut self, place: usize, row: u64) -> Result<()> {
        let run = self.runs.get_mut(place);
        let run = run.ok_or_else(|| out_of_range("place of a key"))?;
        let before = run.size_bytes();
        run.push(row);
        self.size_bytes += run.size_bytes() - before;
        Ok(())
    }

    /// Sorts the keys; nothing can be added after it.
    pub fn sort(&mut self) {
        let runs = std::mem::take(&mut self.runs);
        let mut places: Vec<(K, usize)> = std::mem::take(&mut self.places).into_iter().collect();
        places.sort_unstable_by_key(|(_, place)| *place);
        let keys = places.into_iter().map(|(key, _)| key);
        self.sorted = keys.zip(runs).collect();
        self.sorted
            .sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
    }

    /// The serialized set of rows without a key, if there are any; only once.
    pub fn take_nulls(&mut self) -> Result<Option<Packed>> {
        let nulls = std::mem::take(&mut self.nulls);
        if nulls.is_empty() {
            return Ok(None);
        }
        let mut packed = Packed::default();
        packed.push_run(Form::Map, &nulls)?;
        Ok(Some(packed))
    }

    /// The next keys in ascending order and their serialized sets, of at least `wanted_bytes`.
    pub fn take(&mut self, wanted_bytes: usize) -> Result<(Vec<K>, Packed)> {
        let (mut keys, mut packed) = (Vec::new(), Packed::default());
        while packed.data.len() < wanted_bytes {
            let Some((key, run)) = self.sorted.pop() else {
                break;
            };
            packed.push_run(Form::Map, &run)?;
            keys.push(key);
        }
        Ok((keys, packed))
    }
}

impl KeyRows<u64> {
    /// Adds rows, each with its key.
    pub fn add(&mut self, keys: &[u64], rows: &[u64]) -> Result<()> {
        ensure(keys.len() == rows.len(), "rows", rows.len(), keys.len())?;
        let mut last = None;
        for (&key, &row) in keys.iter().zip(rows) {
            let place = match last {
                Some((same, place)) if same == key => place,
                _ => self.place(&key, |&key| key, size_of::<u64>()),
            };
            last = Some((key, place));
            self.push(place, row)?;
        }
        Ok(())
    }
}

impl KeyRows<Box<[u8]>> {
    /// Adds rows, each with its key.
    pub fn add(&mut self, offsets: OffsetsIn<'_>, data: &[u8], rows: &[u64]) -> Result<()> {
        ensure(
            offsets.count() == rows.len(),
            "rows",
            rows.len(),
            offsets.count(),
        )?;
        for (item, &row) in rows.iter().enumerate() {
            let key = offsets.value(data, item, "key")?;
            let place = self.place(key, |key| key.into(), 16 + key.len());
            self.push(place, row)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::row_maps::unpack_maps;

    fn rows_of(packed: &Packed) -> (Vec<u64>, Vec<i64>) {
        let ends = packed.ends.iter().map(|end| usize::try_from(*end).unwrap());
        unpack_maps(&packed.data, &ends.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn rows_of_numbers() {
        let mut found = KeyRows::<u64>::default();
        found.add(&[7, 3, 7, 7], &[5, 1 << 40, 9, 9]).unwrap();
        found.add(&[7], &[u64::MAX]).unwrap();
        found.add(&[7, 3], &[0, 2]).unwrap();
        found.add_nulls(&[4]);
        assert_eq!(found.num_keys(), 2);
        assert!(found.add(&[7], &[]).is_err());
        found.sort();
        let nulls = found.take_nulls().unwrap().unwrap();
        assert_eq!(rows_of(&nulls), (vec![4], vec![0, 1]));
        assert!(found.take_nulls().unwrap().is_none());
        let (keys, packed) = found.take(1).unwrap();
        assert_eq!(keys, [3]);
        assert_eq!(rows_of(&packed), (vec![2, 1 << 40], vec![0, 2]));
        let (keys, packed) = found.take(1 << 20).unwrap();
        assert_eq!(keys, [7]);
        assert_eq!(rows_of(&packed), (vec![0, 5, 9, u64::MAX], vec![0, 4]));
        assert!(found.take(1).unwrap().0.is_empty());
    }

    #[test]
    fn rows_of_strings() {
        let mut found = KeyRows::<Box<[u8]>>::default();
        let offsets = OffsetsIn::Small(&[1, 2, 2, 4]);
        found.add(offsets, b"xbab", &[1, 2, 3]).unwrap();
        found.sort();
        let (keys, packed) = found.take(1 << 20).unwrap();
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        assert_eq!(keys, [b"".as_slice(), b"ab", b"b"]);
        assert_eq!(rows_of(&packed), (vec![2, 3, 1], vec![0, 1, 2, 3]));
        let outside = OffsetsIn::Small(&[0, 9]);
        assert!(
            KeyRows::<Box<[u8]>>::default()
                .add(outside, b"a", &[1])
                .is_err()
        );
    }
}
