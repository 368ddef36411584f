//! Product quantization: each sub-vector is replaced by the number of the nearest codeword.
//!
//!     vector     x x x x   x x x x   x x x x        m sub-vectors of `width` components
//!     code          17        4        250          of 256 codewords each, or of 16
//!     table      distance of each codeword from its part of a query: m x 256, or m x 16
//!     distance   sum of the entries of a code, in order; for dot minus m - 1
//!
//! Codewords are kept in blocks of 16, component by component, so that the distances of a block
//! are computed at once, from several vectors. For l2 they are |q|^2 + |word|^2 - 2 q word, which
//! needs fewer steps for each component than (q - word)^2.

use std::array;

use pulp::Arch;

use super::LANES;
use super::distance::Metric;
use crate::error::{Corrupt, Result, ensure, part};

/// How many vectors are encoded before the codewords of the next sub-vector are needed.
const ROWS: usize = 256;

/// Squared distances are made of products if the least one of a code is at least this share of the
/// sum of the squares of both lengths: of lesser ones, too few digits would be left.
const LEAST_SHARE: f32 = 1.0 / 64.0;

/// Sums of such squares are far from infinite.
const MOST_SQUARE: f32 = 1e37;

/// The distances of all codewords from the parts of a vector.
#[derive(Default)]
pub struct Table {
    /// For each sub-vector, each block of 16 codewords: theirs.
    blocks: Vec<[f32; LANES]>,
    /// For each sub-vector, the least of the codewords whose numbers have the same lower half.
    pub least: Vec<[f32; LANES]>,
}

impl Table {
    fn with_capacity(num_sub_vectors: usize, of_one: usize) -> Self {
        Self {
            blocks: Vec::with_capacity(num_sub_vectors * of_one),
            least: Vec::with_capacity(num_sub_vectors),
        }
    }

    /// In the order (sub-vector, code).
    pub fn entries(&self) -> &[f32] {
        self.blocks.as_flattened()
    }
}

pub struct Codebook {
    num_sub_vectors: usize,
    num_codes: usize,
    width: usize,
    /// For each sub-vector, each block of 16 codewords, each component: that of the codewords.
    words: Vec<[f32; LANES]>,
    /// For each sub-vector, each block of 16 codewords: the squares of their lengths.
    squares: Vec<[f32; LANES]>,
    /// The greatest square of the length of a decoded vector.
    greatest: f32,
}

impl Codebook {
    /// Codewords in the order (sub-vector, code, component).
    pub fn new(codewords: &[f32], shape: [usize; 3]) -> Result<Self> {
        let [num_sub_vectors, num_codes, width] = shape;
        ensure(
            num_sub_vectors > 0,
            "sub-vectors",
            num_sub_vectors,
            "at least 1",
        )?;
        ensure(
            matches!(num_codes, 16 | 256),
            "codewords of a sub-vector",
            num_codes,
            "16 or 256",
        )?;
        ensure(width > 0, "components of a sub-vector", width, "at least 1")?;
        let is_even = num_codes == 256 || num_sub_vectors.is_multiple_of(2);
        ensure(
            is_even,
            "sub-vectors of 4 bits",
            num_sub_vectors,
            "an even number",
        )?;
        let len = num_sub_vectors * num_codes * width;
        ensure(
            codewords.len() == len,
            "components of codewords",
            codewords.len(),
            len,
        )?;
        let mut words = Vec::with_capacity(len / LANES);
        for block in codewords.chunks_exact(LANES * width) {
            for component in 0..width {
                let mut lanes = [0.0; LANES];
                let of_component = block.iter().skip(component).step_by(width);
                for (lane, &value) in lanes.iter_mut().zip(of_component) {
                    *lane = value;
                }
                words.push(lanes);
            }
        }
        let squares = words.chunks_exact(width);
        let squares: Vec<_> = squares.map(|words| l2(words, &vec![0.0; width])).collect();
        let of_sub_vectors = squares.chunks(num_codes / LANES);
        let greatest = of_sub_vectors
            .map(|own| own.as_flattened().iter().fold(0.0, |a: f32, &b| a.max(b)))
            .sum();
        Ok(Self {
            num_sub_vectors,
            num_codes,
            width,
            words,
            greatest,
            squares,
        })
    }

    pub fn num_sub_vectors(&self) -> usize {
        self.num_sub_vectors
    }

    pub fn num_codes(&self) -> usize {
        self.num_codes
    }

    pub fn dimension(&self) -> usize {
        self.num_sub_vectors * self.width
    }

    /// The bytes of a stored code.
    pub fn num_bytes(&self) -> usize {
        if self.num_codes == 256 {
            self.num_sub_vectors
        } else {
            self.num_sub_vectors / 2
        }
    }

    /// The distances of each codeword from its part of some vectors.
    pub fn tables<const N: usize>(
        &self,
        vectors: [&Vec<f32>; N],
        metric: Metric,
    ) -> Result<[Table; N]> {
        let dimension = self.dimension();
        for vector in vectors {
            let found = vector.len();
            ensure(
                found == dimension,
                "dimension of the query",
                found,
                dimension,
            )?;
        }
        let of_one = self.num_codes / LANES;
        let mut tables = vectors.map(|_| Table::with_capacity(self.num_sub_vectors, of_one));
        let words = self.words.chunks_exact(of_one * self.width);
        let squares = self.squares.chunks_exact(of_one);
        let mut lines = [[[0.0; LANES]; LANES]; N];
        match metric {
            Metric::L2 => {
                let turned = turned(vectors, -2.0);
                let mut lengths = [0.0; N];
                let each = words.zip(squares).zip(turned.chunks_exact(self.width));
                Arch::new().dispatch(
                    #[inline(always)]
                    || {
                        for ((words, squares), turned) in each {
                            let own = set_l2(&mut lines, words, squares, turned);
                            for (length, own) in lengths.iter_mut().zip(own) {
                                *length += own;
                            }
                            add_lines(&mut tables, &lines, of_one);
                        }
                    },
                );
                for ((table, vector), length) in tables.iter_mut().zip(vectors).zip(lengths) {
                    if !self.is_accurate(table, length) {
                        *table = self.exact(vector);
                    }
                }
            }
            Metric::Dot => {
                let turned = turned(vectors, 1.0);
                let each = words.zip(turned.chunks_exact(self.width));
                Arch::new().dispatch(
                    #[inline(always)]
                    || {
                        for (words, turned) in each {
                            set_dot(&mut lines, words, turned);
                            add_lines(&mut tables, &lines, of_one);
                        }
                    },
                );
            }
            Metric::Cosine | Metric::Hamming => {
                return Err(Corrupt(
                    "metric of product codes: expected l2 or dot".into(),
                ));
            }
        }
        Ok(tables)
    }

    /// Whether the distances of all codes have enough digits, given the square of the length of the
    /// vector.
    fn is_accurate(&self, table: &Table, length: f32) -> bool {
        let lows = table.least.iter().map(lowest);
        let (most, least) = (self.greatest + length, lows.sum::<f32>());
        most < MOST_SQUARE && least >= most * LEAST_SHARE
    }

    /// The table of squared distances by differences.
    fn exact(&self, vector: &[f32]) -> Table {
        let of_one = self.num_codes / LANES;
        let mut table = Table::with_capacity(self.num_sub_vectors, of_one);
        let each = self.words.chunks_exact(of_one * self.width);
        let each = each.zip(vector.chunks_exact(self.width));
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (words, vector) in each {
                    let mut line = [[0.0; LANES]; LANES];
                    for (out, words) in line.iter_mut().zip(words.chunks_exact(self.width)) {
                        *out = l2(words, vector);
                    }
                    add_lines(array::from_mut(&mut table), &[line], of_one);
                }
            },
        );
        table
    }

    /// The number of the nearest codeword of each sub-vector: m for each vector.
    ///
    /// Of equal distances the first one counts. NaN is nearest to the first codeword.
    pub fn encode(&self, vectors: &[f32]) -> Result<Vec<u8>> {
        let dimension = self.dimension();
        let rows = self.rows_of(vectors)?;
        let mut codes = vec![0; rows * self.num_sub_vectors];
        let tiles = vectors
            .chunks(ROWS * dimension)
            .zip(codes.chunks_mut(ROWS * self.num_sub_vectors));
        let words_of_one = self.num_codes / LANES * self.width;
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (vectors, codes) in tiles {
                    for (i, words) in self.words.chunks_exact(words_of_one).enumerate() {
                        let rows = vectors.chunks_exact(dimension);
                        let rows = rows.zip(codes.chunks_exact_mut(self.num_sub_vectors));
                        for (row, code) in rows {
                            let sub = row.chunks_exact(self.width).nth(i);
                            if let (Some(sub), Some(code)) = (sub, code.get_mut(i)) {
                                *code = nearest(words, sub);
                            }
                        }
                    }
                }
            },
        );
        Ok(codes)
    }

    fn rows_of(&self, vectors: &[f32]) -> Result<usize> {
        let (len, dimension) = (vectors.len(), self.dimension());
        ensure(
            len.is_multiple_of(dimension),
            "components of vectors",
            len,
            dimension,
        )?;
        Ok(len / dimension)
    }
}

/// The stored bytes of codes, column by column instead of row by row.
pub fn transposed(codes: &[u8], num_bytes: usize) -> Result<Vec<u8>> {
    ensure(num_bytes > 0, "bytes of a code", num_bytes, "at least 1")?;
    let rows = codes.len() / num_bytes;
    let mut out = Vec::with_capacity(codes.len());
    for column in 0..num_bytes.min(codes.len()) {
        let all = part(codes, column, codes.len() - column, "codes")?;
        out.extend(all.iter().step_by(num_bytes).take(rows));
    }
    Ok(out)
}

#[inline(always)]
fn l2(words: &[[f32; LANES]], query: &[f32]) -> [f32; LANES] {
    let mut sums = [0.0; LANES];
    for (words, q) in words.iter().zip(query) {
        for (sum, word) in sums.iter_mut().zip(words) {
            let difference = q - word;
            *sum += difference * difference;
        }
    }
    sums
}

/// The lesser number of each lane; those of `values` are not counted where they are NaN.
#[inline(always)]
fn lesser(values: &[f32; LANES], least: &[f32; LANES]) -> [f32; LANES] {
    let mut out = *least;
    for (out, &value) in out.iter_mut().zip(values) {
        *out = if value < *out { value } else { *out };
    }
    out
}

/// The entries of a sub-vector, block after block; the number of blocks may be less.
type Line = [[f32; LANES]; LANES];

/// Writes the squared distances of the codewords of a sub-vector from its part of some vectors, by
/// the squares of lengths and products.
///
/// Given the components of the vectors times -2, those of each number together. Returns the squares
/// of the lengths of the parts.
#[inline(always)]
fn set_l2<const N: usize>(
    lines: &mut [Line; N],
    words: &[[f32; LANES]],
    squares: &[[f32; LANES]],
    turned: &[[f32; N]],
) -> [f32; N] {
    let mut lengths = [0.0; N];
    for components in turned {
        for (length, component) in lengths.iter_mut().zip(components) {
            *length += component * component * 0.25;
        }
    }
    for (block, (words, squares)) in words.chunks_exact(turned.len()).zip(squares).enumerate() {
        let sums = with_products([*squares; N], words, turned);
        for ((line, sums), length) in lines.iter_mut().zip(sums).zip(lengths) {
            if let Some(out) = line.get_mut(block) {
                for (out, sum) in out.iter_mut().zip(sums) {
                    let distance = sum + length;
                    *out = if distance < 0.0 { 0.0 } else { distance };
                }
            }
        }
    }
    lengths
}

/// Writes 1 - the products of the codewords of a sub-vector with its part of some vectors.
#[inline(always)]
fn set_dot<const N: usize>(lines: &mut [Line; N], words: &[[f32; LANES]], turned: &[[f32; N]]) {
    for (block, words) in words.chunks_exact(turned.len()).enumerate() {
        let sums = with_products([[0.0; LANES]; N], words, turned);
        for (line, sums) in lines.iter_mut().zip(sums) {
            if let Some(out) = line.get_mut(block) {
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = 1.0 - sum;
                }
            }
        }
    }
}

/// Appends the entries of a sub-vector to each of some tables.
#[inline(always)]
fn add_lines<const N: usize>(tables: &mut [Table; N], lines: &[Line; N], of_one: usize) {
    for (table, line) in tables.iter_mut().zip(lines) {
        let line = line.split_at(of_one.min(LANES)).0;
        let mut least = [f32::INFINITY; LANES];
        for entries in line {
            least = lesser(entries, &least);
        }
        table.blocks.extend_from_slice(line);
        table.least.push(least);
    }
}

/// The components of some vectors times a factor, those of each number together.
fn turned<const N: usize>(vectors: [&Vec<f32>; N], factor: f32) -> Vec<[f32; N]> {
    let mut turned = vec![[0.0; N]; vectors.first().map_or(0, |first| first.len())];
    for (place, vector) in vectors.iter().enumerate() {
        for (all, component) in turned.iter_mut().zip(*vector) {
            if let Some(own) = all.get_mut(place) {
                *own = component * factor;
            }
        }
    }
    turned
}

/// The least of some entries; none of them is NaN.
pub fn lowest(entries: &[f32; LANES]) -> f32 {
    let mut all = *entries;
    for half in [8, 4, 2, 1] {
        let (low, high) = all.split_at_mut(half);
        for (low, &high) in low.iter_mut().zip(&*high) {
            *low = if high < *low { high } else { *low };
        }
    }
    let [least, ..] = all;
    least
}

/// Adds to some sums the products of the codewords of a block with each of some vectors.
#[inline(always)]
fn with_products<const N: usize>(
    mut sums: [[f32; LANES]; N],
    words: &[[f32; LANES]],
    vectors: &[[f32; N]],
) -> [[f32; LANES]; N] {
    for (words, components) in words.iter().zip(vectors) {
        for (sums, component) in sums.iter_mut().zip(components) {
            for (sum, word) in sums.iter_mut().zip(words) {
                *sum += component * word;
            }
        }
    }
    sums
}

/// The number of the nearest of at most 256 codewords.
#[inline(always)]
fn nearest(words: &[[f32; LANES]], query: &[f32]) -> u8 {
    let mut best = [f32::INFINITY; LANES];
    let mut places = [0u32; LANES];
    for (block, words) in (0..).zip(words.chunks_exact(query.len())) {
        let distances = l2(words, query);
        for ((best, place), distance) in best.iter_mut().zip(&mut places).zip(distances) {
            *place = if distance < *best { block } else { *place };
            *best = if distance < *best { distance } else { *best };
        }
    }
    let least = best.iter().copied().fold(f32::INFINITY, f32::min);
    let mut code = u32::from(u8::MAX);
    for ((lane, best), place) in (0..).zip(best).zip(places) {
        let candidate = place * 16 + lane;
        if best == least && candidate < code {
            code = candidate;
        }
    }
    let [code, ..] = code.to_le_bytes();
    code
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_precision_loss
    )]
    use super::*;

    #[test]
    fn codewords_encode_to_themselves() {
        for (codes, width) in [(16u16, 1usize), (16, 3), (256, 2)] {
            let len = 2 * usize::from(codes) * width;
            let words: Vec<f32> = (0u16..).take(len).map(|i| f32::from(i % 4001)).collect();
            let book = Codebook::new(&words, [2, codes.into(), width]).unwrap();
            let (first, second) = words.split_at(len / 2);
            for code in 0..usize::from(codes) {
                let of = |words: &[f32]| words[code * width..][..width].to_vec();
                let vector = [of(first), of(second)].concat();
                let both = book.encode(&vector).unwrap();
                assert!(both.iter().all(|&found| usize::from(found) == code));
                let [table] = book.tables([&vector], Metric::L2).unwrap();
                assert_eq!(table.entries()[code], 0.0);
                let lines = table.entries().chunks(codes.into());
                for (table, least) in lines.zip(&table.least) {
                    for (lane, &least) in least.iter().enumerate() {
                        let own = table.iter().skip(lane).step_by(LANES);
                        assert_eq!(own.copied().fold(f32::INFINITY, f32::min), least);
                    }
                }
            }
        }
    }

    /// Numbers between -1 and 1.
    fn values(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005) + 1;
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    fn naive(words: &[f32], vector: &[f32], metric: Metric) -> f64 {
        let pairs = words.iter().zip(vector);
        let pairs = pairs.map(|(&word, &x)| (f64::from(word), f64::from(x)));
        match metric {
            Metric::L2 => pairs.map(|(word, x)| (word - x) * (word - x)).sum(),
            _ => 1.0 - pairs.map(|(word, x)| word * x).sum::<f64>(),
        }
    }

    /// Compares the entries, and the sums of those of some codes, with naive ones.
    fn check(shape: [usize; 3], words: &[f32], vectors: [&Vec<f32>; 4], metric: Metric) {
        let [num_sub_vectors, num_codes, width] = shape;
        let book = Codebook::new(words, shape).unwrap();
        let tables = book.tables(vectors, metric).unwrap();
        for (table, vector) in tables.iter().zip(vectors) {
            let [alone] = book.tables([vector], metric).unwrap();
            assert_eq!(alone.entries(), table.entries());
            assert_eq!(alone.least, table.least);
            for code in 0..num_codes {
                let (mut sum, mut expected) = (0.0, 0.0);
                for number in 0..num_sub_vectors {
                    let place = number * num_codes + (code * 7 + number) % num_codes;
                    let entry = f64::from(table.entries()[place]);
                    assert!(metric == Metric::Dot || entry >= 0.0);
                    sum += entry;
                    let own = &vector[number * width..][..width];
                    expected += naive(&words[place * width..][..width], own, metric);
                }
                let mut size = expected;
                if metric == Metric::Dot {
                    let greatest = vector.iter().fold(1.0, |a: f32, x| a.max(x.abs()));
                    size = (num_sub_vectors * width) as f64 * f64::from(greatest);
                }
                assert!((sum - expected).abs() <= 2e-5 * size, "{sum} {expected}");
            }
        }
    }

    #[test]
    fn tables_have_the_distances_of_the_formulas() {
        for shape in [
            [2, 16, 1],
            [4, 16, 3],
            [3, 256, 4],
            [5, 256, 8],
            [2, 256, 17],
        ] {
            let [num_sub_vectors, num_codes, width] = shape;
            let dimension = num_sub_vectors * width;
            let words = values(num_sub_vectors * num_codes * width, 1);
            let decoded = |code: usize| -> Vec<f32> {
                let of_one = words.chunks(num_codes * width);
                of_one
                    .flat_map(|own| own[code * width..][..width].to_vec())
                    .collect()
            };
            let near: Vec<f32> = decoded(5).iter().map(|x| x * 1.001).collect();
            let far: Vec<f32> = values(dimension, 2).iter().map(|x| x + 1000.0).collect();
            let vectors = [&values(dimension, 3), &near, &far, &vec![0.0; dimension]];
            for metric in [Metric::L2, Metric::Dot] {
                check(shape, &words, vectors, metric);
            }
            let from_far: Vec<f32> = words.iter().map(|x| x + 1000.0).collect();
            check(shape, &from_far, vectors, Metric::L2);
            let book = Codebook::new(&words, shape).unwrap();
            let [table] = book.tables([&decoded(5)], Metric::L2).unwrap();
            for line in table.entries().chunks(num_codes) {
                assert_eq!(line[5], 0.0);
            }
        }
    }

    #[test]
    fn special_components_give_what_differences_give() {
        let mut words = values(2 * 256 * 2, 4);
        words[40] = 1e19;
        words[80] = f32::INFINITY;
        words[120] = f32::NAN;
        let book = Codebook::new(&words, [2, 256, 2]).unwrap();
        for special in [1e19, -1e25, f32::INFINITY, f32::NAN] {
            let vector = vec![special, 0.5, 0.5, 0.5];
            let [table] = book.tables([&vector], Metric::L2).unwrap();
            for (place, (entry, word)) in table.entries().iter().zip(words.chunks(2)).enumerate() {
                let own = &vector[place / 256 * 2..][..2];
                let each = own.iter().zip(word);
                let expected: f32 = each.map(|(x, word)| (x - word) * (x - word)).sum();
                let is_equal = *entry == expected || entry.is_nan() && expected.is_nan();
                assert!(is_equal || (entry - expected).abs() < 1e-5 * expected);
            }
        }
    }

    #[test]
    fn impossible_books_and_vectors_are_refused() {
        for shape in [[1, 16, 1], [2, 17, 1], [2, 16, 0], [0, 256, 1], [2, 16, 2]] {
            assert!(Codebook::new(&[0.0; 32], shape).is_err());
        }
        let book = Codebook::new(&[0.0; 32], [2, 16, 1]).unwrap();
        assert!(book.encode(&[0.0; 3]).is_err());
        assert!(book.tables([&vec![0.0; 2]], Metric::Cosine).is_err());
        assert!(book.tables([&vec![0.0; 3]], Metric::L2).is_err());
        assert_eq!(book.encode(&[f32::NAN, 1.0]).unwrap(), [0, 0]);
    }

    #[test]
    fn bytes_are_transposed() {
        assert_eq!(
            transposed(&[1, 2, 3, 4, 5, 6], 2).unwrap(),
            [1, 3, 5, 2, 4, 6]
        );
    }
}
