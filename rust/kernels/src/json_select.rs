//! What a JSONPath selects in binary JSON: any number of values per document.
//!
//!     {"a": [1, {"b": 2}]}    a        [1, {"b": 2}]
//!                             a[*]     1 and {"b": 2}
//!                             a[last]  {"b": 2}

use crate::error::{Corrupt, Result, ensure, size};
use crate::json_path::{document, member};
use crate::jsonb::{
    ARRAY, CONTAINER, COUNT, Entries, OBJECT, SCALAR, STRING, Strings, entry_text, push_header,
    set_word, word_at,
};
use crate::offsets::OffsetsIn;

/// A step from values to some of their entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The member of an object.
    Member(String),
    /// All members of an object.
    Members,
    /// Ranges of items of an array, first and last; negative numbers count from its end.
    Items(Vec<(i64, i64)>),
    /// All items of an array; a value that is no array is taken as it is.
    AllItems,
}

/// Binary documents, one per row.
#[derive(Clone, Copy)]
pub struct Documents<'a> {
    pub offsets: OffsetsIn<'a>,
    pub data: &'a [u8],
    pub validity: Option<&'a [u8]>,
}

type Value<'a> = (u32, &'a [u8]);

/// At most so many values of one document.
const MOST: usize = 1 << 24;

/// What is selected in each document, as a document: several values are an array. The first
/// result tells whether there is any.
pub fn select(documents: Documents<'_>, path: &[Step]) -> Result<(Vec<bool>, Strings)> {
    let (mut found, mut ends, mut out) = (Vec::new(), vec![0], Vec::new());
    each(documents, path, |values| {
        match values {
            [] => {}
            [(CONTAINER, container)] => out.extend_from_slice(container),
            [value] => push(SCALAR, 0, &[*value], &mut out)?,
            values => push(ARRAY, values.len(), values, &mut out)?,
        }
        found.push(!values.is_empty());
        ends.push(i64::try_from(out.len()).map_err(|_| Corrupt("too many bytes".into()))?);
        Ok(())
    })?;
    Ok((found, (ends, out)))
}

/// The number of items of the first value in each document: 0 if it is no array, -1 if there is
/// none.
pub fn lengths(documents: Documents<'_>, path: &[Step]) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    each(documents, path, |values| {
        let items = values.first().map(items).transpose()?;
        found.push(items.map_or(-1, |items| items.map_or(0, |(_, count)| i64::from(count))));
        Ok(())
    })?;
    Ok(found)
}

/// Whether a selected array has an item with a text: its JSON, or the content of a string.
pub fn contains(documents: Documents<'_>, path: &[Step], text: &str) -> Result<Vec<bool>> {
    let (mut found, mut scratch) = (Vec::new(), Vec::new());
    each(documents, path, |values| {
        let mut is_there = false;
        for value in values {
            let Some((mut entries, count)) = items(value)? else {
                continue;
            };
            for _ in 0..count {
                let (kind, bytes) = entries.take()?;
                is_there |= kind == STRING && bytes == text.as_bytes();
                if !is_there && (kind != STRING || text.starts_with('"')) {
                    scratch.clear();
                    entry_text(kind, bytes, &mut scratch)?;
                    is_there = scratch == text.as_bytes();
                }
            }
        }
        found.push(is_there);
        Ok(())
    })?;
    Ok(found)
}

fn each<'a>(
    documents: Documents<'a>,
    path: &[Step],
    mut with: impl FnMut(&[Value<'a>]) -> Result<()>,
) -> Result<()> {
    let Documents {
        offsets,
        data,
        validity,
    } = documents;
    for row in 0..offsets.count() {
        let document = document(offsets, data, validity, row)?;
        document
            .map_or_else(|| Ok(Vec::new()), |document| selected(document, path))
            .and_then(|values| with(&values))
            .map_err(|error| error.at(format_args!("row {row}")))?;
    }
    Ok(())
}

fn selected<'a>(document: &'a [u8], path: &[Step]) -> Result<Vec<Value<'a>>> {
    let mut values = vec![(CONTAINER, document)];
    for step in path {
        let mut next = Vec::new();
        for value in &values {
            follow(value, step, &mut next)?;
            ensure(
                next.len() <= MOST,
                "selected values",
                next.len(),
                format_args!("at most {MOST}"),
            )?;
        }
        values = next;
    }
    Ok(values)
}

fn follow<'a>(value: &Value<'a>, step: &Step, out: &mut Vec<Value<'a>>) -> Result<()> {
    match step {
        Step::Member(name) => {
            if let (CONTAINER, container) = value {
                out.extend(member(container, name)?);
            }
        }
        Step::Members => {
            if let Some((container, count)) = container(value, OBJECT)? {
                let words = count.checked_mul(2);
                let words = words.ok_or_else(|| Corrupt("too many entries".into()))?;
                let mut entries = Entries::new(container, words)?.behind(count)?;
                for _ in 0..count {
                    out.push(entries.take()?);
                }
            }
        }
        Step::AllItems => match items(value)? {
            Some((mut entries, count)) => {
                for _ in 0..count {
                    out.push(entries.take()?);
                }
            }
            None => out.push(*value),
        },
        Step::Items(spans) => {
            if let Some((entries, count)) = items(value)? {
                for span in spans {
                    let (first, last) = clipped(*span, count);
                    if first > last {
                        continue;
                    }
                    let mut entries = entries.behind(size(first, "items")?)?;
                    for _ in first..=last {
                        out.push(entries.take()?);
                    }
                }
            }
        }
    }
    Ok(())
}

/// A range of items that an array of `count` items has; its first exceeds its last if it is empty.
fn clipped((first, last): (i64, i64), count: u32) -> (u32, u32) {
    let end = |number: i64| {
        if number < 0 {
            number.saturating_add(i64::from(count))
        } else {
            number
        }
    };
    let (first, last) = (end(first).max(0), end(last).min(i64::from(count) - 1));
    match (u32::try_from(first), u32::try_from(last)) {
        (Ok(first), Ok(last)) => (first, last),
        _ => (1, 0),
    }
}

/// The entries of an array and their number; nothing for other values.
fn items<'a>(value: &Value<'a>) -> Result<Option<(Entries<'a>, u32)>> {
    let Some((container, count)) = container(value, ARRAY)? else {
        return Ok(None);
    };
    let entries = Entries::new(container, count)?;
    let count = u32::try_from(count).map_err(|_| Corrupt("too many entries".into()))?;
    Ok(Some((entries, count)))
}

/// The bytes of a container of one kind and the number of its entries; nothing for other values.
fn container<'a>(value: &Value<'a>, kind: u32) -> Result<Option<(&'a [u8], usize)>> {
    let (CONTAINER, container) = value else {
        return Ok(None);
    };
    let header = word_at(container, 0)?;
    let found = header & !COUNT;
    ensure(
        matches!(found, ARRAY | OBJECT | SCALAR),
        "container",
        format_args!("kind {found:#x}"),
        "an array, an object or a scalar",
    )?;
    let count = size(header & COUNT, "entries")?;
    Ok((found == kind).then_some((*container, count)))
}

/// Appends a container of values.
fn push(kind: u32, count: usize, values: &[Value<'_>], out: &mut Vec<u8>) -> Result<()> {
    push_header(kind, count, out)?;
    let words = out.len();
    out.resize(words + 4 * values.len(), 0);
    for (index, (kind, bytes)) in values.iter().enumerate() {
        out.extend_from_slice(bytes);
        set_word(*kind, bytes.len(), words + 4 * index, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonb::{decode, encode};

    fn run<T>(text: &str, read: impl Fn(Documents<'_>) -> Result<T>) -> Result<T> {
        let size = i32::try_from(text.len()).unwrap_or_default();
        let (ends, data) = encode(OffsetsIn::Small(&[0, size]), text.as_bytes(), None)?;
        read(Documents {
            offsets: OffsetsIn::Large(&ends),
            data: &data,
            validity: None,
        })
    }

    fn selected_text(text: &str, path: &[Step]) -> Result<String> {
        let (found, (ends, data)) = run(text, |documents| select(documents, path))?;
        if found == [false] {
            return Ok("nothing".into());
        }
        let (_, data) = decode(OffsetsIn::Large(&ends), &data, None)?;
        String::from_utf8(data).map_err(|error| Corrupt(error.to_string()))
    }

    fn key(name: &str) -> Step {
        Step::Member(name.into())
    }

    #[test]
    fn values_are_selected() {
        let text = r#"{"a":[1,{"b":"x"},[]],"c":-2.5,"d":null}"#;
        let at = |path: &[Step]| selected_text(text, path).unwrap_or_default();
        assert_eq!(at(&[]), text);
        assert_eq!(at(&[key("c")]), "-2.5");
        assert_eq!(at(&[key("d")]), "null");
        assert_eq!(
            at(&[key("a"), Step::Items(vec![(-2, -2)]), key("b")]),
            "\"x\""
        );
        assert_eq!(
            at(&[key("a"), Step::Items(vec![(1, 9), (0, 0)])]),
            r#"[{"b":"x"},[],1]"#
        );
        assert_eq!(at(&[key("a"), Step::AllItems]), r#"[1,{"b":"x"},[]]"#);
        assert_eq!(at(&[Step::Members]), r#"[[1,{"b":"x"},[]],-2.5,null]"#);
        assert_eq!(at(&[key("c"), Step::AllItems]), "-2.5");
        for path in [
            &[key("z")][..],
            &[key("c"), key("x")],
            &[key("c"), Step::Members],
            &[key("a"), Step::Items(vec![(3, 3), (-4, -4), (2, 1)])],
            &[Step::Items(vec![(0, 0)])],
        ] {
            assert_eq!(at(path), "nothing");
        }
    }

    #[test]
    fn items_are_counted_and_found() {
        let text = r#"{"a":[2,"two","2.5",{"b":1}],"c":7}"#;
        let length = |path: &[Step]| run(text, |documents| lengths(documents, path));
        assert_eq!(length(&[key("a")]), Ok(vec![4]));
        assert_eq!(length(&[key("c")]), Ok(vec![0]));
        assert_eq!(length(&[key("z")]), Ok(vec![-1]));
        let has = |wanted: &str| run(text, |documents| contains(documents, &[key("a")], wanted));
        for wanted in ["2", "two", "\"two\"", "2.5", r#"{"b":1}"#] {
            assert_eq!(has(wanted), Ok(vec![true]));
        }
        for wanted in ["", "2.0", "7", "b"] {
            assert_eq!(has(wanted), Ok(vec![false]));
        }
    }

    #[test]
    fn damage_is_an_error_or_another_value() {
        let text = br#"{"a":[1,2.5,"x"],"b":{"c":null}}"#;
        let size = i32::try_from(text.len()).unwrap_or_default();
        let (_, whole) = encode(OffsetsIn::Small(&[0, size]), text, None).unwrap_or_default();
        let paths = [
            vec![key("a"), Step::AllItems],
            vec![Step::Members, Step::Members],
        ];
        for cut in 0..whole.len() {
            for place in [None, Some(cut)] {
                let mut damaged = whole.clone();
                match place {
                    Some(place) => damaged
                        .iter_mut()
                        .skip(place)
                        .take(1)
                        .for_each(|b| *b = 0xff),
                    None => damaged.truncate(cut),
                }
                let ends = [0, i64::try_from(damaged.len()).unwrap_or_default()];
                for (number, path) in paths.iter().enumerate() {
                    let documents = Documents {
                        offsets: OffsetsIn::Large(&ends),
                        data: &damaged,
                        validity: None,
                    };
                    let made = [
                        select(documents, path).is_err(),
                        lengths(documents, path).is_err(),
                        contains(documents, path, "x").is_err(),
                    ];
                    // The first path does not read what follows the array.
                    let must_fail = place.is_none() && number == 1;
                    assert!(!must_fail || made.iter().all(|failed| *failed));
                }
            }
        }
    }
}
