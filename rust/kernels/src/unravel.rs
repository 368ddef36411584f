//! Converts levels to the validity bitmaps and list offsets of every layer.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::bitmap::{BitmapBuilder, compress64};
use crate::error::{Corrupt, Result, ensure};
use crate::level_planes::{Block, LevelPlanes, blocks_of, live_bits};
use crate::levels::{Layer, Layers};

/// One layer in Arrow's form.
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
    /// The repetition and definition levels of the items of a list whose offsets are wanted.
    child: Option<(u16, u16)>,
    /// Whether the layer is neither wanted nor needed to count rows.
    is_skipped: bool,
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
    /// Memory for repetition and definition levels that are passed as numbers.
    scratch: (LevelPlanes, LevelPlanes),
}

impl Unraveler {
    /// Takes the levels of some layers. Only the inner-most ones are `wanted`; others get no
    /// bitmap and no offsets, and only the outer-most one is sure to get its length.
    pub fn new(layers: &Layers, wanted: usize) -> Self {
        let mut child = None;
        let mut states = Vec::with_capacity(layers.layers.len());
        for (index, &layer) in layers.layers.iter().enumerate() {
            let is_wanted = index < wanted;
            states.push(State {
                layer: Layer {
                    null: layer.null.filter(|_| is_wanted),
                    list: layer.list && is_wanted,
                    ..layer
                },
                child: child.filter(|_| layer.list && is_wanted),
                is_skipped: !is_wanted && index + 1 < layers.layers.len(),
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
            scratch: <_>::default(),
        }
    }

    /// Reserves memory for the offsets of some rows, which is only an estimate.
    pub fn reserve(&mut self, num_rows: usize) {
        for state in self.states.iter_mut().filter(|state| state.layer.list) {
            state.offsets.reserve(num_rows + 1);
        }
    }

    /// Processes `count` entries; an empty slice represents levels that are all 0.
    pub fn push(&mut self, rep: &[u16], def: &[u16], count: usize) -> Result<()> {
        let (mut reps, mut defs) = std::mem::take(&mut self.scratch);
        for (planes, levels) in [(&mut reps, rep), (&mut defs, def)] {
            if levels.is_empty() {
                planes.set_zeros(count);
            } else {
                planes.set(levels);
            }
        }
        ensure(reps.len() == count, "repetition levels", rep.len(), count)?;
        ensure(defs.len() == count, "definition levels", def.len(), count)?;
        if self.has_rep {
            ensure(rep.len() == count, "repetition levels", rep.len(), count)?;
        }
        self.push_planes(&reps, &defs, 0..count)?;
        self.scratch = (reps, defs);
        Ok(())
    }

    /// Processes some entries of a piece; repetition levels are not looked at without lists.
    pub fn push_planes(
        &mut self,
        rep: &LevelPlanes,
        def: &LevelPlanes,
        entries: Range<usize>,
    ) -> Result<()> {
        let (count, has_rep) = (entries.len(), self.has_rep);
        let least = format_args!("at least {}", entries.end);
        let (has_reps, has_defs) = (
            !has_rep || rep.len() >= entries.end,
            def.len() >= entries.end,
        );
        ensure(has_reps, "repetition levels", rep.len(), least)?;
        ensure(has_defs, "definition levels", def.len(), least)?;
        for state in self.states.iter_mut().filter(|state| !state.is_skipped) {
            if !has_rep && (def.is_zero() || state.layer.null.is_none()) {
                state.push_valid(count);
                continue;
            }
            state.require_room(count)?;
            Arch::new().dispatch(Blocks {
                state,
                rep: has_rep.then_some(rep),
                def,
                entries: entries.clone(),
            });
        }
        Ok(())
    }

    /// Rows processed so far.
    pub fn num_rows(&self) -> usize {
        self.states.last().map_or(0, |state| state.len)
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

    fn require_room(&self, count: usize) -> Result<()> {
        if i64::from(self.children) + count as i64 > i64::from(i32::MAX) {
            return Err(Corrupt("more than 2^31 list items in one page".into()));
        }
        Ok(())
    }

    /// Processes a block of up to 64 entries of a page without lists, which all own a slot.
    #[inline(always)]
    fn push_items(&mut self, def: Block<'_>, live: u64) {
        let count = live.count_ones() as usize;
        self.len += count;
        let valid = def.at_most(self.layer.inner) & live;
        // Without entries there is nothing to shift.
        if let Some(valid) = valid.checked_shr(live.trailing_zeros()) {
            self.validity.push_word(valid, count);
        }
    }

    /// Processes a block of up to 64 entries of a page with lists.
    #[inline(always)]
    fn push_block(&mut self, rep: Block<'_>, def: Block<'_>, live: u64) {
        let Layer {
            list,
            null,
            inner,
            min_rep,
            max_def,
            empty,
        } = self.layer;
        let slots = rep.at_least(min_rep) & def.at_most(max_def) & live;
        self.len += slots.count_ones() as usize;
        if let Some(null) = null {
            let mut valid = def.at_most(if list { null - 1 } else { inner });
            if let Some(empty) = empty {
                valid |= def.equal(empty);
            }
            self.push_validity(valid, slots);
        }
        let Some((child_rep, child_def)) = self.child else {
            return;
        };
        let items = rep.at_least(child_rep) & def.at_most(child_def) & live;
        let (mut left, children) = (slots, self.children);
        let offsets = (0..slots.count_ones()).map(|_| {
            let preceding = (left & left.wrapping_neg()).wrapping_sub(1);
            left &= left.wrapping_sub(1);
            children + (items & preceding).count_ones().cast_signed()
        });
        self.offsets.extend(offsets);
        self.children += items.count_ones().cast_signed();
    }

    #[inline(always)]
    fn push_validity(&mut self, valid: u64, slots: u64) {
        let count = slots.count_ones() as usize;
        if count > 0 {
            let bits = match valid & slots {
                all if all == slots => u64::MAX >> (64 - count),
                some => compress64(some, slots),
            };
            self.validity.push_word(bits, count);
        }
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

/// Entries for one layer.
struct Blocks<'a> {
    state: &'a mut State,
    /// None without lists.
    rep: Option<&'a LevelPlanes>,
    def: &'a LevelPlanes,
    entries: Range<usize>,
}

impl WithSimd for Blocks<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self {
            state,
            rep,
            def,
            entries,
        } = self;
        for number in blocks_of(&entries) {
            let (def, live) = (def.block(number), live_bits(&entries, number));
            match rep {
                Some(rep) => state.push_block(rep.block(number), def, live),
                None => state.push_items(def, live),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn unravel(codes: &[u8], rep: &[u16], def: &[u16]) -> Vec<Unraveled> {
        unravel_inner(codes, rep, def, usize::MAX)
    }

    fn unravel_inner(codes: &[u8], rep: &[u16], def: &[u16], wanted: usize) -> Vec<Unraveled> {
        let mut unraveler = Unraveler::new(&Layers::new(codes).unwrap(), wanted);
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
    fn only_inner_layers() {
        let rep = [2, 0, 1, 1, 1, 2, 2, 2, 0];
        let def = [0, 0, 4, 2, 3, 6, 5, 1, 0];
        let all = unravel(&[3, 6, 3, 6], &rep, &def);
        for wanted in 0..4 {
            let made = unravel_inner(&[3, 6, 3, 6], &rep, &def, wanted);
            for (index, (layer, same)) in made.iter().zip(&all).enumerate() {
                if index < wanted {
                    assert_eq!(layer.len, same.len);
                    assert_eq!(layer.validity, same.validity);
                    assert_eq!(layer.offsets, same.offsets);
                } else {
                    assert_eq!(layer.len, if index == 3 { 4 } else { 0 });
                    assert_eq!((&layer.validity, &layer.offsets), (&None, &None));
                }
            }
        }
    }

    #[test]
    fn short_empty_and_null_lists_of_whole_blocks() {
        // Null lists, empty ones and some of up to 12 items; of structs, of which some are null.
        for shift in 0..4 {
            let (mut rep, mut def) = (Vec::new(), Vec::new());
            let (mut ends, mut valid) = (vec![0i32], Vec::new());
            for row in 0..300u16 {
                let length = match (row + shift) % 4 {
                    0 => row % 13,
                    1 => row % 2,
                    2 => 0,
                    _ => row % 4,
                };
                let is_null = length == 0 && row % 3 == 0;
                for item in 0..length.max(1) {
                    rep.push(u16::from(item == 0));
                    let missing = if is_null { 3 } else { 4 };
                    def.push(if length == 0 { missing } else { row % 3 });
                }
                ends.push(ends.last().unwrap() + i32::from(length));
                valid.push(!is_null);
            }
            let made = unravel(&[3, 3, 6], &rep, &def);
            let [values, structs, lists] = made.as_slice() else {
                panic!()
            };
            assert_eq!(lists.offsets.as_deref(), Some(ends.as_slice()));
            assert_eq!((values.len, structs.len), (structs.len, values.len));
            let bits = lists.validity.as_deref().unwrap();
            let found = (0..300).map(|row| crate::bitmap::bit(bits, row));
            assert_eq!(found.collect::<Vec<_>>(), valid);
        }
    }

    #[test]
    fn short_and_long_lists_of_one_block() {
        // Rows of 1 to 40 items each, of which one to 64 start in a block.
        for longest in [1, 2, 3, 5, 40] {
            let lengths: Vec<usize> = (0..200).map(|row| row * 7 % longest + 1).collect();
            let (mut rep, mut ends) = (Vec::new(), vec![0]);
            for &length in &lengths {
                rep.push(1);
                rep.resize(rep.len() + length - 1, 0);
                ends.push(i32::try_from(rep.len()).unwrap());
            }
            let made = unravel(&[1, 2], &rep, &[]);
            let [items, lists] = made.as_slice() else {
                panic!()
            };
            assert_eq!((items.len, lists.len), (rep.len(), lengths.len()));
            assert_eq!(lists.offsets.as_deref(), Some(ends.as_slice()));
        }
    }

    #[test]
    fn structs_need_no_repetition() {
        let made = unravel(&[3, 3, 3], &[], &[0, 3, 2, 1]);
        let nulls: Vec<_> = made.iter().map(|layer| layer.null_count).collect();
        assert_eq!(nulls, [3, 2, 1]);
    }
}
