//! Serialized sets of rows: Roaring bitmaps of 32 bits, one for each upper half of rows.
//!
//! ```text
//! Form::Set    u64 count | u32 upper half, bitmap            | …
//! Form::Map    u32 count | u32 upper half, u32 bytes, bitmap | …
//! ```
//!
//! Rows in ascending order are written one container of 65,536 rows at a time, so that those of a
//! large set are never in memory together. This also takes a third of the time.

use roaring::RoaringTreemap;

use crate::error::{Corrupt, Result, out_of_range, signed};
use crate::row_run::Run;

/// The first word of a bitmap that has no runs.
const WITHOUT_RUNS: u32 = 12346;
/// Most rows of a container that is a list.
const MAX_LISTED: usize = 4096;

/// How a set is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Set,
    Map,
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
    /// Adds the set of rows in any order.
    pub fn push_rows(&mut self, form: Form, rows: &[u64]) -> Result<()> {
        if rows.is_sorted_by(|one, next| one < next) {
            self.push_ascending(form, rows.iter().copied())
        } else {
            self.push(form, &rows.iter().copied().collect())
        }
    }

    /// Adds the set of rows that were collected.
    pub fn push_run(&mut self, form: Form, run: &Run) -> Result<()> {
        if run.is_ascending() {
            self.push_ascending(form, run.rows())
        } else {
            self.push(form, &run.rows().collect())
        }
    }

    /// Adds a set.
    pub fn push(&mut self, form: Form, rows: &RoaringTreemap) -> Result<()> {
        let start = self.begin(form);
        let mut count = 0_u32;
        for (upper, bitmap) in rows.bitmaps() {
            count += 1;
            self.push_bitmap(form, upper, |out| {
                let written = bitmap.serialize_into(out);
                written.map_err(|error| Corrupt(format!("a set of rows: {error}")))
            })?;
        }
        self.end(start, count)
    }

    /// Adds the set of rows in ascending order.
    fn push_ascending(&mut self, form: Form, rows: impl Iterator<Item = u64>) -> Result<()> {
        let start = self.begin(form);
        let (mut count, mut last, mut bitmap) = (0_u32, None, Bitmap::default());
        for row in rows {
            let upper = low_u32(row >> 32);
            if let Some(before) = last.replace(upper).filter(|before| *before != upper) {
                count += 1;
                self.push_bitmap(form, before, |out| bitmap.write(out))?;
            }
            bitmap.add(low_u32(row))?;
        }
        if let Some(upper) = last {
            count += 1;
            self.push_bitmap(form, upper, |out| bitmap.write(out))?;
        }
        self.end(start, count)
    }

    /// Begins a set; returns where its number of bitmaps is.
    fn begin(&mut self, form: Form) -> usize {
        let start = self.data.len();
        let bytes = match form {
            Form::Set => 8,
            Form::Map => 4,
        };
        self.data.resize(start + bytes, 0);
        start
    }

    fn end(&mut self, start: usize, count: u32) -> Result<()> {
        self.replace(start, count);
        self.ends.push(signed(self.data.len(), "sets of rows")?);
        Ok(())
    }

    fn push_bitmap(
        &mut self,
        form: Form,
        upper: u32,
        write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        self.data.extend(upper.to_le_bytes());
        if form == Form::Set {
            return write(&mut self.data);
        }
        let start = self.data.len();
        self.data.extend([0; 4]); // the size, when it is known
        write(&mut self.data)?;
        let size = u32_of(self.data.len() - start - 4)?;
        self.replace(start, size);
        Ok(())
    }

    fn replace(&mut self, start: usize, number: u32) {
        if let Some(place) = self.data.get_mut(start..start + 4) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }
}

/// A bitmap of 32 bits in the portable format, of numbers that are added in ascending order.
#[derive(Debug, Default)]
struct Bitmap {
    /// The upper half of each container, and its number of rows minus 1.
    heads: Vec<(u16, u16)>,
    containers: Vec<u8>,
    /// The upper half of the last container, and its lower halves.
    key: u16,
    lows: Vec<u16>,
}

impl Bitmap {
    #[inline]
    fn add(&mut self, number: u32) -> Result<()> {
        let key = low_u16(number >> 16);
        if key != self.key {
            self.finish_container()?;
            self.key = key;
        }
        self.lows.push(low_u16(number));
        Ok(())
    }

    fn finish_container(&mut self) -> Result<()> {
        let Some(last) = self.lows.len().checked_sub(1) else {
            return Ok(());
        };
        let last = u16::try_from(last).map_err(|_| out_of_range("a set of rows"))?;
        self.heads.push((self.key, last));
        if self.lows.len() <= MAX_LISTED {
            let bytes = self.lows.iter().flat_map(|low| low.to_le_bytes());
            self.containers.extend(bytes);
        } else {
            let mut words = [0_u64; 1024];
            for &low in &self.lows {
                if let Some(word) = words.get_mut(usize::from(low / 64)) {
                    *word |= 1 << (low % 64);
                }
            }
            let bytes = words.iter().flat_map(|word| word.to_le_bytes());
            self.containers.extend(bytes);
        }
        self.lows.clear();
        Ok(())
    }

    /// Appends the bitmap, and begins the next one.
    fn write(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.finish_container()?;
        let count = u32_of(self.heads.len())?;
        out.extend(WITHOUT_RUNS.to_le_bytes());
        out.extend(count.to_le_bytes());
        for (key, last) in &self.heads {
            out.extend(key.to_le_bytes());
            out.extend(last.to_le_bytes());
        }
        let mut at = 8 + 8 * count;
        for (_, last) in &self.heads {
            out.extend(at.to_le_bytes());
            at += u32_of(container_bytes(usize::from(*last) + 1))?;
        }
        out.append(&mut self.containers);
        self.heads.clear();
        Ok(())
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ascending_rows_are_written_as_the_library_does() {
        let dense = (60_000..80_000).chain(200_000..200_003);
        let rows: Vec<u64> = dense.chain((5 << 32)..(5 << 32) + 9).collect();
        for rows in [&rows[..], &[], &[u64::MAX], &[0, 65_535, 65_536, 1 << 32]] {
            let treemap: RoaringTreemap = rows.iter().copied().collect();
            let mut run = Run::default();
            rows.iter().for_each(|row| run.push(*row));
            assert!(run.is_ascending());
            for form in [Form::Set, Form::Map] {
                let mut packed = Packed::default();
                packed.push(form, &treemap).unwrap();
                packed.push_rows(form, rows).unwrap();
                packed.push_run(form, &run).unwrap();
                let mut sets = packed.data.chunks(packed.data.len() / 3);
                let first = sets.next();
                assert!(sets.all(|one| Some(one) == first));
            }
            let mut expected = Vec::new();
            treemap.serialize_into(&mut expected).unwrap();
            let mut packed = Packed::default();
            packed.push_rows(Form::Set, rows).unwrap();
            assert_eq!(packed.data, expected);
        }
    }

    #[test]
    fn rows_in_any_order() {
        let mut run = Run::default();
        [9, 9, 3, 1 << 40, 3].iter().for_each(|row| run.push(*row));
        assert!(!run.is_ascending());
        let (mut packed, mut expected) = (Packed::default(), Packed::default());
        packed.push_run(Form::Map, &run).unwrap();
        expected.push_rows(Form::Map, &[3, 9, 1 << 40]).unwrap();
        assert_eq!(packed.data, expected.data);
    }
}
