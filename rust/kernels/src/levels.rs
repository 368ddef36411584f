//! The layers of a page, inner-most first, which define the meaning of its levels.
//!
//!     code  layer                     definition levels, counted outward from 1
//!     1     item, all valid           none
//!     2     list, no null, no empty   none
//!     3     item with nulls           null
//!     4     list with nulls           null
//!     5     list with empties         empty
//!     6     list with both            null, then empty
//!
//! Definition 0 is valid all the way. The inner-most list has repetition level 1, the next 2, …;
//! an entry carries the level of the outer-most list that starts at it.

use crate::error::{Corrupt, Result};

/// One layer, with the levels that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// Whether this is a list.
    pub list: bool,
    /// Definition level of a null here.
    pub null: Option<u16>,
    /// Definition level of an empty list here.
    pub empty: Option<u16>,
    /// Highest definition level of the layers further in.
    pub inner: u16,
    /// An entry owns a slot of this layer iff its repetition is at least `min_rep` …
    pub min_rep: u16,
    /// … and its definition at most `max_def` (it is not hidden in an outer null or empty list).
    pub max_def: u16,
}

/// The layers of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    pub layers: Vec<Layer>,
    /// Repetition level that starts a row; 0 without lists.
    pub max_rep: u16,
    pub max_def: u16,
    /// Entries up to this definition own a value.
    pub max_visible: u16,
}

impl Layers {
    /// Numbers the levels of the layers with these codes.
    pub fn new(codes: &[u8]) -> Result<Self> {
        let mut layers = Vec::with_capacity(codes.len());
        let (mut def, mut rep) = (0u16, 0u16);
        for &code in codes {
            let list = matches!(code, 2 | 4 | 5 | 6);
            let inner = def;
            let null = matches!(code, 3 | 4 | 6).then(|| def + 1);
            def += u16::from(null.is_some());
            let empty = matches!(code, 5 | 6).then(|| def + 1);
            def += u16::from(empty.is_some());
            rep += u16::from(list);
            if !(1..=6).contains(&code) {
                return Err(Corrupt(format!("layer kind {code}")));
            }
            layers.push(Layer {
                list,
                null,
                empty,
                inner,
                min_rep: rep,
                max_def: 0,
            });
        }
        let mut visible_to = def;
        for layer in layers.iter_mut().rev() {
            layer.max_def = visible_to;
            if layer.list {
                visible_to = layer.inner;
            }
        }
        let max_visible = layers.first().map_or(0, |layer| layer.max_def);
        let max_visible = if layers.first().is_some_and(|layer| layer.list) {
            visible_to
        } else {
            max_visible
        };
        Ok(Self {
            layers,
            max_rep: rep,
            max_def: def,
            max_visible,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn list_of_struct_of_list() {
        let layers = Layers::new(&[3, 6, 3, 6]).unwrap();
        let nulls: Vec<_> = layers.layers.iter().map(|l| (l.null, l.empty)).collect();
        assert_eq!(
            nulls,
            [
                (Some(1), None),
                (Some(2), Some(3)),
                (Some(4), None),
                (Some(5), Some(6))
            ]
        );
        let slots: Vec<_> = layers
            .layers
            .iter()
            .map(|l| (l.min_rep, l.max_def))
            .collect();
        assert_eq!(slots, [(0, 1), (1, 4), (1, 4), (2, 6)]);
        assert_eq!(
            (layers.max_rep, layers.max_def, layers.max_visible),
            (2, 6, 1)
        );
    }

    #[test]
    fn without_lists_everything_is_visible() {
        let layers = Layers::new(&[3, 1, 3]).unwrap();
        assert_eq!(
            (layers.max_rep, layers.max_def, layers.max_visible),
            (0, 2, 2)
        );
        assert!(
            layers
                .layers
                .iter()
                .all(|l| l.min_rep == 0 && l.max_def == 2)
        );
    }

    #[test]
    fn unknown_kinds_are_refused() {
        assert!(Layers::new(&[1, 7]).is_err());
        assert!(Layers::new(&[0]).is_err());
    }
}
