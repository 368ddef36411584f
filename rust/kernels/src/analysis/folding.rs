//! Folding to ASCII: `é` becomes `e`, `ﬁ` becomes `fi`, `½` becomes `12`.
//!
//! Each line of the table is the replacement, a blank, and the characters that it replaces. These
//! are the letters that Unicode decomposes to ASCII, and some more such as `ß`, `Ø` and `Ł`. All
//! others stay, and so do combining marks by themselves.

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::RandomState;

static TABLE: LazyLock<HashMap<char, &str, RandomState>> = LazyLock::new(|| {
    include_str!("folding.txt")
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .flat_map(|(to, from)| from.chars().map(move |c| (c, to)))
        .collect()
});

/// Folds each character by itself.
pub fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        match TABLE.get(&c) {
            Some(to) if !c.is_ascii() => folded.push_str(to),
            _ => folded.push(c),
        }
    }
    folded
}
