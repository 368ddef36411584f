//! Places among ascending integers that are about evenly distributed, as most ids are.
//!
//! ```text
//! keys    3  9  14  20  27       the 14 lies (14 - 3) / (27 - 3) of the way, at place 2 of 0 to 4
//! ```
//!
//! Guesses of many keys wait for the memory together. Halving waits for many loads, one after the
//! other, and passing all keys for the memory as a whole.

/// An integer whose distance from a smaller one is known.
pub trait Number: Ord + Copy {
    /// The distance from `lower`, which is not greater.
    fn above(self, lower: Self) -> u64;
}

impl Number for i64 {
    fn above(self, lower: Self) -> u64 {
        self.wrapping_sub(lower).cast_unsigned()
    }
}

impl Number for u64 {
    fn above(self, lower: Self) -> u64 {
        self.wrapping_sub(lower)
    }
}

impl Number for i32 {
    fn above(self, lower: Self) -> u64 {
        self.wrapping_sub(lower).cast_unsigned().into()
    }
}

impl Number for u32 {
    fn above(self, lower: Self) -> u64 {
        self.wrapping_sub(lower).into()
    }
}

/// So many keys are guessed together, at most.
pub const BLOCK: usize = 64;
/// Keys on each side of a guess that are searched.
const NEAR: usize = 8;
/// So often guesses are mended by the distance of the keys that are there, if this avoids passing
/// `FAR` keys for each wanted one. Otherwise, only keys almost without gaps are worth it.
const ROUNDS: usize = 4;
const FAR: usize = 512;
/// A few wrong guesses say nothing, and a quarter of all are worth the others.
const FEW: usize = 8;

/// Ascending keys whose places are guessed.
pub struct EvenKeys<'a, T> {
    keys: &'a [T],
    least: T,
    most: T,
    /// Places for a distance of one, in units of 2^-64.
    density: u128,
    rounds: usize,
    guesses: [usize; BLOCK],
    num_right: usize,
    num_wrong: usize,
}

impl<'a, T: Number> EvenKeys<'a, T> {
    /// None if there are no keys, or not in order; `num_wanted` places are going to be guessed.
    pub fn new(keys: &'a [T], num_wanted: usize) -> Option<Self> {
        let (&least, &most) = (keys.first()?, keys.last()?);
        if least > most {
            return None;
        }
        let steps = u128::try_from(keys.len() - 1).ok()?;
        let density = (steps << u64::BITS) / u128::from(most.above(least).max(1));
        Some(Self {
            keys,
            least,
            most,
            density,
            rounds: if keys.len() / num_wanted.max(1) < FAR {
                1
            } else {
                ROUNDS
            },
            guesses: [0; BLOCK],
            num_right: 0,
            num_wrong: 0,
        })
    }

    /// Guesses the places of a block of wanted keys.
    pub fn guess(&mut self, wanted: &[T]) {
        let mut guesses = self.guesses;
        for (guess, one) in guesses.iter_mut().zip(wanted) {
            *guess = self.steps((*one).clamp(self.least, self.most).above(self.least));
        }
        for _ in 0..self.rounds {
            let mut most_steps = 0;
            for (guess, one) in guesses.iter_mut().zip(wanted) {
                let (next, steps) = self.nearer(*guess, *one);
                *guess = next;
                most_steps = most_steps.max(steps);
            }
            if most_steps < NEAR {
                break;
            }
        }
        self.guesses = guesses;
    }

    /// The place of the first key that is not less than the wanted one at a place of the block;
    /// None if the guess was wrong.
    pub fn first_not_less(&mut self, place: usize, wanted: T) -> Option<usize> {
        let guess = *self.guesses.get(place)?;
        if self.is_first(guess, wanted) {
            self.num_right += 1;
            return Some(guess);
        }
        let low = guess.saturating_sub(NEAR);
        let near = self.keys.get(low..self.keys.len().min(guess + NEAR))?;
        let found = low + near.partition_point(|key| *key < wanted);
        let (is_first, is_last) = (found == low, found == low + near.len());
        let is_right = (!is_first || low == 0) && (!is_last || found == self.keys.len());
        if is_right {
            self.num_right += 1;
        } else {
            self.num_wrong += 1;
        }
        is_right.then_some(found)
    }

    /// Whether guesses were right often enough to go on.
    pub fn are_even(&self) -> bool {
        self.num_wrong <= FEW + self.num_right / 4
    }

    /// Whether a guess is the place itself, so that no other keys are loaded.
    fn is_first(&self, guess: usize, wanted: T) -> bool {
        let is_not_less = self.keys.get(guess).is_some_and(|key| *key >= wanted);
        let last = guess.checked_sub(1).and_then(|last| self.keys.get(last));
        is_not_less && last.is_none_or(|key| *key < wanted)
    }

    /// A guess that is nearer, and the number of places between both.
    fn nearer(&self, guess: usize, wanted: T) -> (usize, usize) {
        let wanted = wanted.clamp(self.least, self.most);
        let key = self.keys.get(guess).copied().unwrap_or(self.most);
        let key = key.clamp(self.least, self.most); // also if it is not in order
        let steps = self.steps(key.max(wanted).above(key.min(wanted)));
        let next = if key < wanted {
            (guess + steps).min(self.keys.len() - 1)
        } else {
            guess.saturating_sub(steps)
        };
        (next, steps)
    }

    /// The number of places for a distance, which is at most that of all keys.
    fn steps(&self, distance: u64) -> usize {
        usize::try_from((u128::from(distance) * self.density) >> u64::BITS).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agrees<T: Number + std::fmt::Debug>(keys: &[T], wanted: &[T]) -> usize {
        let mut count = 0;
        let Some(mut even) = EvenKeys::new(keys, 1) else {
            return count;
        };
        for block in wanted.chunks(BLOCK) {
            even.guess(block);
            for (place, one) in block.iter().enumerate() {
                if let Some(found) = even.first_not_less(place, *one) {
                    assert_eq!(found, keys.partition_point(|key| key < one), "{one:?}");
                    count += 1;
                }
            }
        }
        count
    }

    #[test]
    fn even_keys_are_found() {
        let keys: Vec<i64> = (-5000..5000).map(|key| key * 10 + key % 7).collect();
        let mut wanted: Vec<i64> = (-60000..60000).collect();
        wanted.extend([i64::MIN, i64::MAX]);
        assert_eq!(agrees(&keys, &wanted), wanted.len());
        assert_eq!(agrees(&[7_u32], &[0, 7, 8, u32::MAX]), 4);
        assert_eq!(agrees::<u64>(&[], &[1]), 0);
    }

    #[test]
    fn ends_of_the_type_are_found() {
        let wanted = [i64::MIN, -1, 0, 1, i64::MAX];
        assert_eq!(agrees(&[i64::MIN, 0, i64::MAX], &wanted), 5);
        assert_eq!(agrees(&[0, 1, u64::MAX], &[0, 1, 2, u64::MAX]), 4);
        assert_eq!(
            agrees(&[i32::MIN, 0, i32::MAX], &[i32::MIN, 5, i32::MAX]),
            3
        );
    }

    #[test]
    fn guesses_end_where_they_are_wrong() {
        let repeated = vec![4_u32; 1000];
        assert_eq!(agrees(&repeated, &[3, 4]), 2);
        let mut keys: Vec<u64> = (0..1000).map(|key| key * key * key * key).collect();
        keys.sort_unstable();
        let wanted: Vec<u64> = (0..1000).map(|key| key * 1000).collect();
        assert!(agrees(&keys, &wanted) < wanted.len());
        let mut even = EvenKeys::new(&keys, BLOCK).into_iter();
        assert!(even.all(|mut even| {
            even.guess(&[100_000; BLOCK]);
            (0..BLOCK).all(|place| even.first_not_less(place, 100_000).is_none())
                && !even.are_even()
        }));
        assert_eq!(agrees(&[7_u64, 3, 1], &[1, 3, 7]), 0);
        assert!(EvenKeys::new(&[0, u64::MAX, 1], 1).is_some_and(|mut even| {
            even.guess(&[0, 1, 2]);
            even.are_even()
        }));
        let mut halves = vec![5_i64; 900];
        halves.extend(vec![9; 900]);
        agrees(&halves, &[4, 5, 6, 9, 10]);
    }
}
