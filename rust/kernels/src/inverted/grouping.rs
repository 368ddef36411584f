//! Occurrences of tokens in documents, grouped by token.
//!
//!     batch       tokens 7 3 7 | 3        positions 0 1 2 | 0        ends of documents 3 4
//!     entries     token 3: document 0 once, document 1 once;  token 7: document 0 twice
//!
//! Tokens are sorted by counting them, which keeps documents and positions in their order.

use crate::error::{Result, ensure, out_of_range, part, signed, size};

/// Documents in the order of their numbers, as the analysis of texts returns them.
pub struct Batch<'a> {
    /// The token of each occurrence.
    pub tokens: &'a [u32],
    /// The position of each occurrence; none if they are not stored.
    pub positions: Option<&'a [u32]>,
    /// Where the occurrences of each document end.
    pub ends: &'a [i64],
}

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

/// Groups the occurrences of batches, whose documents are numbered from 0 on.
pub fn group(batches: &[Batch<'_>], num_tokens: usize) -> Result<Entries> {
    let mut starts = starts_of(batches.iter().map(|batch| batch.tokens), num_tokens)?;
    let total: usize = batches.iter().map(|batch| batch.tokens.len()).sum();
    let with_positions = batches.iter().any(|batch| batch.positions.is_some());
    let mut sorted = vec![(0u32, 0u32); total];
    let mut document = 0u32;
    for batch in batches {
        ensure(
            batch
                .positions
                .map_or(!with_positions, |all| all.len() == batch.tokens.len()),
            "positions",
            batch.positions.map_or(0, <[u32]>::len),
            batch.tokens.len(),
        )?;
        let mut start = 0;
        for &end in batch.ends {
            let end = size(end, "end of a document")?;
            let count = end
                .checked_sub(start)
                .ok_or_else(|| out_of_range("end of a document"))?;
            let tokens = part(batch.tokens, start, count, "tokens of a document")?;
            for (i, &token) in tokens.iter().enumerate() {
                let position = match batch.positions {
                    None => 0,
                    Some(all) => *all
                        .get(start + i)
                        .ok_or_else(|| out_of_range("positions"))?,
                };
                let slot = starts
                    .get_mut(token as usize)
                    .ok_or_else(|| out_of_range("token"))?;
                *sorted.get_mut(*slot).ok_or_else(|| out_of_range("token"))? = (document, position);
                *slot += 1;
            }
            start = end;
            document = document
                .checked_add(1)
                .ok_or_else(|| out_of_range("number of documents"))?;
        }
        ensure(
            start == batch.tokens.len(),
            "tokens",
            batch.tokens.len(),
            start,
        )?;
    }
    starts.truncate(num_tokens);
    entries_of(&sorted, &starts, with_positions)
}

/// Where the occurrences of each token begin.
fn starts_of<'a>(tokens: impl Iterator<Item = &'a [u32]>, num_tokens: usize) -> Result<Vec<usize>> {
    let mut starts = vec![0usize; num_tokens + 1];
    for token in tokens.flatten() {
        *starts
            .get_mut(*token as usize + 1)
            .ok_or_else(|| out_of_range("token"))? += 1;
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    Ok(starts)
}

/// Joins occurrences in the same document; `ends` is where those of each token end.
fn entries_of(sorted: &[(u32, u32)], ends: &[usize], with_positions: bool) -> Result<Entries> {
    let mut entries = Entries::default();
    entries.ends.reserve(ends.len());
    if with_positions {
        entries.positions = sorted.iter().map(|occurrence| occurrence.1).collect();
    }
    let mut start = 0;
    for &end in ends {
        let count = end
            .checked_sub(start)
            .ok_or_else(|| out_of_range("token"))?;
        let own = part(sorted, start, count, "occurrences")?;
        for same in own.chunk_by(|a, b| a.0 == b.0) {
            let Some((document, _)) = same.first() else {
                continue;
            };
            entries.documents.push(*document);
            let frequency = u32::try_from(same.len());
            entries
                .frequencies
                .push(frequency.map_err(|_| out_of_range("frequency"))?);
        }
        entries
            .ends
            .push(signed(entries.documents.len(), "entries")?);
        start = end;
    }
    Ok(entries)
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
    fn occurrences_are_grouped() {
        let batch = Batch {
            tokens: &[7, 3, 7, 3],
            positions: Some(&[0, 1, 2, 0]),
            ends: &[3, 4],
        };
        let entries = group(&[batch], 8).unwrap();
        assert_eq!(entries.ends, [0, 0, 0, 2, 2, 2, 2, 3]);
        assert_eq!(entries.documents, [0, 1, 0]);
        assert_eq!(entries.frequencies, [1, 1, 2]);
        assert_eq!(entries.positions, [1, 0, 0, 2]);
    }

    #[test]
    fn tokens_and_ends_that_contradict_each_other_are_refused() {
        let batch = |tokens, ends| Batch {
            tokens,
            positions: None,
            ends,
        };
        assert!(group(&[batch(&[8], &[1])], 8).is_err());
        assert!(group(&[batch(&[1], &[2])], 8).is_err());
        assert!(group(&[batch(&[1, 2], &[1])], 8).is_err());
        assert!(group(&[batch(&[1, 2], &[2, 1])], 8).is_err());
    }

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
