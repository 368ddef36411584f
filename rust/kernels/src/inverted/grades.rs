//! Weights of entries in one byte each, by which a search selects entries without decoding them.
//!
//!     weight   0 … 2.2 (k1 + 1)     grade = weight * 255 / 2.2, rounded up
//!
//! A score is `idf * weight`. Entries whose grade is below that of a cutoff have scores that do not
//! exceed it; of the others, the exact score decides.

use super::bm25;

/// The grade of an entry.
pub type Grade = u8;

/// Grades per unit of weight.
const SCALE: f32 = 255.0 / bm25::MOST_WEIGHT;

/// More than the error of the operations by which a cutoff becomes a grade.
const SLACK: f32 = 1e-6;

/// Entries that are tested at once.
const TOGETHER: usize = 16;

/// The grade of a weight.
#[inline]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn grade(weight: f32) -> Grade {
    (weight * SCALE).ceil() as Grade
}

/// The least grade that an entry with a score above a cutoff may have; none if there is no such
/// entry.
#[inline]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn least_above(cutoff: f32, idf: f32) -> Option<Grade> {
    let weight = cutoff / idf;
    if weight >= 0.0 {
        let too_low = (weight * SCALE * (1.0 - SLACK)).floor();
        (too_low < 255.0).then(|| too_low as Grade + 1)
    } else {
        Some(0)
    }
}

/// Writes the places of the entries with at least some grade; returns how many there are.
#[inline]
pub fn places_from(grades: &[Grade], least: Grade, out: &mut [u8]) -> usize {
    let mut count = 0;
    let mut first = 0u8;
    for some in grades.chunks(TOGETHER) {
        if some.iter().fold(false, |any, own| any | (*own >= least)) {
            for (own, place) in some.iter().zip(first..=u8::MAX) {
                // Without a branch: a place that does not count is overwritten by the next one.
                if let Some(slot) = out.get_mut(count) {
                    *slot = place;
                }
                count += usize::from(*own >= least);
            }
        }
        first = first.wrapping_add(16);
    }
    count
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn no_entry_with_a_score_above_a_cutoff_is_left_out() {
        let mut seed = 7u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bm25::float32(seed >> 8) / 16_777_216.0
        };
        for _ in 0..20_000 {
            let weight = next() * bm25::MOST_WEIGHT;
            let idf = next() * 14.0;
            let score = idf * weight;
            for cutoff in [score.next_down(), score * next(), -score, f32::NEG_INFINITY] {
                if score > cutoff {
                    let least = least_above(cutoff, idf);
                    assert!(least.is_some_and(|least| grade(weight) >= least));
                }
            }
            if let Some(least) = least_above(score, idf) {
                assert!(least >= grade(weight).saturating_sub(1));
            }
        }
    }

    #[test]
    fn extreme_cutoffs_select_all_or_none() {
        assert_eq!(least_above(f32::INFINITY, 1.0), None);
        assert_eq!(least_above(3.0, 1.0), None);
        assert_eq!(least_above(1.0, 0.0), None);
        assert_eq!(least_above(0.0, 0.0), Some(0));
        assert_eq!(least_above(f32::NEG_INFINITY, 1.0), Some(0));
        assert_eq!((grade(0.0), grade(bm25::MOST_WEIGHT)), (0, 255));
    }

    #[test]
    fn places_are_those_of_the_entries() {
        for count in [0, 1, 15, 16, 17, 128, 255, 256] {
            for step in [1usize, 7, 90] {
                let all = (0..count).map(|i: usize| u8::try_from(i * step % 251));
                let grades: Vec<u8> = all.collect::<Result<_, _>>().unwrap();
                for least in [0, 1, 100, 250, 255] {
                    let mut out = [0; 256];
                    let found = places_from(&grades, least, &mut out);
                    let expected: Vec<usize> =
                        (0..count).filter(|place| grades[*place] >= least).collect();
                    let own: Vec<usize> = out[..found].iter().map(|p| usize::from(*p)).collect();
                    assert_eq!(own, expected);
                }
            }
        }
    }
}
