//! Walks the tagged values of a message.
//!
//!     message   key, value ┃ key, value ┃ …
//!     key       number << 3 | kind            a varint
//!     kind      0 varint   1 eight bytes   2 length and bytes   3, 4 begin and end of a group   5 four bytes
//!
//! A group counts as one value, with all that is in it.

use std::ops::Range;

use crate::error::{Corrupt, Result, part, size};

/// A value with its tag.
pub struct Tagged<'a> {
    pub number: u64,
    pub value: Value<'a>,
    /// Where its key and value lie.
    pub place: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A value of any other kind.
    Other,
}

/// The values of a message, in the order of its bytes.
pub struct TaggedValues<'a> {
    message: &'a [u8],
    place: usize,
}

impl<'a> TaggedValues<'a> {
    pub fn of(message: &'a [u8]) -> Self {
        Self { message, place: 0 }
    }

    /// Returns the next value, or none at the end of the message.
    #[inline]
    pub fn take(&mut self) -> Result<Option<Tagged<'a>>> {
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
                return Ok(Some(Tagged {
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

/// Returns whether bytes are nothing but varints.
pub fn are_varints(packed: &[u8]) -> bool {
    let mut run = 0;
    for byte in packed {
        run = if byte & 0x80 == 0 { 0 } else { run + 1 };
        if run >= 10 {
            return false;
        }
    }
    run == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_and_groups() {
        let message = [
            0x08, 0x96, 1, 0x12, 1, 9, 0x1b, 0x08, 1, 0x1c, 0x25, 1, 2, 3, 4,
        ];
        let mut values = TaggedValues::of(&message);
        let mut found = Vec::new();
        while let Some(one) = values.take().unwrap() {
            found.push((one.number, one.value, one.place));
        }
        let expected = [
            (1, Value::Number(150), 0..3),
            (2, Value::Bytes(&[9]), 3..6),
            (3, Value::Other, 6..10),
            (4, Value::Other, 10..15),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn damage_is_an_error() {
        for message in [&[0][..], &[0xff; 11], &[0x0b, 0x08, 1], &[0x0a, 2, 1], &[7]] {
            assert!(TaggedValues::of(message).take().is_err());
        }
    }

    #[test]
    fn varints_end() {
        assert!(are_varints(&[]) && are_varints(&[0x80, 1, 5]));
        assert!(!are_varints(&[5, 0x80]) && !are_varints(&[0x80; 11]));
    }
}
