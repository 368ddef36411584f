//! Errors that describe damaged bytes; the callers add the place.

use std::fmt::Display;

/// Bytes that contradict the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrupt(pub String);

impl Corrupt {
    /// Prefixes the message with a place.
    pub fn at(self, place: impl Display) -> Self {
        Self(format!("{place}: {}", self.0))
    }
}

impl Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Corrupt {}

pub type Result<T> = std::result::Result<T, Corrupt>;

/// Fails with "what: expected …, found …" unless `holds`.
pub fn ensure(holds: bool, what: &str, found: impl Display, expected: impl Display) -> Result<()> {
    if holds {
        Ok(())
    } else {
        Err(Corrupt(format!(
            "{what}: expected {expected}, found {found}"
        )))
    }
}

/// `len` items of `data` from `start`, or an error that names them.
pub fn part<'a, T>(data: &'a [T], start: usize, len: usize, what: &str) -> Result<&'a [T]> {
    start
        .checked_add(len)
        .and_then(|end| data.get(start..end))
        .ok_or_else(|| {
            Corrupt(format!(
                "{what}: expected {len} from position {start}, found {} in all",
                data.len()
            ))
        })
}

/// All items of `data` from `start`, or an error that names them.
#[inline]
pub fn rest<'a, T>(data: &'a [T], start: usize, what: &str) -> Result<&'a [T]> {
    data.get(start..).ok_or_else(|| out_of_range(what))
}

/// The error for a computed index that is out of range.
#[cold]
pub fn out_of_range(what: &str) -> Corrupt {
    Corrupt(format!("{what}: out of range"))
}

/// Appends `count` zero bytes and returns them, to be filled.
#[inline]
pub fn grow(out: &mut Vec<u8>, count: usize) -> &mut [u8] {
    let start = out.len();
    out.resize(start + count, 0);
    out.split_at_mut(start).1
}

/// Converts a number to an end or a position that Arrow holds in 64 bits.
#[inline]
pub fn signed(n: usize, what: &str) -> Result<i64> {
    i64::try_from(n).map_err(|_| out_of_range(what))
}

/// Converts a number of the file to a size in memory.
pub fn size(n: impl TryInto<usize> + Display + Copy, what: &str) -> Result<usize> {
    n.try_into()
        .map_err(|_| Corrupt(format!("{what}: {n} is out of range")))
}

/// Reads a little-endian u16 at `start`.
pub fn u16_at(data: &[u8], start: usize, what: &str) -> Result<u16> {
    Ok(u16::from_le_bytes(array_at(data, start, what)?))
}

/// Reads a little-endian u32 at `start`.
pub fn u32_at(data: &[u8], start: usize, what: &str) -> Result<u32> {
    Ok(u32::from_le_bytes(array_at(data, start, what)?))
}

/// Reads a little-endian u64 at `start`.
pub fn u64_at(data: &[u8], start: usize, what: &str) -> Result<u64> {
    Ok(u64::from_le_bytes(array_at(data, start, what)?))
}

fn array_at<const N: usize>(data: &[u8], start: usize, what: &str) -> Result<[u8; N]> {
    let bytes = part(data, start, N, what)?;
    bytes
        .first_chunk()
        .copied()
        .ok_or_else(|| out_of_range(what))
}
