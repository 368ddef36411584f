//! What the fragments of a manifest have in common, found without building them.
//!
//!     Manifest    … ┃ 0x12, length, fragment ┃ 0x12, length, fragment ┃ …
//!     fragment    1 id   2 files …   3 deletion file   4 rows   5, 6, 12 row ids   …
//!     file        1 path   2 fields   3 columns   4, 5 version   6 size   7 base
//!
//! Keys are `number << 3 | kind`, with the kinds of protobuf: 0 varint, 1 eight bytes, 2 bytes after
//! their length, 3 and 4 begin and end of a group, 5 four bytes. As there, the last one of several
//! values counts. A fragment that has anything else than what is listed here, or something that is
//! never valid, is [`ODD`]: to be judged by someone who knows the whole format.

use std::collections::HashSet;
use std::ops::Range;

use crate::error::{Corrupt, Result, part, signed, size};

/// The flags of a fragment.
pub const ODD: u8 = 1;
pub const HAS_DELETIONS: u8 = 2;
pub const HAS_DELETIONS_ELSEWHERE: u8 = 4;
pub const HAS_OVERLAYS: u8 = 8;
pub const HAS_ROW_IDS: u8 = 16;
pub const HAS_HIDDEN_COLUMNS: u8 = 32;

/// The fragments of a manifest, each member with an item for each fragment, except the last one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Where the key of the fragment lies.
    pub starts: Vec<i64>,
    pub ends: Vec<i64>,
    pub ids: Vec<u64>,
    pub rows: Vec<u64>,
    pub deleted: Vec<u64>,
    pub flags: Vec<u8>,
    /// The first fragment with each list of fields, columns, version and base of a file.
    pub samples: Vec<i64>,
}

/// Surveys the message of a manifest.
pub fn survey(message: &[u8]) -> Result<Survey> {
    let mut found = Survey::default();
    let mut layouts = Layouts::default();
    let mut fields = Fields::of(message);
    while let Some(field) = fields.next()? {
        let (2, Value::Bytes(body)) = (field.number, field.value) else {
            continue;
        };
        let fragment = Fragment::of(body, &mut layouts);
        if layouts.is_new {
            found
                .samples
                .push(signed(found.ids.len(), "number of fragments")?);
        }
        layouts.is_new = false;
        found.starts.push(signed(field.place.start, "fragment")?);
        found.ends.push(signed(field.place.end, "fragment")?);
        found.ids.push(fragment.id);
        found.rows.push(fragment.rows);
        found.deleted.push(fragment.deleted);
        found.flags.push(fragment.flags);
    }
    Ok(found)
}

#[derive(Default)]
struct Fragment {
    id: u64,
    rows: u64,
    deleted: u64,
    flags: u8,
}

impl Fragment {
    fn of<'a>(body: &'a [u8], layouts: &mut Layouts<'a>) -> Self {
        let mut found = Self::default();
        if !matches!(found.read(body, layouts), Ok(true)) {
            found.flags |= ODD;
        }
        found
    }

    /// Returns whether all of it is usual.
    fn read<'a>(&mut self, body: &'a [u8], layouts: &mut Layouts<'a>) -> Result<bool> {
        let mut is_usual = true;
        let mut sequences = [0_u64; 3];
        layouts.paths.clear();
        let mut fields = Fields::of(body);
        while let Some(field) = fields.next()? {
            is_usual &= match (field.number, field.value) {
                (1, Value::Number(id)) => {
                    self.id = id;
                    true
                }
                (2, Value::Bytes(file)) => layouts.add(file)?,
                (3, Value::Bytes(file)) => {
                    self.flags |= HAS_DELETIONS;
                    self.read_deletions(file)?
                }
                (4, Value::Number(rows)) => {
                    self.rows = rows;
                    true
                }
                (number @ (5 | 6 | 12), Value::Bytes(body)) => {
                    sequences[0] = number;
                    number == 5 || body.is_empty()
                }
                (number @ (7 | 8 | 13), Value::Bytes(body)) => {
                    sequences[1] = number;
                    number == 7 || body.is_empty()
                }
                (number @ (9 | 10 | 14), Value::Bytes(body)) => {
                    sequences[2] = number;
                    number == 9 || body.is_empty()
                }
                (11, Value::Bytes(_)) => {
                    self.flags |= HAS_OVERLAYS;
                    false
                }
                _ => false,
            };
        }
        if sequences[0] != 0 {
            self.flags |= HAS_ROW_IDS;
        }
        if sequences.iter().any(|arm| matches!(arm, 12..=14)) {
            self.flags |= HAS_HIDDEN_COLUMNS;
        }
        Ok(is_usual && layouts.paths_differ())
    }

    fn read_deletions(&mut self, body: &[u8]) -> Result<bool> {
        let mut is_usual = true;
        let mut fields = Fields::of(body);
        while let Some(field) = fields.next()? {
            let Value::Number(number) = field.value else {
                is_usual = false;
                continue;
            };
            match field.number {
                1 => is_usual &= number <= 1,
                2 | 3 => {}
                4 => self.deleted = number,
                7 => self.flags |= HAS_DELETIONS_ELSEWHERE,
                _ => is_usual = false,
            }
        }
        Ok(is_usual)
    }
}

/// The different files so far, regardless of their paths and sizes.
#[derive(Default)]
struct Layouts<'a> {
    known: HashSet<Vec<u8>>,
    /// That of the last file.
    last: Vec<u8>,
    /// That of this file.
    this: Vec<u8>,
    /// The files of one fragment.
    paths: Vec<(&'a [u8], Option<u64>)>,
    is_new: bool,
}

impl<'a> Layouts<'a> {
    /// Takes in the file of a fragment; returns whether all of it is usual.
    fn add(&mut self, body: &'a [u8]) -> Result<bool> {
        let mut is_usual = true;
        let (mut path, mut base): (&[u8], _) = (&[], None);
        self.this.clear();
        let mut fields = Fields::of(body);
        while let Some(field) = fields.next()? {
            match (field.number, field.value) {
                (1, Value::Bytes(text)) => {
                    path = text;
                    continue;
                }
                (6, Value::Number(_)) => continue,
                (2 | 3, Value::Bytes(packed)) => is_usual &= are_varints(packed),
                (7, Value::Number(number)) => base = Some(number),
                (2..=5, Value::Number(_)) => {}
                _ => is_usual = false,
            }
            self.this.extend(part(
                body,
                field.place.start,
                field.place.len(),
                "field of a file",
            )?);
        }
        if self.this != self.last || self.known.is_empty() {
            self.last.clone_from(&self.this);
            if !self.known.contains(&self.this) {
                self.known.insert(self.this.clone());
                self.is_new = true;
            }
        }
        self.paths.push((path, base));
        Ok(is_usual && is_usual_path(path))
    }

    /// Returns whether there are files, all of them different.
    fn paths_differ(&self) -> bool {
        match self.paths.as_slice() {
            [] => false,
            [_] => true,
            paths => {
                let mut sorted = paths.to_vec();
                sorted.sort_unstable();
                sorted.windows(2).all(|pair| pair.first() != pair.last())
            }
        }
    }
}

fn is_usual_path(path: &[u8]) -> bool {
    !path.is_empty()
        && !path.contains(&0)
        && std::str::from_utf8(path).is_ok_and(|text| !text.contains(".."))
}

/// Returns whether bytes are nothing but varints.
fn are_varints(packed: &[u8]) -> bool {
    let mut run = 0;
    for byte in packed {
        run = if byte & 0x80 == 0 { 0 } else { run + 1 };
        if run >= 10 {
            return false;
        }
    }
    run == 0
}

struct Field<'a> {
    number: u64,
    value: Value<'a>,
    /// Where its key and value lie.
    place: Range<usize>,
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a kind that no field of interest has.
    Other,
}

/// The fields of a message, in the order of its bytes.
struct Fields<'a> {
    message: &'a [u8],
    place: usize,
}

impl<'a> Fields<'a> {
    fn of(message: &'a [u8]) -> Self {
        Self { message, place: 0 }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<Field<'a>>> {
        let start = self.place;
        if start >= self.message.len() {
            return Ok(None);
        }
        let mut depth = 0_usize;
        loop {
            let key = self.varint()?;
            let (number, kind) = (key >> 3, key & 7);
            if number == 0 || key > u64::from(u32::MAX) {
                return Err(Corrupt(format!("a field has the key {key}")));
            }
            let value = match kind {
                0 => Value::Number(self.varint()?),
                1 => self.skip(8)?,
                2 => {
                    let length = size(self.varint()?, "length of a field")?;
                    Value::Bytes(self.bytes(length)?)
                }
                3 => {
                    depth += 1;
                    Value::Other
                }
                4 if depth > 0 => {
                    depth -= 1;
                    Value::Other
                }
                5 => self.skip(4)?,
                _ => return Err(Corrupt(format!("field {number} is of kind {kind}"))),
            };
            if depth == 0 {
                // The end of a group has the number of its begin; `Other` says it all.
                let place = start..self.place;
                return Ok(Some(Field {
                    number,
                    value,
                    place,
                }));
            }
        }
    }

    fn skip(&mut self, count: usize) -> Result<Value<'a>> {
        self.bytes(count).map(|_| Value::Other)
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let bytes = part(self.message, self.place, count, "bytes of a field")?;
        self.place += count;
        Ok(bytes)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64> {
        if let Some(&byte) = self.message.get(self.place)
            && byte < 0x80
        {
            self.place += 1;
            return Ok(u64::from(byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64> {
        let mut number = 0_u64;
        for shift in (0..70).step_by(7) {
            let [byte] = self.bytes(1)? else { break };
            number |= u64::from(byte & 0x7f)
                .checked_shl(shift)
                .unwrap_or_default();
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Corrupt("a varint of more than 10 bytes".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    /// A field of bytes.
    fn bytes(number: u8, body: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(body.len()).unwrap()], body].concat()
    }

    #[test]
    fn fragments_of_a_manifest() {
        let file = |path: &[u8]| bytes(2, &[bytes(1, path), bytes(2, &[0, 1])].concat());
        let one = [vec![8, 7, 32, 9], file(b"a")].concat();
        let two = [file(b"a"), file(b"b"), vec![26, 2, 32, 3, 98, 0]].concat();
        let message = [
            bytes(1, b"x"),
            bytes(2, &one),
            vec![24, 5],
            bytes(2, &two),
            bytes(2, &[file(b"a"), file(b"a")].concat()),
        ]
        .concat();
        let found = survey(&message).unwrap();
        assert_eq!((found.starts[0], found.ends[0]), (3, 3 + 2 + 13));
        assert_eq!(found.ids, [7, 0, 0]);
        assert_eq!(found.rows, [9, 0, 0]);
        assert_eq!(found.deleted, [0, 3, 0]);
        let row_ids = HAS_ROW_IDS | HAS_HIDDEN_COLUMNS;
        assert_eq!(found.flags, [0, HAS_DELETIONS | row_ids, ODD]);
        assert_eq!(found.samples, [0]);
        for end in 0..message.len() {
            let _ = survey(&message[..end]);
        }
        assert!(survey(&[0]).is_err());
        assert!(survey(&[0xff; 11]).is_err());
        assert_eq!(survey(&[0x0b, 0x08, 1, 0x0c]).unwrap(), Survey::default());
        assert!(survey(&[0x0b, 0x08, 1]).is_err());
    }
}
