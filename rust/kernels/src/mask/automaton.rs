//! Patterns of texts that are tested on FSST codes, without decompressing them.
//!
//!     LIKE 'ab%ca%'    1 --a--> 2 --b--> 3 --c--> 4 --a--> 5      5: every byte stays
//!                      other bytes: dead     4: c stays, other bytes lead to 3
//! A state says how much of the pattern has been found. The symbol of a code moves it by several
//! bytes at once, with one look-up. An escape moves a state to its twin, which the byte that follows
//! moves on.

use super::pattern::Pattern;
use super::texts::Texts;
use crate::error::{Corrupt, Result};
use crate::fsst::{ESCAPE, SymbolTable};

/// The state of texts that cannot match any more.
const DEAD: u8 = 0;
const START: u8 = 1;
/// The state of texts with a code that the table does not have.
const UNKNOWN: u8 = 255;
/// The most states; they, their twins and `UNKNOWN` are numbered by one byte.
const MOST_STATES: usize = 126;

type Moves = [u8; 256];

/// An automaton that reads the codes of one symbol table.
#[derive(Debug)]
pub struct Automaton {
    /// The next state, by state and code.
    next: Box<[u8; 1 << 16]>,
    num_states: u8,
    accepting: u8,
    inverted: bool,
}

impl Automaton {
    /// Prepares a test of texts; None if it is none for an automaton of this size.
    pub fn new(texts: &Texts, table: &SymbolTable) -> Option<Self> {
        let states = match texts {
            Texts::Like(pattern) => of_pattern(pattern)?,
            Texts::Among(among) => of_text(among.only()?)?,
            Texts::Not(inner) => {
                let found = Self::new(inner, table)?;
                let inverted = !found.inverted;
                return Some(Self { inverted, ..found });
            }
            Texts::Within(..) | Texts::Wild(_) | Texts::And(..) => return None,
        };
        let num_states = u8::try_from(states.len()).ok()?;
        let mut next = vec![UNKNOWN; 1 << 16].into_boxed_slice();
        let (rows, _) = next.as_chunks_mut::<256>();
        for (state, (row, number)) in rows.iter_mut().zip(0..num_states).enumerate() {
            for (code, slot) in (0..=u8::MAX).zip(row.iter_mut()) {
                *slot = match table.symbol(code) {
                    _ if code == ESCAPE => number + num_states,
                    [] => UNKNOWN,
                    symbol => moved(&states, state, symbol),
                };
            }
        }
        for (row, moves) in rows.iter_mut().skip(states.len()).zip(&states) {
            *row = *moves;
        }
        Some(Self {
            next: next.try_into().ok()?,
            num_states,
            accepting: num_states - 1,
            inverted: false,
        })
    }

    /// Whether the text of some codes is in the set.
    #[inline]
    #[allow(clippy::indexing_slicing)] // two bytes are an index of the table
    pub fn test(&self, codes: &[u8]) -> Result<bool> {
        let mut state = START;
        for &code in codes {
            state = self.next[usize::from(state) << 8 | usize::from(code)];
            if state == DEAD {
                break;
            }
        }
        if state >= self.num_states {
            return Err(damaged(state));
        }
        Ok((state == self.accepting) != self.inverted)
    }
}

#[cold]
fn damaged(state: u8) -> Corrupt {
    Corrupt(if state == UNKNOWN {
        "fsst code: expected a symbol, found one that the table does not have".into()
    } else {
        "fsst: escape at the end".into()
    })
}

/// The state after some bytes.
fn moved(states: &[Moves], state: usize, bytes: &[u8]) -> u8 {
    let step = |state: usize, byte: &u8| {
        let moves = states.get(state);
        usize::from(moves.map_or(DEAD, |moves| after(moves, *byte)))
    };
    let state = bytes.iter().fold(state, step);
    u8::try_from(state).unwrap_or(DEAD) // states are numbered by bytes
}

fn after(moves: &Moves, byte: u8) -> u8 {
    moves.get(usize::from(byte)).copied().unwrap_or(DEAD) // every byte is an index
}

/// The moves by bytes of each state, of which the last one is accepting, for one text.
fn of_text(text: &[u8]) -> Option<Vec<Moves>> {
    if text.len() + 2 > MOST_STATES {
        return None;
    }
    let mut states = vec![[DEAD; 256]];
    push_prefix(&mut states, text);
    states.push([DEAD; 256]);
    Some(states)
}

/// The same for a pattern.
fn of_pattern(pattern: &Pattern) -> Option<Vec<Moves>> {
    let parts: usize = pattern.parts().map(<[u8]>::len).sum();
    if pattern.prefix.len() + parts + pattern.suffix.len() + 2 > MOST_STATES {
        return None;
    }
    let mut states = vec![[DEAD; 256]];
    push_prefix(&mut states, &pattern.prefix);
    for part in pattern.parts() {
        push_part(&mut states, part);
    }
    let first = states.len();
    push_part(&mut states, &pattern.suffix);
    let end = failures(&pattern.suffix).last().map(|back| first + back);
    let last = match end.and_then(|back| states.get(back)) {
        Some(moves) => *moves,
        None => [u8::try_from(first).ok()?; 256],
    };
    states.push(last);
    Some(states)
}

/// Appends the states that expect the bytes of a prefix.
fn push_prefix(states: &mut Vec<Moves>, prefix: &[u8]) {
    for byte in prefix {
        let next = states.len() + 1;
        let mut moves = [DEAD; 256];
        set(&mut moves, *byte, next);
        states.push(moves);
    }
}

/// Appends the states that search a part; the state after them has found it.
fn push_part(states: &mut Vec<Moves>, part: &[u8]) {
    let first = states.len();
    for (found, (byte, back)) in part.iter().zip(failures(part)).enumerate() {
        let mut moves = match states.get(first + back) {
            Some(moves) if found > 0 => *moves,
            _ => [u8::try_from(first).unwrap_or(DEAD); 256], // states are numbered by bytes
        };
        set(&mut moves, *byte, first + found + 1);
        states.push(moves);
    }
}

fn set(moves: &mut Moves, byte: u8, state: usize) {
    if let (Some(slot), Ok(state)) = (moves.get_mut(usize::from(byte)), u8::try_from(state)) {
        *slot = state;
    }
}

/// For each number of bytes found, up to all: the most bytes found that end at the same place.
fn failures(part: &[u8]) -> Vec<usize> {
    let mut found = vec![0];
    for end in 1..=part.len() {
        let head = part.get(..end).unwrap_or(&[]);
        let border = (0..end)
            .rev()
            .find(|&size| head.ends_with(head.get(..size).unwrap_or(&[])));
        found.push(border.unwrap_or(0));
    }
    if part.is_empty() {
        found.clear();
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    use super::*;
    use crate::bitmap::{BitmapBuilder, bit};
    use crate::fsst_writer::compress;
    use crate::mask::texts::Strings;
    use crate::offsets::OffsetsIn;

    /// All texts of up to seven letters, of which some are not in the table.
    fn texts() -> Vec<Vec<u8>> {
        let mut texts = vec![Vec::new()];
        for size in 0..7 {
            let shorter: Vec<_> = texts.iter().filter(|t| t.len() == size).cloned().collect();
            for text in shorter {
                texts.extend([b'a', b'b'].map(|letter| [text.as_slice(), &[letter]].concat()));
            }
        }
        texts.extend([&b"xyz"[..], b"ab\xff", b"\xffab", b"a\xffb"].map(<[u8]>::to_vec));
        texts
    }

    #[test]
    fn codes_are_tested_as_the_texts_are() {
        let texts = texts();
        let mut ends = vec![0];
        ends.extend(texts.iter().scan(0, |end, text| {
            *end += text.len();
            Some(*end)
        }));
        let (data, offsets) = (texts.concat(), ends.iter().map(|&end| end as i64).collect());
        let offsets: Vec<i64> = offsets;
        let made = compress(OffsetsIn::Large(&offsets), &data).unwrap();
        let table = SymbolTable::parse(&made.table).unwrap();
        let strings = Strings::new(&ends, &data).unwrap();
        let some = |parts: &[&str]| -> Vec<Vec<u8>> {
            parts.iter().map(|part| part.as_bytes().to_vec()).collect()
        };
        let mut wanted = vec![Texts::among(some(&["abab"]).into_iter())];
        for prefix in ["", "a", "aba"] {
            for parts in [&[][..], &["ab"], &["aab"], &["abaab"], &["a", "bb"]] {
                for suffix in ["", "b", "aba", "bb"] {
                    let pattern = Pattern::new(prefix.as_bytes(), &some(parts), suffix.as_bytes());
                    wanted.push(Texts::Like(pattern));
                }
            }
        }
        for texts in wanted.iter().flat_map(|texts| [texts.clone(), texts.not()]) {
            let automaton = Automaton::new(&texts, &table).unwrap();
            let mut bits = BitmapBuilder::default();
            texts.test(&strings, &mut bits);
            let bits = bits.finish();
            for (row, pair) in made.offsets.windows(2).enumerate() {
                let codes = &made.data[pair[0] as usize..pair[1] as usize];
                let found = automaton.test(codes).unwrap();
                assert_eq!(found, bit(&bits, row), "{texts:?} of row {row}");
            }
        }
    }

    #[test]
    fn damaged_codes_are_errors() {
        let made = compress(OffsetsIn::Large(&[0, 8]), b"aaaaaaaa").unwrap();
        let table = SymbolTable::parse(&made.table).unwrap();
        let contains = Texts::Like(Pattern::new(b"", &[b"xyz".to_vec()], b""));
        let automaton = Automaton::new(&contains, &table).unwrap();
        assert!(automaton.test(&[254]).is_err());
        assert!(automaton.test(&[255]).is_err());
        assert!(!automaton.test(&[255, 254]).unwrap());
    }

    #[test]
    fn long_patterns_have_no_automaton() {
        let table = SymbolTable::parse(&[0; crate::fsst::TABLE_BYTES]).unwrap();
        let long = vec![b'a'; 200];
        assert!(Automaton::new(&Texts::among([long].into_iter()), &table).is_none());
    }
}
