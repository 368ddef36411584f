//! Converts levels to the validity bitmaps and list offsets of every layer.

use pulp::{Arch, Simd, WithSimd};

use crate::bitmap::{BitmapBuilder, compress64, mask64};
use crate::error::{Corrupt, Result, ensure, part};
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
    /// Definition levels of pages that have none.
    zeros: Vec<u16>,
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
            zeros: Vec::new(),
        }
    }

    /// Processes `count` entries; an empty slice represents levels that are all 0.
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
        if self.has_rep && def.is_empty() {
            self.zeros.resize(self.zeros.len().max(count), 0);
        }
        let def = if self.has_rep && def.is_empty() {
            part(&self.zeros, 0, count, "levels")?
        } else {
            def
        };
        for state in self.states.iter_mut().filter(|state| !state.is_skipped) {
            match (self.has_rep, def.is_empty()) {
                (false, true) => state.push_valid(count),
                (false, false) => state.push_items(def),
                (true, _) if state.layer.min_rep == 0 => state.push_list_items(def),
                (true, _) => state.push_nested(rep, def)?,
            }
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

    fn push_items(&mut self, def: &[u16]) {
        self.len += def.len();
        if self.layer.null.is_some() {
            let inner = self.layer.inner;
            self.validity.extend_with(def, |def| def <= inner);
        }
    }

    fn push_nested(&mut self, rep: &[u16], def: &[u16]) -> Result<()> {
        let grown = i64::from(self.children) + rep.len() as i64;
        if grown > i64::from(i32::MAX) {
            return Err(Corrupt("more than 2^31 list items in one page".into()));
        }
        let ((reps, rest_rep), (defs, rest_def)) = (rep.as_chunks::<64>(), def.as_chunks::<64>());
        Arch::new().dispatch(Blocks {
            state: self,
            reps: Some(reps),
            defs,
        });
        if !rest_rep.is_empty() {
            self.push_block(&padded(rest_rep, 0), &padded(rest_def, NO_SLOT));
        }
        Ok(())
    }

    #[inline(always)]
    fn push_block(&mut self, rep: &[u16; 64], def: &[u16; 64]) {
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
        let empty = empty.map_or(valid_to, |empty| empty);
        let slots = mask64(rep, |rep| rep >= min_rep) & mask64(def, |def| def <= max_def);
        self.len += slots.count_ones() as usize;
        if null.is_some() {
            let valid = mask64(def, |def| def <= valid_to || def == empty);
            self.push_validity(valid, slots);
        }
        let Some((child_rep, child_def)) = self.child else {
            return;
        };
        let items = mask64(rep, |rep| rep >= child_rep) & mask64(def, |def| def <= child_def);
        if slots | items == u64::MAX {
            self.push_offsets(slots, items);
            return;
        }
        if slots.count_ones() <= FEW_SLOTS {
            self.push_few_offsets(slots, items);
            return;
        }
        let (mut found, mut count, mut children) = ([0i32; 65], 0, self.children);
        for entry in 0..64 {
            if let Some(slot) = found.get_mut(count) {
                *slot = children; // taken back by the next entry unless this one owns a slot
            }
            count += usize::from(slots >> entry & 1 == 1);
            children += i32::from(items >> entry & 1 == 1);
        }
        self.children = children;
        self.offsets.extend(found.iter().take(count));
    }

    /// The offsets of lists if each entry without an item is a list of its own, null or empty:
    /// they lie at their entries, less the entries before that have no item.
    #[inline(always)]
    fn push_offsets(&mut self, slots: u64, items: u64) {
        let (mut left, mut without) = (slots, 0);
        let mut found = [0i32; 64];
        let count = slots.count_ones() as usize;
        for offset in found.iter_mut().take(count) {
            let entry = left.trailing_zeros();
            *offset = self.children + entry.cast_signed() - without;
            without += i32::from(items.wrapping_shr(entry) & 1 == 0);
            left &= left.wrapping_sub(1);
        }
        self.children += items.count_ones().cast_signed();
        self.offsets.extend(found.iter().take(count));
    }

    /// The offsets of long lists, of which few start in a block.
    #[inline(always)]
    fn push_few_offsets(&mut self, slots: u64, items: u64) {
        let mut left = slots;
        while left != 0 {
            let lower = (left & left.wrapping_neg()) - 1;
            let before = (items & lower).count_ones().cast_signed();
            self.offsets.push(self.children + before);
            left &= left - 1;
        }
        self.children += items.count_ones().cast_signed();
    }

    /// Items of the inner-most list: most entries own one.
    fn push_list_items(&mut self, def: &[u16]) {
        let (blocks, rest) = def.as_chunks::<64>();
        Arch::new().dispatch(Blocks {
            state: self,
            reps: None,
            defs: blocks,
        });
        if !rest.is_empty() {
            self.push_item_block(&padded(rest, NO_SLOT));
        }
    }

    #[inline(always)]
    fn push_item_block(&mut self, def: &[u16; 64]) {
        let Layer {
            null,
            inner,
            max_def,
            ..
        } = self.layer;
        let slots = mask64(def, |def| def <= max_def);
        self.len += slots.count_ones() as usize;
        if null.is_some() {
            self.push_validity(mask64(def, |def| def <= inner), slots);
        }
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

/// Blocks of levels for one layer; items of the inner-most list need no repetition levels.
struct Blocks<'a> {
    state: &'a mut State,
    reps: Option<&'a [[u16; 64]]>,
    defs: &'a [[u16; 64]],
}

impl WithSimd for Blocks<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Some(reps) = self.reps else {
            for def in self.defs {
                self.state.push_item_block(def);
            }
            return;
        };
        for (rep, def) in reps.iter().zip(self.defs) {
            self.state.push_block(rep, def);
        }
    }
}

/// Of so many lists that start in a block of 64 entries, each is found by itself.
const FEW_SLOTS: u32 = 16;

/// A definition level that owns no slot anywhere.
const NO_SLOT: u16 = u16::MAX;

/// Fewer than 64 levels, filled up.
fn padded(levels: &[u16], filler: u16) -> [u16; 64] {
    let mut block = [filler; 64];
    for (slot, level) in block.iter_mut().zip(levels) {
        *slot = *level;
    }
    block
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
