//! Which members the records of a message have, and how they are used.
//!
//!     row    scope, number, form, uses, flags, group, argument      one for each member
//!
//! A record, the records inside it and its parts have numbers of their own: a scope each. That of
//! the record itself is 0, and an inner one is greater than that which contains it. The argument is
//! a scope, a column or the greatest value, as the form says. The flags are set if the member is
//! present; of the members of a group (0 is none) only those of the last one.

use crate::error::{Corrupt, Result, ensure, out_of_range};

const MAX_NUMBER: usize = 255;
/// Also of scopes and columns.
const MAX_MEMBERS: usize = 64;
pub const MAX_GROUPS: usize = 8;

/// The uses of a member, as bits. A free one is no part of the layout.
const FREE: usize = 1;
/// The keys of the parts of a record differ.
const KEY: usize = 2;
const REQUIRED: usize = 4;
/// Its presence makes the record odd.
const STRANGE: usize = 8;

pub type Row = [usize; 7];

/// The values that are usual for a member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Number,
    /// A number for the column of this index.
    Column(usize),
    /// A number that is at most this.
    Code(u64),
    /// A number, or bytes that are nothing but varints.
    Numbers,
    Bytes,
    /// Bytes of which there are none.
    Empty,
    /// UTF-8, not empty and without the banned texts.
    Text,
    /// An inner record of this scope.
    Record(usize),
    /// One of several parts, of this scope.
    Part(usize),
}

impl Form {
    fn of(code: usize, argument: usize) -> Result<Self> {
        Ok(match code {
            0 => Self::Number,
            1 => Self::Column(argument),
            2 => Self::Code(argument as u64),
            3 => Self::Numbers,
            4 => Self::Bytes,
            5 => Self::Empty,
            6 => Self::Text,
            7 => Self::Record(argument),
            8 => Self::Part(argument),
            _ => return Err(Corrupt(format!("a member is of form {code}"))),
        })
    }
}

pub struct Member {
    pub form: Form,
    /// A bit of its own.
    pub bit: u64,
    pub is_free: bool,
    pub is_strange: bool,
    /// Its place in the key of a part.
    pub key: Option<usize>,
    pub flags: u8,
    pub group: usize,
}

#[derive(Default)]
pub struct Scope {
    /// By number.
    members: Vec<Option<Member>>,
    /// The bits of the members that are required.
    pub required: u64,
}

impl Scope {
    #[inline]
    pub fn member(&self, number: u64) -> Option<&Member> {
        let number = usize::try_from(number).ok()?;
        self.members.get(number)?.as_ref()
    }
}

#[derive(Default)]
pub struct Description {
    /// That which repeats the record.
    pub number: u64,
    pub num_columns: usize,
    /// Members of the key of a part.
    pub num_keys: usize,
    /// Texts that no text contains.
    pub banned: Vec<String>,
    scopes: Vec<Scope>,
    parts: Option<usize>,
}

impl Description {
    /// Describes the records of a number by the rows of their members.
    pub fn of(number: u64, rows: &[Row], banned: Vec<String>) -> Result<Self> {
        below(rows.len(), MAX_MEMBERS + 1, "number of members")?;
        let mut made = Self {
            number,
            banned,
            ..Self::default()
        };
        made.scopes.resize_with(MAX_MEMBERS, Scope::default);
        for row in rows {
            made.add_form(row)?;
        }
        for (index, row) in rows.iter().enumerate() {
            made.add_member(index, row)?;
        }
        Ok(made)
    }

    /// Returns a scope, of which there are as many as a description may have.
    pub fn scope(&self, scope: usize) -> Result<&Scope> {
        self.scopes.get(scope).ok_or_else(|| out_of_range("scope"))
    }

    fn add_form(&mut self, &[scope, _, code, _, _, _, argument]: &Row) -> Result<()> {
        match Form::of(code, argument)? {
            Form::Column(column) => {
                below(column, MAX_MEMBERS, "column")?;
                self.num_columns = self.num_columns.max(column + 1);
            }
            Form::Record(inner) => inside(inner, scope)?,
            Form::Part(inner) => {
                inside(inner, scope)?;
                ensure(scope == 0, "scope that has parts", scope, 0)?;
                ensure(self.parts.is_none(), "members that are parts", 2, 1)?;
                self.parts = Some(inner);
            }
            _ => {}
        }
        Ok(())
    }

    fn add_member(&mut self, index: usize, row: &Row) -> Result<()> {
        let &[scope, number, code, uses, flags, group, argument] = row;
        below(number, MAX_NUMBER + 1, "number of a member")?;
        below(group, MAX_GROUPS, "group")?;
        let is_of_part = uses & (FREE | KEY) == 0 || self.parts == Some(scope);
        ensure(is_of_part, "scope of a key", scope, "that of the parts")?;
        let form = Form::of(code, argument)?;
        let is_apart = form != Form::Record(argument) || self.parts != Some(argument);
        ensure(is_apart, "scope of a record", argument, "not that of parts")?;
        let bit = 1_u64 << index;
        let key = (uses & KEY != 0).then_some(self.num_keys);
        self.num_keys += usize::from(key.is_some());
        let found = self.scopes.get_mut(scope);
        let scope = found.ok_or_else(|| out_of_range("scope"))?;
        if uses & REQUIRED != 0 {
            scope.required |= bit;
        }
        let num_members = scope.members.len().max(number + 1);
        scope.members.resize_with(num_members, || None);
        let found = scope.members.get_mut(number);
        let place = found.ok_or_else(|| out_of_range("number of a member"))?;
        ensure(place.is_none(), "members of one number", 2, 1)?;
        *place = Some(Member {
            form,
            bit,
            is_free: uses & FREE != 0,
            is_strange: uses & STRANGE != 0,
            key,
            flags: u8::try_from(flags).map_err(|_| out_of_range("flags"))?,
            group,
        });
        Ok(())
    }
}

fn below(found: usize, end: usize, what: &str) -> Result<()> {
    ensure(found < end, what, found, format!("less than {end}"))
}

fn inside(inner: usize, outer: usize) -> Result<()> {
    below(inner, MAX_MEMBERS, "scope")?;
    ensure(
        inner > outer,
        "scope inside a scope",
        inner,
        "a greater one",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn impossible_descriptions_are_refused() {
        let of = |rows: &[Row]| Description::of(1, rows, Vec::new()).map(|_| ());
        assert_eq!(of(&[[0, 1, 8, 0, 0, 0, 1], [1, 2, 4, 3, 0, 0, 0]]), Ok(()));
        for rows in [
            vec![[0, 1, 9, 0, 0, 0, 0]],
            vec![[0, 256, 0, 0, 0, 0, 0]],
            vec![[64, 1, 0, 0, 0, 0, 0]],
            vec![[0, 1, 0, 0, 256, 0, 0]],
            vec![[0, 1, 0, 0, 0, 8, 0]],
            vec![[0, 1, 1, 0, 0, 0, 64]],
            vec![[0, 1, 7, 0, 0, 0, 0]],
            vec![[0, 1, 7, 0, 0, 0, 64]],
            vec![[0, 1, 0, 2, 0, 0, 0]],
            vec![[0, 1, 8, 0, 0, 0, 1], [0, 2, 8, 0, 0, 0, 2]],
            vec![[0, 1, 8, 0, 0, 0, 1], [0, 2, 7, 0, 0, 0, 1]],
            vec![[1, 1, 8, 0, 0, 0, 2]],
            vec![[0, 1, 0, 0, 0, 0, 0]; 2],
            vec![[0, 1, 0, 0, 0, 0, 0]; 65],
        ] {
            assert!(of(&rows).is_err(), "{rows:?}");
        }
    }
}
