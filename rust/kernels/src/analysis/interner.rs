//! Strings with numbers, in the order in which they came.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::error::{Result, out_of_range};

/// Different strings, numbered from 0.
#[derive(Default)]
pub struct Interner {
    data: Vec<u8>,
    /// Where each string ends in `data`.
    ends: Vec<usize>,
    numbers: HashTable<u32>,
    hasher: RandomState,
}

impl Interner {
    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of the strings, and some for each.
    pub fn used_bytes(&self) -> usize {
        self.data.len() + self.ends.len() * 16
    }

    /// Bytes of memory that are reserved.
    pub fn size_bytes(&self) -> usize {
        self.data.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.numbers.allocation_size()
    }

    /// The bytes of a string; empty if there is none of this number.
    pub fn get(&self, number: u32) -> &[u8] {
        get(&self.data, &self.ends, number)
    }

    /// The number of a string.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        let same = |&number: &u32| self.get(number) == text;
        self.numbers.find(self.hasher.hash_one(text), same).copied()
    }

    /// The number of a string, which is added if it is new, and whether it is.
    pub fn add(&mut self, text: &[u8]) -> Result<(u32, bool)> {
        if let Some(number) = self.find(text) {
            return Ok((number, false));
        }
        let number = u32::try_from(self.ends.len())
            .ok()
            .filter(|number| *number < u32::MAX)
            .ok_or_else(|| out_of_range("number of a token"))?;
        self.data.extend_from_slice(text);
        self.ends.push(self.data.len());
        let (data, ends, hasher) = (&self.data, &self.ends, &self.hasher);
        let hash = hasher.hash_one(text);
        self.numbers.insert_unique(hash, number, |&number| {
            hasher.hash_one(get(data, ends, number))
        });
        Ok((number, true))
    }

    /// Forgets all strings.
    pub fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
        self.numbers.clear();
    }

    /// The numbers in the order of the strings' bytes.
    pub fn sorted(&self) -> Result<Vec<u32>> {
        let count = u32::try_from(self.len()).map_err(|_| out_of_range("number of tokens"))?;
        let mut numbers: Vec<u32> = (0..count).collect();
        numbers.sort_unstable_by(|&a, &b| self.get(a).cmp(self.get(b)));
        Ok(numbers)
    }
}

fn get<'a>(data: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let bounds = usize::try_from(number).ok().and_then(|at| {
        let start = at
            .checked_sub(1)
            .map_or(Some(0), |last| ends.get(last).copied());
        Some(start?..*ends.get(at)?)
    });
    bounds
        .and_then(|bounds| data.get(bounds))
        .unwrap_or_default()
}
