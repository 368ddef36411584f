//! Documents that promise great scores, which are looked at before all others.
//!
//!     rarest list      documents    12  90 415 ··     those with its greatest weights
//!     other lists                    7  12  33 ··
//!     promising        12 90 415 ··                   in order of the sums that are known
//!
//! A search without a lower bound of the k-th best score looks at too many documents at first. If
//! `k` promising documents match, the least of their scores is such a bound, and a good one.

use super::documents::DocumentSet;
use super::greatest::Greatest;
use super::tree::Leaf;

/// Returns up to `most` documents of a set that are among the heaviest of the rarest token that
/// every match contains, the greatest sum of the scores of such tokens first.
pub fn promising(leaves: &[Leaf<'_>], allowed: Option<&DocumentSet>, most: usize) -> Vec<u32> {
    let required = || leaves.iter().filter(|leaf| leaf.is_required);
    let Some(rarest) = required().min_by_key(|leaf| leaf.cost()) else {
        return Vec::new();
    };
    let others = required().filter(|leaf| !std::ptr::eq(*leaf, rarest));
    let mut others: Vec<_> = others.map(|leaf| leaf.heavy().peekable()).collect();
    let mut found = Greatest::new(most);
    for (document, score) in rarest.heavy() {
        let mut sum = score;
        for other in &mut others {
            while other.next_if(|(next, _)| *next < document).is_some() {}
            if let Some((_, score)) = other.next_if(|(next, _)| *next == document) {
                sum += score;
            }
        }
        if allowed.is_none_or(|set| set.contains(document)) {
            found.add(sum, document);
        }
    }
    let mut found = found.finish();
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    found.into_iter().map(|(_, document)| document).collect()
}
