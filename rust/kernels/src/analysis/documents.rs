//! Documents as Arrow stores them: an array of strings, or lists of strings.

use crate::bitmap::bit;
use crate::error::{Corrupt, Result, ensure};
use crate::offsets::OffsetsIn;

/// A bitmap and its first bit.
pub type Validity<'a> = Option<(&'a [u8], usize)>;

/// Strings.
#[derive(Clone, Copy)]
pub struct Texts<'a> {
    pub offsets: OffsetsIn<'a>,
    pub data: &'a [u8],
    pub validity: Validity<'a>,
}

/// Lists of strings.
#[derive(Clone, Copy)]
pub struct Lists<'a> {
    pub offsets: OffsetsIn<'a>,
    pub validity: Validity<'a>,
}

/// Each string is a document, or each list: its strings that are not null, with blanks between them.
/// A list that is null or has no strings is an empty document.
#[derive(Clone, Copy)]
pub struct Documents<'a> {
    pub texts: Texts<'a>,
    pub lists: Option<Lists<'a>>,
}

impl Documents<'_> {
    /// Hands each document to `take`; None for a string that is null.
    pub fn each(&self, mut take: impl FnMut(Option<&str>) -> Result<()>) -> Result<()> {
        covers(self.texts.validity, self.texts.offsets.count())?;
        let Some(lists) = &self.lists else {
            for row in 0..self.texts.offsets.count() {
                take(self.texts.get(row)?)?;
            }
            return Ok(());
        };
        covers(lists.validity, lists.offsets.count())?;
        let mut joined = String::new();
        for row in 0..lists.offsets.count() {
            let (start, stop) = (lists.offsets.get(row)?, lists.offsets.get(row + 1)?);
            joined.clear();
            let members = if is_valid(lists.validity, row) {
                start..stop
            } else {
                0..0
            };
            for member in members {
                let Some(text) = self.texts.get(member)? else {
                    continue;
                };
                if !joined.is_empty() {
                    joined.push(' ');
                }
                joined.push_str(text);
            }
            take(Some(&joined))?;
        }
        Ok(())
    }
}

impl Texts<'_> {
    /// One string; None if it is null.
    fn get(&self, row: usize) -> Result<Option<&str>> {
        if !is_valid(self.validity, row) {
            return Ok(None);
        }
        let text = std::str::from_utf8(self.offsets.value(self.data, row, "string")?);
        text.map(Some)
            .map_err(|error| Corrupt(format!("string {row}: {error}")))
    }
}

fn is_valid(validity: Validity<'_>, row: usize) -> bool {
    validity.is_none_or(|(bitmap, first)| bit(bitmap, first.saturating_add(row)))
}

fn covers(validity: Validity<'_>, count: usize) -> Result<()> {
    let bits = validity.map_or(count, |(bitmap, first)| {
        bitmap.len().saturating_mul(8).saturating_sub(first)
    });
    ensure(
        bits >= count,
        "validity, bits",
        bits,
        format_args!("at least {count}"),
    )
}
