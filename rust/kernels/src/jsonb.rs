//! Converts JSON text to its binary form and back.
//!
//! A container is a big-endian word of kind (3 bits) and count (29 bits), then one word per entry
//! of kind (4 bits) and size (28 bits), then the entries. An object has the words of all keys
//! first, then those of all values; keys are sorted. A scalar is a container of one entry.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::bitmap::bit;
use crate::error::{Corrupt, Result, ensure, out_of_range, part, size};
use crate::offsets::OffsetsIn;

pub(crate) const ARRAY: u32 = 0x8000_0000;
pub(crate) const OBJECT: u32 = 0x4000_0000;
pub(crate) const SCALAR: u32 = 0x2000_0000;
pub(crate) const COUNT: u32 = 0x1fff_ffff;

pub(crate) const NULL: u32 = 0x0000_0000;
pub(crate) const STRING: u32 = 0x1000_0000;
pub(crate) const NUMBER: u32 = 0x2000_0000;
pub(crate) const FALSE: u32 = 0x3000_0000;
pub(crate) const TRUE: u32 = 0x4000_0000;
pub(crate) const CONTAINER: u32 = 0x5000_0000;
const KIND: u32 = 0x7000_0000;
const SIZE: u32 = 0x0fff_ffff;

const ZERO: u8 = 0x00;
const NAN: u8 = 0x10;
const INFINITY: u8 = 0x20;
const NEGATIVE_INFINITY: u8 = 0x30;
const INT: u8 = 0x40;
const UINT: u8 = 0x50;
const FLOAT: u8 = 0x60;

const WORD: usize = 4;
/// Maximum nesting of containers; text is parsed to depth 127.
const MAX_DEPTH: usize = 512;

/// New offsets and bytes of values.
pub type Strings = (Vec<i64>, Vec<u8>);

/// Converts texts that are not null to their binary form; nulls become empty.
pub fn encode(offsets: OffsetsIn<'_>, data: &[u8], validity: Option<&[u8]>) -> Result<Strings> {
    each(offsets, data, validity, |text, out| {
        let value: Json = serde_json::from_slice(text).map_err(|e| Corrupt(e.to_string()))?;
        write_value(&value, out)
    })
}

/// Converts binary values that are not null to text; nulls become empty.
pub fn decode(offsets: OffsetsIn<'_>, data: &[u8], validity: Option<&[u8]>) -> Result<Strings> {
    each(offsets, data, validity, |value, out| {
        read_container(value, out, 0)
    })
}

fn each(
    offsets: OffsetsIn<'_>,
    data: &[u8],
    validity: Option<&[u8]>,
    convert: impl Fn(&[u8], &mut Vec<u8>) -> Result<()>,
) -> Result<Strings> {
    let mut ends = Vec::with_capacity(offsets.count() + 1);
    let mut out = Vec::with_capacity(data.len());
    ends.push(0);
    for row in 0..offsets.count() {
        if validity.is_none_or(|bitmap| bit(bitmap, row)) {
            let value = offsets.value(data, row, "value")?;
            convert(value, &mut out).map_err(|error| error.at(format_args!("row {row}")))?;
        }
        ends.push(i64::try_from(out.len()).map_err(|_| Corrupt("too many bytes".into()))?);
    }
    Ok((ends, out))
}

/// Parsed text; members of objects are sorted and unique.
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    Uint(u64),
    Int(i64),
    Float(f64),
    Text(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E>(self) -> std::result::Result<Self::Value, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Self::Value, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Self::Value, E> {
        Ok(Json::Uint(value))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Self::Value, E> {
        Ok(Json::Int(value))
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<Self::Value, E> {
        Ok(Json::Float(value))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> std::result::Result<Self::Value, E> {
        Ok(Json::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<Self::Value, E> {
        Ok(Json::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(
        self,
        mut items: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while let Some(item) = items.next_element()? {
            found.push(item);
        }
        Ok(Json::Array(found))
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut members: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        let mut found: Vec<(Cow<'de, str>, Json<'de>)> = Vec::new();
        while let Some((key, value)) = members.next_entry()? {
            let Json::Text(key) = key else {
                return Err(A::Error::custom("a key that is no text"));
            };
            found.push((key, value));
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let twice = found
            .iter()
            .zip(found.iter().skip(1))
            .find(|(one, next)| one.0 == next.0);
        if let Some((member, _)) = twice {
            return Err(A::Error::custom(format_args!(
                "the key {:?} comes twice",
                member.0
            )));
        }
        Ok(Json::Object(found))
    }
}

fn write_value(value: &Json<'_>, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Json::Array(items) => {
            push_header(ARRAY, items.len(), out)?;
            let words = reserve(items.len(), out);
            for (index, item) in items.iter().enumerate() {
                write_entry(item, words + index * WORD, out)?;
            }
        }
        Json::Object(members) => {
            push_header(OBJECT, members.len(), out)?;
            let words = reserve(2 * members.len(), out);
            for (index, (key, _)) in members.iter().enumerate() {
                out.extend_from_slice(key.as_bytes());
                set_word(STRING, key.len(), words + index * WORD, out)?;
            }
            let words = words + members.len() * WORD;
            for (index, (_, item)) in members.iter().enumerate() {
                write_entry(item, words + index * WORD, out)?;
            }
        }
        _ => {
            push_header(SCALAR, 0, out)?;
            let words = reserve(1, out);
            write_entry(value, words, out)?;
        }
    }
    Ok(())
}

/// Appends an entry and sets its word.
fn write_entry(value: &Json<'_>, word: usize, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    let kind = match value {
        Json::Null => NULL,
        Json::Bool(false) => FALSE,
        Json::Bool(true) => TRUE,
        Json::Uint(value) => push_number(UINT, *value, uint_width(*value), out),
        Json::Int(value) => push_number(INT, value.cast_unsigned(), int_width(*value), out),
        Json::Float(value) => push_number(FLOAT, value.to_bits(), 8, out),
        Json::Text(value) => {
            out.extend_from_slice(value.as_bytes());
            STRING
        }
        Json::Array(_) | Json::Object(_) => {
            write_value(value, out)?;
            CONTAINER
        }
    };
    set_word(kind, out.len() - start, word, out)
}

fn push_number(kind: u8, bits: u64, width: usize, out: &mut Vec<u8>) -> u32 {
    let bytes = bits.to_be_bytes();
    if width == 0 {
        out.push(ZERO);
    } else {
        out.push(kind);
        out.extend(bytes.iter().skip(bytes.len() - width));
    }
    NUMBER
}

fn uint_width(value: u64) -> usize {
    match value {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

fn int_width(value: i64) -> usize {
    if value == 0 {
        0
    } else if i8::try_from(value).is_ok() {
        1
    } else if i16::try_from(value).is_ok() {
        2
    } else if i32::try_from(value).is_ok() {
        4
    } else {
        8
    }
}

pub(crate) fn push_header(kind: u32, count: usize, out: &mut Vec<u8>) -> Result<()> {
    let count = u32::try_from(count).ok().filter(|count| *count <= COUNT);
    let count = count.ok_or_else(|| Corrupt("a container with too many entries".into()))?;
    out.extend_from_slice(&(kind | count).to_be_bytes());
    Ok(())
}

/// Reserves space for words; returns its position.
fn reserve(count: usize, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + count * WORD, 0);
    start
}

pub(crate) fn set_word(kind: u32, length: usize, word: usize, out: &mut [u8]) -> Result<()> {
    let length = u32::try_from(length).ok().filter(|length| *length <= SIZE);
    let length = length.ok_or_else(|| Corrupt("a value of 256 MiB or more".into()))?;
    let place = out.get_mut(word..word + WORD);
    let place = place.ok_or_else(|| out_of_range("word"))?;
    place.copy_from_slice(&(kind | length).to_be_bytes());
    Ok(())
}

fn read_container(data: &[u8], out: &mut Vec<u8>, depth: usize) -> Result<()> {
    ensure(
        depth <= MAX_DEPTH,
        "depth",
        depth,
        format_args!("at most {MAX_DEPTH}"),
    )?;
    let header = word_at(data, 0)?;
    let count = size(header & COUNT, "entries")?;
    match header & !COUNT {
        SCALAR => Entries::new(data, 1)?.next(out, depth),
        ARRAY => {
            let mut items = Entries::new(data, count)?;
            out.push(b'[');
            for index in 0..count {
                if index > 0 {
                    out.push(b',');
                }
                items.next(out, depth)?;
            }
            out.push(b']');
            Ok(())
        }
        OBJECT => {
            let words = count.checked_mul(2);
            let words = words.ok_or_else(|| Corrupt("too many entries".into()))?;
            let mut keys = Entries::new(data, words)?;
            let mut values = keys.behind(count)?;
            out.push(b'{');
            for index in 0..count {
                if index > 0 {
                    out.push(b',');
                }
                keys.next_key(out)?;
                out.push(b':');
                values.next(out, depth)?;
            }
            out.push(b'}');
            Ok(())
        }
        kind => Err(Corrupt(format!("a container of kind {kind:#x}"))),
    }
}

/// Entries of a container, front to back.
#[derive(Clone)]
pub(crate) struct Entries<'a> {
    data: &'a [u8],
    word: usize,
    start: usize,
}

impl<'a> Entries<'a> {
    /// All entries; `count` words must be there.
    pub(crate) fn new(data: &'a [u8], count: usize) -> Result<Self> {
        let bytes = count.checked_mul(WORD);
        let bytes = bytes.ok_or_else(|| Corrupt("too many entries".into()))?;
        part(data, WORD, bytes, "words of entries")?;
        Ok(Self {
            data,
            word: WORD,
            start: WORD + bytes,
        })
    }

    /// The entries after the first `count`.
    pub(crate) fn behind(&self, count: usize) -> Result<Self> {
        let mut rest = self.clone();
        for _ in 0..count {
            rest.take()?;
        }
        Ok(rest)
    }

    /// The kind and the bytes of the next entry.
    pub(crate) fn take(&mut self) -> Result<(u32, &'a [u8])> {
        let word = word_at(self.data, self.word)?;
        let value = part(self.data, self.start, size(word & SIZE, "size")?, "entry")?;
        self.word += WORD;
        self.start += value.len();
        Ok((word & KIND, value))
    }

    fn next_key(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let (kind, value) = self.take()?;
        ensure(
            kind == STRING,
            "key",
            format_args!("kind {kind:#x}"),
            "text",
        )?;
        write_text(value, out)
    }

    fn next(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        let (kind, value) = self.take()?;
        write_text_of(kind, value, out, depth)
    }
}

/// Appends the JSON text of an entry.
pub(crate) fn entry_text(kind: u32, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    write_text_of(kind, value, out, 0)
}

fn write_text_of(kind: u32, value: &[u8], out: &mut Vec<u8>, depth: usize) -> Result<()> {
    match kind {
        NULL => out.extend_from_slice(b"null"),
        FALSE => out.extend_from_slice(b"false"),
        TRUE => out.extend_from_slice(b"true"),
        STRING => write_text(value, out)?,
        NUMBER => write_number(value, out)?,
        CONTAINER => read_container(value, out, depth + 1)?,
        kind => return Err(Corrupt(format!("a value of kind {kind:#x}"))),
    }
    Ok(())
}

pub(crate) fn word_at(data: &[u8], start: usize) -> Result<u32> {
    let bytes = part(data, start, WORD, "word")?;
    let word = bytes.first_chunk().ok_or_else(|| out_of_range("word"))?;
    Ok(u32::from_be_bytes(*word))
}

fn write_text(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let text = std::str::from_utf8(value).map_err(|error| Corrupt(error.to_string()))?;
    serde_json::to_writer(out, text).map_err(|error| Corrupt(error.to_string()))
}

fn write_number(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let text = match value.split_first() {
        Some((&UINT, digits @ ([_] | [_, _] | [_, _, _, _] | [_, _, _, _, _, _, _, _]))) => {
            unsigned(digits).to_string()
        }
        _ => match number(value)? {
            Number::Int(value) => value.to_string(),
            // JSON cannot represent infinity and NaN: they become null.
            Number::Float(value) => {
                serde_json::to_string(&value).map_err(|error| Corrupt(error.to_string()))?
            }
        },
    };
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// A number; integers that are too large are floats.
pub(crate) enum Number {
    Int(i64),
    Float(f64),
}

/// Reads a number.
pub(crate) fn number(value: &[u8]) -> Result<Number> {
    let (&kind, digits) = value
        .split_first()
        .ok_or_else(|| Corrupt("a number without bytes".into()))?;
    Ok(match (kind, digits.len()) {
        (ZERO, 0) => Number::Int(0),
        (NAN, 0) => Number::Float(f64::NAN),
        (INFINITY, 0) => Number::Float(f64::INFINITY),
        (NEGATIVE_INFINITY, 0) => Number::Float(f64::NEG_INFINITY),
        (UINT, 1 | 2 | 4 | 8) => {
            let value = unsigned(digits);
            #[allow(clippy::cast_precision_loss)]
            i64::try_from(value).map_or(Number::Float(value as f64), Number::Int)
        }
        (INT, 1 | 2 | 4 | 8) => Number::Int(signed(digits)),
        (FLOAT, 8) => Number::Float(f64::from_bits(unsigned(digits))),
        (kind, length) => {
            return Err(Corrupt(format!(
                "a number of kind {kind:#x} and {length} bytes"
            )));
        }
    })
}

fn unsigned(digits: &[u8]) -> u64 {
    digits
        .iter()
        .fold(0, |value, digit| value << 8 | u64::from(*digit))
}

fn signed(digits: &[u8]) -> i64 {
    let unused = 64 - 8 * digits.len().min(8);
    (unsigned(digits) << unused).cast_signed() >> unused
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )]
    use super::*;

    fn binary(text: &str) -> Result<Vec<u8>> {
        let offsets = [0, text.len() as i32];
        encode(OffsetsIn::Small(&offsets), text.as_bytes(), None).map(|(_, data)| data)
    }

    fn text(data: &[u8]) -> Result<String> {
        let offsets = [0, data.len() as i64];
        let (_, data) = decode(OffsetsIn::Large(&offsets), data, None)?;
        Ok(String::from_utf8(data).unwrap())
    }

    #[test]
    fn round_trips() {
        for given in [
            "null",
            "true",
            "0",
            "-1",
            "255",
            "256",
            "4294967296",
            "18446744073709551615",
            "-9223372036854775808",
            "-0.0",
            "1e+16",
            "1e-7",
            "\"é\\n\\u0001\"",
            "[]",
            "{}",
            "[[],{\"\":[1,2.5]}]",
            "{\"a\":null,\"b\":{\"c\":\"d\"}}",
        ] {
            assert_eq!(text(&binary(given).unwrap()).unwrap(), given);
        }
        assert_eq!(
            text(&binary(" {\"b\": 1, \"a\" : []} ").unwrap()).unwrap(),
            "{\"a\":[],\"b\":1}"
        );
    }

    #[test]
    fn bytes_of_an_object() {
        let found = binary("{\"aa\":1,\"b\":[]}").unwrap();
        let expected = [
            0x40, 0, 0, 2, 0x10, 0, 0, 2, 0x10, 0, 0, 1, 0x20, 0, 0, 2, 0x50, 0, 0, 4, b'a', b'a',
            b'b', 0x50, 1, 0x80, 0, 0, 0,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_json() {
        for given in [
            "",
            "{",
            "[1,]",
            "01",
            "1 2",
            "{\"a\":1,\"a\":2}",
            "NaN",
            "\"\\ud83d\"",
        ] {
            assert!(binary(given).is_err(), "{given}");
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(binary(&deep).is_err());
    }

    #[test]
    fn damage_is_an_error() {
        let whole = binary("{\"a\":[1,2.5,\"x\"],\"b\":null}").unwrap();
        for end in 0..whole.len() {
            assert!(text(&whole[..end]).is_err());
        }
        for position in 0..whole.len() {
            for value in [0, 1, 0x10, 0x7f, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[position] = value;
                let _ = text(&damaged);
            }
        }
        let mut nested = vec![0x20, 0, 0, 0, 0, 0, 0, 0];
        for _ in 0..600 {
            let word = (CONTAINER | nested.len() as u32).to_be_bytes();
            nested = [&(ARRAY | 1).to_be_bytes()[..], &word, &nested].concat();
        }
        assert!(text(&nested).is_err());
    }

    #[test]
    fn nulls_are_empty() {
        let made = encode(OffsetsIn::Small(&[0, 1, 2]), b"1x", Some(&[1])).unwrap();
        assert_eq!(made.0, [0, 10, 10]);
    }
}
