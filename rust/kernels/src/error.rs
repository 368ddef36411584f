//! What is wrong with the bytes, in numbers; the callers add where.

use std::fmt::Display;

/// Bytes that contradict the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrupt(pub String);

impl Corrupt {
    /// Adds a place in front of the message.
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

/// A number of the file as a size in memory.
pub fn size(n: impl TryInto<usize> + Display + Copy, what: &str) -> Result<usize> {
    n.try_into()
        .map_err(|_| Corrupt(format!("{what}: {n} is out of range")))
}

/// Reads a little-endian u16 at `start`.
pub fn u16_at(data: &[u8], start: usize, what: &str) -> Result<u16> {
    Ok(u16::from_le_bytes(array(part(data, start, 2, what)?)))
}

/// Reads a little-endian u32 at `start`.
pub fn u32_at(data: &[u8], start: usize, what: &str) -> Result<u32> {
    Ok(u32::from_le_bytes(array(part(data, start, 4, what)?)))
}

/// Reads a little-endian u64 at `start`.
pub fn u64_at(data: &[u8], start: usize, what: &str) -> Result<u64> {
    Ok(u64::from_le_bytes(array(part(data, start, 8, what)?)))
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk::<N>().copied().unwrap_or([0; N])
}
