//! The numbers of words: a hash table of places in a list.
//!
//! A word is multiplied by a random odd factor, and the upper bits of the product choose its slot.
//! Most slots are free, so that the first one tried is nearly always the right one.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use crate::error::{Corrupt, Result};

const FIRST_BITS: u32 = 10;
/// With that few words, slots in the cache are cheap, and collisions are not.
const FEW: usize = 8192;

/// A word of 8 or 16 bytes.
pub trait Word: Copy + Eq {
    /// The upper half of its products with the factors, added up.
    fn mixed(self, factors: [u64; 2]) -> u32;
}

impl Word for u64 {
    #[inline]
    fn mixed(self, [factor, _]: [u64; 2]) -> u32 {
        upper(self.wrapping_mul(factor))
    }
}

impl Word for u128 {
    #[inline]
    fn mixed(self, factors: [u64; 2]) -> u32 {
        let [a, b, c, d, e, f, g, h, high @ ..] = self.to_le_bytes();
        let low = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let high = u64::from_le_bytes(high);
        let [for_low, for_high] = factors;
        upper(
            low.wrapping_mul(for_low)
                .wrapping_add(high.wrapping_mul(for_high)),
        )
    }
}

fn upper(product: u64) -> u32 {
    let [a, b, c, d, ..] = product.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// The numbers of words of one width.
pub struct WordTable<T> {
    /// A place plus one, 0 if the slot is free. The number of slots is a power of two.
    slots: Vec<u32>,
    /// Bits of a mixed word that do not choose its slot.
    shift: u32,
    /// Words and their numbers.
    known: Vec<(T, i32)>,
    factors: [u64; 2],
}

impl<T> Default for WordTable<T> {
    fn default() -> Self {
        let random = RandomState::default();
        Self {
            slots: vec![0; 1 << FIRST_BITS],
            shift: u32::BITS - FIRST_BITS,
            known: Vec::new(),
            factors: [0, 1].map(|number: u8| random.hash_one(number) | 1),
        }
    }
}

impl<T: Word> WordTable<T> {
    /// Returns the number of a word, or the slot for it if it is new.
    #[inline]
    pub fn find(&self, word: T) -> Result<std::result::Result<i32, usize>> {
        let last = self.slots.len().wrapping_sub(1);
        let mut at = self.slot_of(word);
        loop {
            let Some(slot) = self.slots.get(at & last) else {
                return Err(Corrupt("a table of words has no slots".into()));
            };
            match self.known.get((*slot as usize).wrapping_sub(1)) {
                Some((other, number)) if *other == word => return Ok(Ok(*number)),
                Some(_) => at = at.wrapping_add(1),
                None => return Ok(Err(at & last)),
            }
        }
    }

    /// Writes the numbers of the first words to `numbers`, up to a new word; returns how many.
    ///
    /// A loop of its own over parts of the table that do not change takes half the time.
    pub fn number_known<W>(
        &self,
        words: &[W],
        read: impl Fn(&W) -> T,
        numbers: &mut [i32],
    ) -> usize {
        let (slots, known) = (self.slots.as_slice(), self.known.as_slice());
        let (last, factors, shift) = (slots.len().wrapping_sub(1), self.factors, self.shift);
        let mut done = 0;
        'words: for (number, word) in numbers.iter_mut().zip(words) {
            let word = read(word);
            let mut at = (word.mixed(factors) >> shift) as usize;
            loop {
                let slot = slots.get(at & last);
                match slot.and_then(|place| known.get((*place as usize).wrapping_sub(1))) {
                    Some((other, found)) if *other == word => {
                        *number = *found;
                        break;
                    }
                    Some(_) => at = at.wrapping_add(1),
                    None => break 'words,
                }
            }
            done += 1;
        }
        done
    }

    /// Gives a word, which is new, a number, which is returned.
    #[cold]
    pub fn add(&mut self, word: T, free: usize, number: usize) -> Result<i32> {
        let number =
            i32::try_from(number).map_err(|_| Corrupt("more than 2^31 different values".into()))?;
        self.known.push((word, number));
        let place = u32::try_from(self.known.len())
            .map_err(|_| Corrupt("more than 2^32 different values".into()))?;
        if let Some(slot) = self.slots.get_mut(free) {
            *slot = place;
        }
        self.make_room();
        Ok(number)
    }

    #[inline]
    fn slot_of(&self, word: T) -> usize {
        (word.mixed(self.factors) >> self.shift) as usize
    }

    /// Doubles the slots if too many are taken.
    fn make_room(&mut self) {
        let slots_each = if self.known.len() < FEW { 8 } else { 3 };
        if slots_each * self.known.len() <= self.slots.len() || self.shift == 0 {
            return;
        }
        self.slots = vec![0; 2 * self.slots.len()];
        self.shift -= 1;
        let last = self.slots.len() - 1;
        for (place, (word, _)) in (1..).zip(&self.known) {
            let mut at = self.slot_of(*word);
            while self.slots.get(at & last).is_some_and(|slot| *slot != 0) {
                at = at.wrapping_add(1);
            }
            if let Some(slot) = self.slots.get_mut(at & last) {
                *slot = place;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn numbers_of<T: Word>(words: &[T]) -> Vec<i32> {
        let mut table = WordTable::default();
        words
            .iter()
            .enumerate()
            .map(|(place, word)| match table.find(*word).unwrap() {
                Ok(number) => number,
                Err(free) => table.add(*word, free, place).unwrap(),
            })
            .collect()
    }

    #[test]
    fn words_that_differ_in_few_bits_are_told_apart() {
        let all: Vec<i32> = (0..10_000).collect();
        for shift in [0, 20, 50] {
            let words: Vec<u64> = (0..10_000).map(|word| word << shift).collect();
            assert_eq!(numbers_of(&words), all);
        }
        for shift in [0, 60, 114] {
            let words: Vec<u128> = (0..10_000).map(|word| word << shift).collect();
            assert_eq!(numbers_of(&words), all);
        }
        assert_eq!(numbers_of(&[7u64, 0, 7, 0, 1]), [0, 1, 0, 1, 4]);
    }
}
