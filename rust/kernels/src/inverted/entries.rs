//! Entries of tokens: their documents, and how often and where they occur in these.
//!
//!     entries     token 3: document 0 once, document 1 once;  token 7: document 0 twice

use crate::error::{Result, ensure, out_of_range, part, signed, size};

/// Entries of tokens, in the order of tokens and documents.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Where the entries of each token end.
    pub ends: Vec<i64>,
    pub documents: Vec<u32>,
    pub frequencies: Vec<u32>,
    /// As many for each entry as its frequency; empty if they are not stored.
    pub positions: Vec<u32>,
}

/// Entries of some tokens of a partition, to be joined with those of others.
pub struct Source<'a> {
    /// The token of the result to which the entries of each token belong.
    pub tokens: &'a [u32],
    /// Where the entries of each token end.
    pub ends: &'a [i64],
    pub documents: &'a [u32],
    pub frequencies: &'a [u32],
    /// As many for each entry as its frequency.
    pub positions: Option<&'a [u32]>,
    /// The new number of each document; `GONE` if it is left out.
    pub numbers: &'a [u32],
}

/// The number of a document that is left out.
pub const GONE: u32 = u32::MAX;

/// Joins entries of several sources token by token, in the order of the sources.
pub fn join(sources: &[Source<'_>], num_tokens: usize) -> Result<Entries> {
    let mut owners: Vec<Vec<(usize, usize)>> = vec![Vec::new(); num_tokens];
    for (number, source) in sources.iter().enumerate() {
        ensure(
            source.tokens.len() == source.ends.len(),
            "tokens",
            source.tokens.len(),
            source.ends.len(),
        )?;
        for (index, &token) in source.tokens.iter().enumerate() {
            owners
                .get_mut(token as usize)
                .ok_or_else(|| out_of_range("token"))?
                .push((number, index));
        }
    }
    let firsts = sources
        .iter()
        .map(first_positions)
        .collect::<Result<Vec<_>>>()?;
    let mut entries = Entries::default();
    for owner in owners {
        for (number, index) in owner {
            let missing = || out_of_range("source");
            let source = sources.get(number).ok_or_else(missing)?;
            let firsts = firsts.get(number).ok_or_else(missing)?;
            append(source, index, firsts, &mut entries)?;
        }
        entries
            .ends
            .push(signed(entries.documents.len(), "entries")?);
    }
    Ok(entries)
}

/// Where the positions of the entries of each token begin.
fn first_positions(source: &Source<'_>) -> Result<Vec<usize>> {
    let mut firsts = Vec::with_capacity(source.ends.len());
    let (mut start, mut sum) = (0, 0usize);
    for &end in source.ends {
        firsts.push(sum);
        let end = size(end, "end of a token")?;
        let count = end
            .checked_sub(start)
            .ok_or_else(|| out_of_range("end of a token"))?;
        let own = part(source.frequencies, start, count, "frequencies")?;
        sum += own
            .iter()
            .map(|&frequency| frequency as usize)
            .sum::<usize>();
        start = end;
    }
    Ok(firsts)
}

/// Appends the entries of a token that are left.
fn append(source: &Source<'_>, index: usize, firsts: &[usize], out: &mut Entries) -> Result<()> {
    let missing = || out_of_range("entries");
    let end = size(
        *source.ends.get(index).ok_or_else(missing)?,
        "end of a token",
    )?;
    let start = match index.checked_sub(1) {
        None => 0,
        Some(before) => size(
            *source.ends.get(before).ok_or_else(missing)?,
            "end of a token",
        )?,
    };
    let count = end.checked_sub(start).ok_or_else(missing)?;
    let documents = part(source.documents, start, count, "documents")?;
    let frequencies = part(source.frequencies, start, count, "frequencies")?;
    let mut position = *firsts.get(index).ok_or_else(missing)?;
    for (&document, &frequency) in documents.iter().zip(frequencies) {
        let number = *source.numbers.get(document as usize).ok_or_else(missing)?;
        if number != GONE {
            out.documents.push(number);
            out.frequencies.push(frequency);
            if let Some(positions) = source.positions {
                let own = part(positions, position, frequency as usize, "positions")?;
                out.positions.extend_from_slice(own);
            }
        }
        position += frequency as usize;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sources_are_joined() {
        let first = Source {
            tokens: &[1, 0],
            ends: &[2, 3],
            documents: &[0, 1, 1],
            frequencies: &[1, 2, 1],
            positions: Some(&[5, 6, 7, 8]),
            numbers: &[GONE, 0],
        };
        let second = Source {
            tokens: &[1],
            ends: &[1],
            documents: &[0],
            frequencies: &[1],
            positions: Some(&[9]),
            numbers: &[1],
        };
        let entries = join(&[first, second], 2).unwrap();
        assert_eq!(entries.ends, [1, 3]);
        assert_eq!(entries.documents, [0, 0, 1]);
        assert_eq!(entries.frequencies, [1, 2, 1]);
        assert_eq!(entries.positions, [8, 6, 7, 9]);
    }
}
