//! Documents that all of several lists have.

use super::documents::END;
use crate::error::Result;

/// The first document from `target` on that all lists have; `END` if there is none.
///
/// `order` are the places of the lists, the one with the fewest documents first. `advance` moves a list
/// to its first document that is not before another one.
pub fn first_common<T>(
    lists: &mut [T],
    order: &[usize],
    mut target: u32,
    advance: impl Fn(&mut T, u32) -> Result<u32>,
) -> Result<u32> {
    'again: loop {
        for &place in order {
            if let Some(list) = lists.get_mut(place) {
                let document = advance(list, target)?;
                if document == END {
                    return Ok(END);
                }
                if document > target {
                    target = document;
                    continue 'again;
                }
            }
        }
        return Ok(target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_all_lists() {
        let mut lists = [vec![1, 4, 6, 9, 12], vec![4, 5, 9], vec![0, 4, 9, 12, 20]];
        let order = [1, 0, 2];
        let advance = |list: &mut Vec<u32>, target: u32| {
            list.retain(|&document| document >= target);
            Ok(list.first().copied().unwrap_or(END))
        };
        for (target, expected) in [(0, 4), (4, 4), (5, 9), (10, END)] {
            let found = first_common(&mut lists, &order, target, advance);
            assert_eq!(found, Ok(expected));
        }
    }
}
