//! The rows of one key while they are collected, in about two bytes for each row.
//!
//! ```text
//! run      the row minus the one before it in zigzag, as a varint of 7 bits in each byte
//! ```
//!
//! Rows of a key mostly ascend, so that differences are small.

/// The fewest bytes that are allocated at once.
const FEWEST_BYTES: usize = 8;

/// The rows of one key.
#[derive(Debug, Default, Clone)]
pub struct Run {
    last: u64,
    is_unordered: bool,
    data: Vec<u8>,
}

impl Run {
    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Whether each row is greater than the one before it.
    pub fn is_ascending(&self) -> bool {
        !self.is_unordered
    }

    /// The bytes of the rows.
    pub fn size_bytes(&self) -> usize {
        self.data.len()
    }

    /// Adds a row, unless it is the one before again.
    #[inline]
    pub fn push(&mut self, row: u64) {
        if row <= self.last && !self.data.is_empty() {
            if row == self.last {
                return;
            }
            self.is_unordered = true;
        }
        let difference = row.wrapping_sub(self.last).cast_signed();
        let mut left = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
        self.last = row;
        while left >= 0x80 {
            self.push_byte(low_byte(left) | 0x80);
            left >>= 7;
        }
        self.push_byte(low_byte(left));
    }

    #[inline]
    fn push_byte(&mut self, byte: u8) {
        if self.data.len() == self.data.capacity() {
            // By a quarter, for there are very many runs, and the rest of each is of no use.
            let more = self.data.len() / 4;
            self.data.reserve_exact(more.max(FEWEST_BYTES));
        }
        self.data.push(byte);
    }

    /// The rows in the order in which they were added.
    pub fn rows(&self) -> impl Iterator<Item = u64> {
        let (mut bytes, mut row) = (self.data.iter(), 0_u64);
        std::iter::from_fn(move || {
            let (mut word, mut shift) = (0_u64, 0);
            loop {
                let byte = *bytes.next()?;
                word |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    let difference = (word >> 1) ^ (word & 1).wrapping_neg();
                    row = row.wrapping_add(difference);
                    return Some(row);
                }
                shift += 7;
            }
        })
    }
}

#[allow(clippy::cast_possible_truncation)]
fn low_byte(number: u64) -> u8 {
    number as u8
}
