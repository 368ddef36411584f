//! Values at a path in binary JSON.

use crate::bitmap::bit;
use crate::error::{Corrupt, Result, ensure, signed, size};
use crate::jsonb::{
    ARRAY, CONTAINER, COUNT, Entries, FALSE, NULL, NUMBER, Number, OBJECT, SCALAR, STRING, TRUE,
    number, word_at,
};
use crate::offsets::OffsetsIn;

/// What is at the path: nothing or null.
pub const NONE: u8 = 0;
/// A boolean.
pub const BOOL: u8 = 1;
/// A signed integer of 64 bits.
pub const INT: u8 = 2;
/// Another number, as a float of 64 bits.
pub const FLOAT: u8 = 3;
/// A text.
pub const TEXT: u8 = 4;
/// An array or an object.
pub const NESTED: u8 = 5;

/// A step from a container to one of its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Item(usize),
    Key(String),
}

/// The values at a path, one per document.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    /// What is there.
    pub kinds: Vec<u8>,
    /// The bits of numbers and booleans; 0 elsewhere.
    pub bits: Vec<u64>,
    /// Where each text ends, with a first 0; others are empty.
    pub ends: Vec<i64>,
    pub texts: Vec<u8>,
}

/// The value at a path of each document; nothing where a document is null.
pub fn values(
    offsets: OffsetsIn<'_>,
    data: &[u8],
    validity: Option<&[u8]>,
    path: &[Step],
) -> Result<Found> {
    let mut found = Found {
        ends: vec![0],
        ..Found::default()
    };
    for row in 0..offsets.count() {
        let (mut kind, mut bits) = (NONE, 0);
        if let Some(document) = document(offsets, data, validity, row)? {
            (kind, bits) = value(document, path, &mut found.texts)
                .map_err(|error| error.at(format_args!("row {row}")))?;
        }
        found.kinds.push(kind);
        found.bits.push(bits);
        found.ends.push(signed(found.texts.len(), "texts")?);
    }
    Ok(found)
}

/// The document of a row; nothing where it is null.
pub(crate) fn document<'a>(
    offsets: OffsetsIn<'_>,
    data: &'a [u8],
    validity: Option<&[u8]>,
    row: usize,
) -> Result<Option<&'a [u8]>> {
    if !validity.is_none_or(|bitmap| bit(bitmap, row)) {
        return Ok(None);
    }
    offsets.value(data, row, "document").map(Some)
}

fn value(document: &[u8], path: &[Step], texts: &mut Vec<u8>) -> Result<(u8, u64)> {
    let mut at = (CONTAINER, document);
    for step in path {
        let (CONTAINER, container) = at else {
            return Ok((NONE, 0));
        };
        let Some(entry) = entry(container, step)? else {
            return Ok((NONE, 0));
        };
        at = entry;
    }
    Ok(match at {
        (NULL, _) => (NONE, 0),
        (FALSE, _) => (BOOL, 0),
        (TRUE, _) => (BOOL, 1),
        (NUMBER, digits) => match number(digits)? {
            Number::Int(value) => (INT, value.cast_unsigned()),
            Number::Float(value) => (FLOAT, value.to_bits()),
        },
        (STRING, text) => {
            std::str::from_utf8(text).map_err(|error| Corrupt(error.to_string()))?;
            texts.extend_from_slice(text);
            (TEXT, 0)
        }
        (CONTAINER, _) => (NESTED, 0),
        (kind, _) => return Err(Corrupt(format!("a value of kind {kind:#x}"))),
    })
}

/// The entry of a container to which a step leads.
fn entry<'a>(container: &'a [u8], step: &Step) -> Result<Option<(u32, &'a [u8])>> {
    let header = word_at(container, 0)?;
    let count = size(header & COUNT, "entries")?;
    match (header & !COUNT, step) {
        (ARRAY, Step::Item(index)) if *index < count => Entries::new(container, count)?
            .behind(*index)?
            .take()
            .map(Some),
        (OBJECT, Step::Key(wanted)) => member(container, wanted),
        (ARRAY | OBJECT | SCALAR, _) => Ok(None),
        (kind, _) => Err(Corrupt(format!("a container of kind {kind:#x}"))),
    }
}

/// The value of a member; nothing if there is none, or if the container is no object.
pub(crate) fn member<'a>(container: &'a [u8], wanted: &str) -> Result<Option<(u32, &'a [u8])>> {
    let header = word_at(container, 0)?;
    let count = size(header & COUNT, "entries")?;
    if header & !COUNT != OBJECT {
        return Ok(None);
    }
    let words = count.checked_mul(2);
    let words = words.ok_or_else(|| Corrupt("too many entries".into()))?;
    let mut keys = Entries::new(container, words)?;
    for _ in 0..count {
        let (kind, key) = keys.take()?;
        ensure(
            kind == STRING,
            "key",
            format_args!("kind {kind:#x}"),
            "text",
        )?;
        if key == wanted.as_bytes() {
            // The other keys, then the values before this one.
            return keys.behind(count - 1)?.take().map(Some);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonb::encode;

    fn key(text: &str) -> Step {
        Step::Key(text.to_owned())
    }

    #[test]
    fn values_are_found() {
        let text = br#"{"a":[1,{"b":"x"}],"c":-2.5,"d":true,"e":null,"f":18446744073709551615}"#;
        let size = i32::try_from(text.len()).unwrap_or_default();
        let (ends, data) = encode(OffsetsIn::Small(&[0, size]), text, None).unwrap_or_default();
        let at = |path: &[Step]| {
            let found = values(OffsetsIn::Large(&ends), &data, None, path).unwrap_or_default();
            (found.kinds, found.bits, found.texts)
        };
        assert_eq!(at(&[key("a"), Step::Item(0)]), (vec![INT], vec![1], vec![]));
        let text = at(&[key("a"), Step::Item(1), key("b")]);
        assert_eq!(text, (vec![TEXT], vec![0], b"x".to_vec()));
        let float = |value: f64| (vec![FLOAT], vec![value.to_bits()], vec![]);
        assert_eq!(at(&[key("c")]), float(-2.5));
        assert_eq!(at(&[key("f")]), float(18_446_744_073_709_551_615.0));
        assert_eq!(at(&[key("d")]), (vec![BOOL], vec![1], vec![]));
        assert_eq!(at(&[key("a")]), (vec![NESTED], vec![0], vec![]));
        for path in [
            &[key("e")][..],
            &[key("a"), Step::Item(2)],
            &[key("c"), key("x")],
            &[key("z")],
        ] {
            assert_eq!(at(path), (vec![NONE], vec![0], vec![]));
        }
        for cut in 0..data.len() {
            let ends = [0, i64::try_from(cut).unwrap_or_default()];
            let cut = data.get(..cut).unwrap_or_default();
            assert!(values(OffsetsIn::Large(&ends), cut, None, &[key("f")]).is_err());
        }
    }
}
