//! Tabulates the records that repeat in a message, as a description of their members says.
//!
//!     message    … ┃ record ┃ record ┃ …             those of one number, among other values
//!     record     member ┃ inner record ┃ part ┃ part ┃ …
//!     found      its place ┃ a number for each column ┃ flags ┃ whether a part has a new layout
//!
//! All of them hold tagged values (`tagged_values.rs`). Of several values of a member the last one
//! counts. A record with a value that the description (`record_description.rs`) does not list, or
//! lists otherwise, is [`ODD`], and so is a damaged one: to be judged by someone who knows more
//! about it. What is found of an odd record may lack values.
//!
//! The layout of a part is its bytes without those of free members. The key of a part are some of
//! its members; two parts of a record with the same key are odd.

use std::collections::HashSet;
use std::ops::Range;

use crate::error::{Result, out_of_range, signed};
use crate::record_description::{Description, Form, MAX_GROUPS, Member, Scope};
use crate::tagged_values::{TaggedValues, Value, are_varints};

/// The flag of a record that is not as described.
pub const ODD: u8 = 1;

/// The records of a message, each member with an item for each record, except the last one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Where the key of the record lies.
    pub starts: Vec<i64>,
    pub ends: Vec<i64>,
    /// The numbers of each column; 0 if there is none.
    pub columns: Vec<Vec<u64>>,
    pub flags: Vec<u8>,
    /// The first record with each layout of a part.
    pub samples: Vec<i64>,
}

/// Tabulates the records of a message.
pub fn tabulate(message: &[u8], described: &Description) -> Result<Records> {
    let mut found = Records::default();
    found.columns.resize_with(described.num_columns, Vec::new);
    let mut reader = Reader::of(described);
    let record_scope = described.scope(0)?;
    let mut values = TaggedValues::of(message);
    while let Some(tagged) = values.take()? {
        let Value::Bytes(body) = tagged.value else {
            continue;
        };
        if tagged.number != described.number {
            continue;
        }
        let flags = reader.read_record(record_scope, body);
        if reader.layouts.is_new {
            let place = signed(found.flags.len(), "number of records")?;
            found.samples.push(place);
        }
        found.starts.push(signed(tagged.place.start, "record")?);
        found.ends.push(signed(tagged.place.end, "record")?);
        for (column, number) in found.columns.iter_mut().zip(&reader.numbers) {
            column.push(*number);
        }
        found.flags.push(flags);
    }
    Ok(found)
}

/// What is known of the record that is read, and of the layouts so far.
struct Reader<'d, 'a> {
    described: &'d Description,
    /// One for each column.
    numbers: Vec<u64>,
    /// The flags of each group.
    flags: [u8; MAX_GROUPS],
    /// The keys of the parts, each with its members.
    keys: Vec<Option<Value<'a>>>,
    layouts: Layouts,
}

impl<'d, 'a> Reader<'d, 'a> {
    fn of(described: &'d Description) -> Self {
        Self {
            described,
            numbers: vec![0; described.num_columns],
            flags: [0; MAX_GROUPS],
            keys: Vec::new(),
            layouts: Layouts::default(),
        }
    }

    /// Returns the flags of a record.
    fn read_record(&mut self, scope: &'d Scope, body: &'a [u8]) -> u8 {
        self.numbers.fill(0);
        self.flags.fill(0);
        self.keys.clear();
        self.layouts.is_new = false;
        let is_usual = matches!(self.read::<false>(scope, body), Ok(true)) && self.keys_differ();
        let flags = self.flags.iter().fold(0, |all, flags| all | flags);
        if is_usual { flags } else { flags | ODD }
    }

    /// Returns whether all of a record, or of a part of one, is usual.
    fn read<const IS_PART: bool>(&mut self, scope: &'d Scope, body: &'a [u8]) -> Result<bool> {
        let (mut is_usual, mut seen) = (true, 0);
        let mut values = TaggedValues::of(body);
        let mut layout_start = 0;
        while let Some(tagged) = values.take()? {
            let Some(member) = scope.member(tagged.number) else {
                is_usual = false;
                continue;
            };
            seen |= member.bit;
            is_usual &= self.take(member, tagged.value)?;
            if member.is_free && IS_PART {
                self.layouts
                    .extend(body, layout_start..tagged.place.start)?;
                layout_start = tagged.place.end;
            }
        }
        if IS_PART {
            self.layouts.extend(body, layout_start..body.len())?;
        }
        Ok(is_usual && seen & scope.required == scope.required)
    }

    fn read_part(&mut self, scope: &'d Scope, body: &'a [u8]) -> Result<bool> {
        self.layouts.this.clear();
        let num_keys = self.keys.len() + self.described.num_keys;
        self.keys.resize(num_keys, None);
        let is_usual = self.read::<true>(scope, body)?;
        self.layouts.add();
        Ok(is_usual)
    }

    /// Takes in a value; returns whether it is usual.
    #[inline(always)]
    fn take(&mut self, member: &'d Member, value: Value<'a>) -> Result<bool> {
        let is_usual = match (member.form, value) {
            (Form::Column(column), Value::Number(number)) => {
                if let Some(place) = self.numbers.get_mut(column) {
                    *place = number;
                }
                true
            }
            (Form::Number | Form::Numbers, Value::Number(_)) | (Form::Bytes, Value::Bytes(_)) => {
                true
            }
            (Form::Code(most), Value::Number(code)) => code <= most,
            (Form::Numbers, Value::Bytes(packed)) => are_varints(packed),
            (Form::Empty, Value::Bytes(bytes)) => bytes.is_empty(),
            (Form::Text, Value::Bytes(text)) => self.is_usual_text(text),
            (Form::Record(scope), Value::Bytes(body)) => {
                self.read::<false>(self.described.scope(scope)?, body)?
            }
            (Form::Part(scope), Value::Bytes(body)) => {
                self.read_part(self.described.scope(scope)?, body)?
            }
            _ => return Ok(false),
        };
        if (member.flags != 0 || member.group != 0)
            && let Some(flags) = self.flags.get_mut(member.group)
        {
            let kept = if member.group == 0 { *flags } else { 0 };
            *flags = kept | member.flags;
        }
        if let Some(key) = member.key {
            let first = self.keys.len() - self.described.num_keys;
            if let Some(place) = self.keys.get_mut(first + key) {
                *place = Some(value);
            }
        }
        Ok(is_usual && !member.is_strange)
    }

    fn is_usual_text(&self, text: &[u8]) -> bool {
        let is_usual = |text: &str| {
            let mut banned = self.described.banned.iter();
            !text.is_empty() && !banned.any(|banned| text.contains(banned.as_str()))
        };
        std::str::from_utf8(text).is_ok_and(is_usual)
    }

    /// Returns whether the keys of the parts are all different.
    fn keys_differ(&self) -> bool {
        let num_keys = self.described.num_keys;
        if self.keys.len() <= num_keys {
            return true;
        }
        let mut sorted: Vec<_> = self.keys.chunks(num_keys).collect();
        sorted.sort_unstable();
        sorted.windows(2).all(|pair| pair.first() != pair.last())
    }
}

/// The different layouts of parts so far.
#[derive(Default)]
struct Layouts {
    known: HashSet<Vec<u8>>,
    /// That of the last part.
    last: Vec<u8>,
    /// That of this part.
    this: Vec<u8>,
    /// Whether this record has one that no other had.
    is_new: bool,
}

impl Layouts {
    fn extend(&mut self, body: &[u8], place: Range<usize>) -> Result<()> {
        let bytes = body.get(place).ok_or_else(|| out_of_range("layout"))?;
        self.this.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes in the layout of this part.
    fn add(&mut self) {
        if self.this != self.last || self.known.is_empty() {
            self.last.clone_from(&self.this);
            if !self.known.contains(&self.this) {
                self.known.insert(self.this.clone());
                self.is_new = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    /// A value of bytes.
    fn bytes(number: u8, body: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(body.len()).unwrap()], body].concat()
    }

    fn described() -> Description {
        let rows = [
            [0, 1, 1, 0, 0, 0, 0], // a number: column 0
            [0, 2, 8, 4, 0, 0, 1], // parts, required
            [0, 3, 7, 0, 2, 0, 2], // an inner record, with a flag
            [0, 4, 4, 0, 4, 1, 0], // bytes and nothing: one or the other
            [0, 5, 5, 0, 12, 1, 0],
            [1, 1, 6, 7, 0, 0, 0],  // a text: a required key and free
            [1, 2, 3, 0, 0, 0, 0],  // numbers
            [2, 4, 1, 0, 0, 0, 1],  // a number: column 1
            [2, 5, 2, 0, 0, 0, 1],  // a code
            [2, 6, 0, 8, 16, 0, 0], // a number that is odd, with a flag
        ];
        Description::of(2, &rows, vec!["..".to_owned()]).unwrap()
    }

    fn part_of(path: &[u8]) -> Vec<u8> {
        bytes(2, &[bytes(1, path), bytes(2, &[0, 1])].concat())
    }

    #[test]
    fn records_of_a_message() {
        let one = [vec![8, 7], part_of(b"a")].concat();
        let two = [part_of(b"a"), part_of(b"b"), vec![26, 2, 32, 3, 42, 0]].concat();
        let message = [
            bytes(1, b"x"),
            bytes(2, &one),
            vec![16, 5],
            bytes(2, &two),
            bytes(2, &[part_of(b"a"), part_of(b"a")].concat()),
            bytes(2, &[]),
        ]
        .concat();
        let described = described();
        let found = tabulate(&message, &described).unwrap();
        assert_eq!((found.starts[0], found.ends[0]), (3, 3 + 2 + 11));
        assert_eq!(found.columns, [[7, 0, 0, 0], [0, 3, 0, 0]]);
        assert_eq!(found.flags, [0, 14, ODD, ODD]);
        assert_eq!(found.samples, [0]);
        for end in 0..message.len() {
            let _ = tabulate(&message[..end], &described);
        }
        assert!(tabulate(&[0], &described).is_err());
    }

    #[test]
    fn flags_of_records() {
        let described = described();
        for (member, expected) in [
            (vec![34, 0], 4),
            (vec![42, 0], 12),
            (vec![42, 0, 34, 1, 9], 4),
            (vec![42, 1, 9], 12 | ODD),
            (vec![26, 2, 40, 1], 2),
            (vec![26, 2, 40, 2], 2 | ODD),
            (vec![26, 2, 48, 2], 18 | ODD),
            (vec![26, 1, 40], ODD),
            (vec![24, 1], ODD),
            (part_of(b"a..b"), ODD),
            (part_of(&[0xff]), ODD),
            (part_of(b""), ODD),
            (bytes(2, &[16, 5]), ODD),
            (bytes(2, &[10, 1, 98, 18, 1, 0x80]), ODD),
            (vec![128, 1, 0], ODD),
        ] {
            let record = [part_of(b"a"), member].concat();
            let found = tabulate(&bytes(2, &record), &described).unwrap();
            assert_eq!(found.flags, [expected], "{record:?}");
        }
    }
}
