//! Levels to the validity bitmaps and list offsets of every layer.

use crate::bitmap::BitmapBuilder;
use crate::error::{Corrupt, Result, ensure};
use crate::levels::{Layer, Layers};

/// What Arrow needs of one layer.
#[derive(Debug)]
pub struct Unraveled {
    /// Number of slots.
    pub len: usize,
    /// Bitmap of the valid slots, absent for a layer without nulls.
    pub validity: Option<Vec<u8>>,
    pub null_count: usize,
    /// `len + 1` offsets into the slots of the next layer inward, for lists.
    pub offsets: Option<Vec<i32>>,
}

#[derive(Debug)]
struct State {
    layer: Layer,
    child: Option<(u16, u16)>,
    len: usize,
    validity: BitmapBuilder,
    offsets: Vec<i32>,
    children: i32,
}

/// Reads the levels of a page piece by piece.
#[derive(Debug)]
pub struct Unraveler {
    states: Vec<State>,
    has_rep: bool,
}

impl Unraveler {
    pub fn new(layers: &Layers) -> Self {
        let mut child = None;
        let mut states = Vec::with_capacity(layers.layers.len());
        for &layer in &layers.layers {
            states.push(State {
                layer,
                child: child.filter(|_| layer.list),
                len: 0,
                validity: BitmapBuilder::default(),
                offsets: Vec::new(),
                children: 0,
            });
            child = Some((layer.min_rep, layer.max_def));
        }
        Self {
            states,
            has_rep: layers.max_rep > 0,
        }
    }

    /// Takes `count` entries; an empty slice stands for levels that are all 0.
    pub fn push(&mut self, rep: &[u16], def: &[u16], count: usize) -> Result<()> {
        ensure(
            rep.is_empty() || rep.len() == count,
            "repetition levels",
            rep.len(),
            count,
        )?;
        ensure(
            def.is_empty() || def.len() == count,
            "definition levels",
            def.len(),
            count,
        )?;
        if self.has_rep {
            ensure(rep.len() == count, "repetition levels", rep.len(), count)?;
        }
        for state in &mut self.states {
            match (self.has_rep, def.is_empty()) {
                (false, true) => state.push_valid(count),
                (false, false) => state.push_items(def),
                (true, true) => state.push_nested(rep.iter().map(|&rep| (rep, 0)))?,
                (true, false) => state.push_nested(rep.iter().copied().zip(def.iter().copied()))?,
            }
        }
        Ok(())
    }

    /// One result per layer, inner-most first.
    pub fn finish(self) -> Vec<Unraveled> {
        self.states.into_iter().map(State::finish).collect()
    }
}

impl State {
    fn push_valid(&mut self, count: usize) {
        self.len += count;
        if self.layer.null.is_some() {
            self.validity.extend_constant(true, count);
        }
    }

    fn push_items(&mut self, def: &[u16]) {
        self.len += def.len();
        if self.layer.null.is_some() {
            let inner = self.layer.inner;
            self.validity.extend_with(def, |def| def <= inner);
        }
    }

    fn push_nested(&mut self, entries: impl Iterator<Item = (u16, u16)>) -> Result<()> {
        let Layer {
            list,
            null,
            inner,
            min_rep,
            max_def,
            empty,
        } = self.layer;
        let valid_to = if list {
            null.map_or(inner, |null| null - 1)
        } else {
            inner
        };
        for (rep, def) in entries {
            if rep >= min_rep && def <= max_def {
                self.len += 1;
                if null.is_some() {
                    self.validity.push(def <= valid_to || Some(def) == empty);
                }
                if list {
                    self.offsets.push(self.children);
                }
            }
            if let Some((child_rep, child_def)) = self.child {
                self.children = self
                    .children
                    .checked_add(i32::from(rep >= child_rep && def <= child_def))
                    .ok_or_else(|| Corrupt("more than 2^31 list items in one page".into()))?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Unraveled {
        if self.layer.list {
            self.offsets.push(self.children);
        }
        let nullable = self.layer.null.is_some();
        let null_count = if nullable { self.validity.zeros() } else { 0 };
        Unraveled {
            len: self.len,
            validity: (null_count > 0).then(|| self.validity.finish()),
            null_count,
            offsets: self.layer.list.then_some(self.offsets),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn unravel(codes: &[u8], rep: &[u16], def: &[u16]) -> Vec<Unraveled> {
        let mut unraveler = Unraveler::new(&Layers::new(codes).unwrap());
        let (rep_a, rep_b) = rep.split_at(rep.len() / 2);
        let (def_a, def_b) =
            def.split_at(rep.len().max(def.len()) / 2 * usize::from(!def.is_empty()));
        let half = rep.len().max(def.len()) / 2;
        unraveler.push(rep_a, def_a, half).unwrap();
        unraveler
            .push(rep_b, def_b, rep.len().max(def.len()) - half)
            .unwrap();
        unraveler.finish()
    }

    #[test]
    fn lists_with_nulls_and_empties() {
        // [[1,2,3],[],null,[4,null],[5]]
        let made = unravel(
            &[3, 6],
            &[1, 0, 0, 1, 1, 1, 0, 1],
            &[0, 0, 0, 3, 2, 0, 1, 0],
        );
        let [items, lists] = made.as_slice() else {
            panic!()
        };
        assert_eq!((items.len, items.null_count), (6, 1));
        assert_eq!(items.validity.as_deref(), Some(&[0b10_1111][..]));
        assert_eq!((lists.len, lists.null_count), (5, 1));
        assert_eq!(lists.validity.as_deref(), Some(&[0b1_1011][..]));
        assert_eq!(lists.offsets.as_deref(), Some(&[0, 3, 3, 3, 5, 6][..]));
    }

    #[test]
    fn lists_of_structs_of_lists() {
        // [[{p:[1,2]},null,{p:null},{p:[]}],[],null,[{p:[null,3]}]]
        let rep = [2, 0, 1, 1, 1, 2, 2, 2, 0];
        let def = [0, 0, 4, 2, 3, 6, 5, 1, 0];
        let made = unravel(&[3, 6, 3, 6], &rep, &def);
        let [leaf, p, item, list] = made.as_slice() else {
            panic!()
        };
        assert_eq!((leaf.len, leaf.null_count), (4, 1));
        assert_eq!((p.len, p.null_count), (5, 2));
        assert_eq!(p.offsets.as_deref(), Some(&[0, 2, 2, 2, 2, 4][..]));
        assert_eq!(p.validity.as_deref(), Some(&[0b1_1001][..]));
        assert_eq!((item.len, item.null_count), (5, 1));
        assert_eq!(item.validity.as_deref(), Some(&[0b1_1101][..]));
        assert_eq!((list.len, list.null_count), (4, 1));
        assert_eq!(list.offsets.as_deref(), Some(&[0, 4, 4, 4, 5][..]));
    }

    #[test]
    fn structs_need_no_repetition() {
        let made = unravel(&[3, 3, 3], &[], &[0, 3, 2, 1]);
        let nulls: Vec<_> = made.iter().map(|layer| layer.null_count).collect();
        assert_eq!(nulls, [3, 2, 1]);
    }
}
