//! Strings by their index in a dictionary.

use pulp::Arch;

use crate::dictionary_places::Places;
use crate::error::{Corrupt, Result, ensure, out_of_range, part};
use crate::offsets::{Offsets, OffsetsIn};
use crate::values::Values;
use crate::views::{View, view_at};

/// Strings of up to this many bytes are copied as whole words, if the dictionary has no longer one.
const SHORT: usize = 16;
/// The same for the short strings of other dictionaries.
const MEDIUM: usize = 32;

/// Of a dictionary with this many strings per row, only those that rows name are looked at.
const FEW: usize = 4;

/// Looks up one string per index; nulls become empty and may hold any index.
///
/// Indices are little-endian, of 1, 2, 4 or 8 bytes.
pub fn strings(
    indices: &[u8],
    width: usize,
    validity: Option<&[u8]>,
    offsets: OffsetsIn<'_>,
    data: &[u8],
) -> Result<Values> {
    let rows = Rows { indices, validity };
    if indices.len() / width.max(1) < offsets.count() / FEW {
        return match width {
            1 => rows.look_up_few::<1>(offsets, data),
            2 => rows.look_up_few::<2>(offsets, data),
            4 => rows.look_up_few::<4>(offsets, data),
            8 => rows.look_up_few::<8>(offsets, data),
            _ => Err(unknown_width(width)),
        };
    }
    let longest = longest(offsets)?;
    match width {
        1 => rows.look_up::<1>(offsets, data, longest),
        2 => rows.look_up::<2>(offsets, data, longest),
        4 => rows.look_up::<4>(offsets, data, longest),
        8 => rows.look_up::<8>(offsets, data, longest),
        _ => Err(unknown_width(width)),
    }
}

/// Looks up one string per index, as `strings`; returns views of the strings in `data`.
pub fn views(
    indices: &[u8],
    width: usize,
    validity: Option<&[u8]>,
    offsets: OffsetsIn<'_>,
    data: &[u8],
) -> Result<Vec<u8>> {
    let rows = Rows { indices, validity };
    match width {
        1 => rows.views::<1>(offsets, data),
        2 => rows.views::<2>(offsets, data),
        4 => rows.views::<4>(offsets, data),
        8 => rows.views::<8>(offsets, data),
        _ => Err(unknown_width(width)),
    }
}

fn unknown_width(width: usize) -> Corrupt {
    Corrupt(format!("dictionary indices of {width} bytes"))
}

/// Bytes of the longest string.
fn longest(offsets: OffsetsIn<'_>) -> Result<usize> {
    let length = |index| Ok(offsets.get(index + 1)?.saturating_sub(offsets.get(index)?));
    (0..offsets.count()).try_fold(0, |most, index| Ok(length(index)?.max(most)))
}

/// A string of the dictionary; `block` begins with all of it if it is short.
#[derive(Clone, Copy)]
struct Entry<const S: usize> {
    block: [u8; S],
    start: usize,
    length: u32,
}

impl<const S: usize> Entry<S> {
    const EMPTY: Self = Self {
        block: [0; S],
        start: 0,
        length: 0,
    };
}

/// The strings of the dictionary, and then an empty one for null.
fn entries<const S: usize>(offsets: OffsetsIn<'_>, data: &[u8]) -> Result<Vec<Entry<S>>> {
    let strings = (0..offsets.count()).map(|index| {
        let (start, end) = (offsets.get(index)?, offsets.get(index + 1)?);
        let ordered = start <= end && end <= data.len();
        ensure(
            ordered,
            "dictionary offset",
            end,
            format_args!("{start} to {}", data.len()),
        )?;
        let length = u32::try_from(end - start);
        let mut entry = Entry {
            start,
            length: length.map_err(|_| no_room(end - start))?,
            ..Entry::EMPTY
        };
        let string = part(data, start, end - start, "dictionary string")?;
        let kept = entry.block.iter_mut().zip(string);
        kept.for_each(|(to, from)| *to = *from);
        Ok(entry)
    });
    strings.chain(std::iter::once(Ok(Entry::EMPTY))).collect()
}

/// Indices of rows, of which those that are null have no meaning.
struct Rows<'a> {
    indices: &'a [u8],
    validity: Option<&'a [u8]>,
}

/// Rows that are looked up together.
const BLOCK: usize = 1024;

impl Rows<'_> {
    /// Looks up all rows; nothing but the result has the size of the rows.
    fn look_up<const N: usize>(
        &self,
        offsets: OffsetsIn<'_>,
        data: &[u8],
        longest: usize,
    ) -> Result<Values> {
        if longest <= SHORT {
            self.look_up_short::<N, SHORT>(offsets, data, longest)
        } else if longest <= MEDIUM {
            self.look_up_short::<N, MEDIUM>(offsets, data, longest)
        } else {
            self.look_up_long::<N>(offsets, data)
        }
    }

    /// Looks up rows in a dictionary of strings of at most S bytes.
    ///
    /// A block is filled in the cache of the processor, where each string overwrites what its
    /// predecessor has too many, and is then copied to the result.
    fn look_up_short<const N: usize, const S: usize>(
        &self,
        offsets: OffsetsIn<'_>,
        data: &[u8],
        longest: usize,
    ) -> Result<Values> {
        let entries = entries::<S>(offsets, data)?;
        let num_rows = self.indices.len() / N;
        // Memory is committed when it is written to, so an overestimate costs nothing.
        let most = num_rows.saturating_mul(longest);
        let mut strings = Vec::new();
        strings.try_reserve_exact(most).map_err(|_| no_room(most))?;
        let mut ends = Offsets::with_capacity(8 * offsets.width(), num_rows)?;
        let (mut block, mut of_block) = (vec![0; (BLOCK + 1) * S], [0; BLOCK]);
        self.each_block::<N>(offsets.count(), |places| {
            let filled = fill(&entries, places, &mut block, &mut of_block).ok_or_else(missing)?;
            let ends_here = part(&of_block, 0, places.len(), "dictionary strings")?;
            ends.extend_after(strings.len(), ends_here, filled)?;
            strings.extend_from_slice(part(&block, 0, filled, "dictionary strings")?);
            Ok(())
        })?;
        Ok(Values::Variable {
            offsets: ends,
            data: strings,
        })
    }

    /// Looks up rows in a dictionary with strings of any length.
    fn look_up_long<const N: usize>(&self, offsets: OffsetsIn<'_>, data: &[u8]) -> Result<Values> {
        let entries = entries::<MEDIUM>(offsets, data)?;
        let mut total = 0usize;
        self.each_block::<N>(offsets.count(), |places| {
            let lengths = places.iter().map(|&place| at(&entries, place));
            let lengths = lengths.map(|entry| entry.map_or(0, |entry| entry.length as usize)); // all exist
            total = total.saturating_add(lengths.sum());
            Ok(())
        })?;
        let mut strings = Filled::<MEDIUM>::new(total)?;
        let mut ends = Offsets::with_capacity(8 * offsets.width(), self.indices.len() / N)?;
        self.each_block::<N>(offsets.count(), |places| {
            let of_block = places.iter().map(|&place| match at(&entries, place) {
                Some(entry) => strings.push(entry, data),
                None => strings.refuse(),
            });
            ends.extend(of_block, total)
        })?;
        Ok(Values::Variable {
            offsets: ends,
            data: strings.finish(total)?,
        })
    }

    /// Looks up the view of each row.
    fn views<const N: usize>(&self, offsets: OffsetsIn<'_>, data: &[u8]) -> Result<Vec<u8>> {
        let num_rows = self.indices.len() / N;
        let mut views = Vec::with_capacity(num_rows);
        if num_rows < offsets.count() / FEW {
            self.each_block::<N>(offsets.count(), |places| {
                for &place in places {
                    views.push(match place as usize {
                        index if index < offsets.count() => view_at(offsets, index, data)?,
                        _ => View::default(),
                    });
                }
                Ok(())
            })?;
        } else {
            let strings = (0..offsets.count()).map(|index| view_at(offsets, index, data));
            let entries = strings.collect::<Result<Vec<_>>>()?;
            self.each_block::<N>(entries.len(), |places| {
                let known = places.iter().map(|&place| entries.get(place as usize));
                views.extend(known.map(|view| view.copied().unwrap_or_default())); // null has none
                Ok(())
            })?;
        }
        Ok(views.into_flattened())
    }

    /// Looks up rows that are fewer than the strings of the dictionary.
    fn look_up_few<const N: usize>(&self, offsets: OffsetsIn<'_>, data: &[u8]) -> Result<Values> {
        let string = |place: &u32| match *place as usize {
            index if index < offsets.count() => offsets.value(data, index, "dictionary string"),
            _ => Ok(&[] as &[u8]),
        };
        let mut strings = Vec::new();
        let mut ends = Offsets::with_capacity(8 * offsets.width(), self.indices.len() / N)?;
        self.each_block::<N>(offsets.count(), |places| {
            let mut of_block = Vec::with_capacity(places.len());
            for place in places {
                let string = string(place)?;
                strings
                    .try_reserve(string.len())
                    .map_err(|_| no_room(strings.len()))?;
                strings.extend_from_slice(string);
                of_block.push(strings.len());
            }
            ends.extend(of_block.into_iter(), strings.len())
        })?;
        Ok(Values::Variable {
            offsets: ends,
            data: strings,
        })
    }

    /// Calls a function with the places of rows in the entries, block by block: the index, or the
    /// number of strings for null.
    fn each_block<const N: usize>(
        &self,
        num_strings: usize,
        mut of_block: impl FnMut(&[u32]) -> Result<()>,
    ) -> Result<()> {
        let (words, _) = self.indices.as_chunks::<N>();
        let mut places = [0; BLOCK];
        for (number, words) in words.chunks(BLOCK).enumerate() {
            let places = places.get_mut(..words.len()).ok_or_else(missing)?;
            let most = Arch::new().dispatch(Places {
                words,
                first: number * BLOCK,
                validity: self.validity,
                null: u32::try_from(num_strings).unwrap_or(u32::MAX),
                places,
            });
            if most.is_some_and(|most| most as usize >= num_strings) {
                let index = most.unwrap_or_default();
                return Err(Corrupt(format!(
                    "dictionary index {index}: the dictionary has {num_strings} values"
                )));
            }
            of_block(places)?;
        }
        Ok(())
    }
}

#[inline]
fn at<const S: usize>(entries: &[Entry<S>], place: u32) -> Option<&Entry<S>> {
    entries.get(place as usize)
}

/// Writes short strings one after the other, each over what its predecessor has too many, and
/// where each of them ends; returns where the last one does, or None without room for them.
fn fill<const S: usize>(
    entries: &[Entry<S>],
    places: &[u32],
    block: &mut [u8],
    ends: &mut [u32],
) -> Option<usize> {
    let mut filled = 0u32;
    for (end, &place) in ends.iter_mut().zip(places) {
        let entry = at(entries, place)?;
        *block.get_mut(filled as usize..)?.first_chunk_mut()? = entry.block;
        filled = filled.wrapping_add(entry.length); // at most S: the next one is within the block
        *end = filled;
    }
    Some(filled as usize)
}

/// Adjacent strings, of which those of up to S bytes are copied as whole words.
struct Filled<const S: usize> {
    bytes: Vec<u8>,
    filled: usize,
    fits: bool,
}

impl<const S: usize> Filled<S> {
    /// Reserves room for some bytes: few rows may name a long string many times.
    fn new(total: usize) -> Result<Self> {
        let size = total.saturating_add(S);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| no_room(size))?;
        bytes.resize(size, 0);
        Ok(Self {
            bytes,
            filled: 0,
            fits: true,
        })
    }

    /// Notes that a string could not be appended.
    #[cold]
    fn refuse(&mut self) -> usize {
        self.fits = false;
        self.filled
    }

    /// Appends a short string, and bytes that the next one overwrites; returns where it ends.
    #[inline(always)]
    fn push_short(&mut self, entry: &Entry<S>) -> usize {
        let slot = self.bytes.get_mut(self.filled..);
        match slot.and_then(|free| free.first_chunk_mut()) {
            Some(slot) => *slot = entry.block,
            None => return self.refuse(),
        }
        self.filled += entry.length as usize;
        self.filled
    }

    /// Appends a string; returns where it ends.
    #[inline]
    fn push(&mut self, entry: &Entry<S>, data: &[u8]) -> usize {
        let length = entry.length as usize;
        if length <= S {
            return self.push_short(entry);
        }
        let end = self.filled + length;
        let from = data.get(entry.start..entry.start + length);
        match self.bytes.get_mut(self.filled..end).zip(from) {
            Some((slot, from)) => slot.copy_from_slice(from),
            None => return self.refuse(),
        }
        self.filled = end;
        end
    }

    /// The strings, which have `total` bytes.
    fn finish(mut self, total: usize) -> Result<Vec<u8>> {
        let is_filled = self.fits && self.filled == total;
        ensure(is_filled, "dictionary strings, bytes", self.filled, total)?;
        self.bytes.truncate(total);
        Ok(self.bytes)
    }
}

fn no_room(size: usize) -> Corrupt {
    Corrupt(format!(
        "strings of a dictionary, bytes: no room for {size}"
    ))
}

fn missing() -> Corrupt {
    out_of_range("dictionary string")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn short_long_empty_and_null() {
        let long = "x".repeat(40);
        let data = format!("ab{long}c");
        let offsets = OffsetsIn::Small(&[0, 2, 42, 42, 43]);
        let indices: Vec<u8> = [1i32, 0, 2, 9, 3]
            .iter()
            .flat_map(|i| i.to_le_bytes())
            .collect();
        let made = strings(&indices, 4, Some(&[0b1_0111]), offsets, data.as_bytes()).unwrap();
        let Values::Variable {
            offsets: Offsets::Small(offsets),
            data,
        } = made
        else {
            panic!()
        };
        assert_eq!(offsets, [0, 40, 42, 42, 42, 43]);
        assert_eq!(data, format!("{long}abc").as_bytes());
        assert!(strings(&indices, 4, None, OffsetsIn::Small(&[0, 1]), b"a").is_err());
    }

    #[test]
    fn rows_of_several_blocks_of_every_width() {
        for longest in [9, SHORT, SHORT + 1, MEDIUM, MEDIUM + 1] {
            let words: Vec<String> = (0..5).map(|n| "xyzab"[..n].to_string()).collect();
            let words = [words, vec!["w".repeat(longest)]].concat();
            let mut ends = vec![0i64];
            for word in &words {
                ends.push(ends.last().unwrap() + i64::try_from(word.len()).unwrap());
            }
            for (width, rows) in [(1, 0), (2, BLOCK), (4, BLOCK + 1), (8, 2 * BLOCK + 77)] {
                let row = |row: usize| {
                    if row % 7 == 6 {
                        200
                    } else {
                        row * row % words.len()
                    }
                };
                let indices: Vec<u8> = (0..rows)
                    .flat_map(|n| row(n).to_le_bytes().into_iter().take(width))
                    .collect();
                let mut valid = vec![0u8; rows.div_ceil(8)];
                for row in (0..rows).filter(|row| row % 7 != 6) {
                    valid[row / 8] |= 1 << (row % 8);
                }
                let (offsets, data) = (OffsetsIn::Large(&ends), words.concat());
                let found = strings(&indices, width, Some(&valid), offsets, data.as_bytes());
                let Values::Variable {
                    offsets: Offsets::Large(found),
                    data: bytes,
                } = found.unwrap()
                else {
                    panic!()
                };
                let text = |n: usize| words.get(row(n)).map_or("", String::as_str);
                assert_eq!(bytes, (0..rows).map(text).collect::<String>().as_bytes());
                let lengths: Vec<i64> = found.windows(2).map(|pair| pair[1] - pair[0]).collect();
                let expected = (0..rows).map(|n| i64::try_from(text(n).len()).unwrap());
                assert_eq!(lengths, expected.collect::<Vec<_>>());
                let unknown = strings(&indices, width, None, offsets, data.as_bytes());
                assert_eq!(unknown.is_err(), rows > 0);
            }
        }
    }

    #[test]
    fn few_rows_of_a_large_dictionary() {
        let words: Vec<String> = (0..100).map(|n| "w".repeat(n % 40)).collect();
        let mut ends = vec![0i32];
        for word in &words {
            ends.push(ends.last().unwrap() + i32::try_from(word.len()).unwrap());
        }
        let (offsets, data) = (OffsetsIn::Small(&ends), words.concat());
        for width in [1, 2, 4, 8] {
            let rows = [99u64, 0, 200, 57];
            let indices: Vec<u8> = rows
                .iter()
                .flat_map(|row| row.to_le_bytes().into_iter().take(width))
                .collect();
            let found = strings(&indices, width, Some(&[0b1011]), offsets, data.as_bytes());
            let Values::Variable {
                offsets: Offsets::Small(found),
                data: bytes,
            } = found.unwrap()
            else {
                panic!()
            };
            assert_eq!(found, [0, 19, 19, 19, 36]);
            assert_eq!(bytes, "w".repeat(36).as_bytes());
            assert!(strings(&indices, width, None, offsets, data.as_bytes()).is_err());
        }
        assert!(strings(&[0; 9], 3, None, offsets, data.as_bytes()).is_err());
        ends[58] = 1 << 30; // the end of string 57
        let damaged = OffsetsIn::Small(&ends);
        assert!(strings(&[57], 1, None, damaged, data.as_bytes()).is_err());
        assert!(strings(&[3], 1, None, damaged, data.as_bytes()).is_ok());
    }

    #[test]
    fn more_strings_than_memory_are_an_error() {
        let (indices, data) = (vec![0; 1 << 24], vec![0; 1 << 24]);
        let found = strings(&indices, 1, None, OffsetsIn::Large(&[0, 1 << 24]), &data);
        assert!(found.unwrap_err().to_string().contains("no room"));
    }
}
