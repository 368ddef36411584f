//! Product quantization: each sub-vector is replaced by the number of the nearest codeword.
//!
//!     vector     x x x x   x x x x   x x x x        m sub-vectors of `width` components
//!     code          17        4        250          of 256 codewords each, or of 16
//!     table      distance of each codeword from its part of a query: m x 256, or m x 16
//!     distance   sum of the entries of a code, in order; for dot minus m - 1
//!
//! Codewords are kept in blocks of 16, component by component, so that the distances of a block
//! are computed at once.

use pulp::Arch;

use super::LANES;
use super::distance::Metric;
use crate::error::{Corrupt, Result, ensure, part};

/// How many vectors are encoded before the codewords of the next sub-vector are needed.
const ROWS: usize = 256;

pub struct Codebook {
    num_sub_vectors: usize,
    num_codes: usize,
    width: usize,
    /// For each sub-vector, each block of 16 codewords, each component: that of the codewords.
    words: Vec<[f32; LANES]>,
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
        Ok(Self {
            num_sub_vectors,
            num_codes,
            width,
            words,
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

    /// Writes the distance of each codeword from its part of a query; and for each sub-vector, the
    /// least distance of the codewords whose numbers have the same lower half.
    pub fn table(
        &self,
        query: &[f32],
        metric: Metric,
        out: &mut Vec<f32>,
        least: &mut Vec<[f32; LANES]>,
    ) -> Result<()> {
        let (found, expected) = (query.len(), self.dimension());
        ensure(found == expected, "dimension of the query", found, expected)?;
        out.resize(self.num_sub_vectors * self.num_codes, 0.0);
        least.clear();
        least.resize(self.num_sub_vectors, [f32::INFINITY; LANES]);
        let (blocks, _) = out.as_chunks_mut::<LANES>();
        let of_one = self.num_codes / LANES;
        let each = blocks
            .chunks_exact_mut(of_one)
            .zip(self.words.chunks_exact(of_one * self.width))
            .zip(query.chunks_exact(self.width))
            .zip(least);
        match metric {
            Metric::L2 => Arch::new().dispatch(
                #[inline(always)]
                || {
                    for (((out, words), query), least) in each {
                        let mut lowest = *least;
                        for (out, words) in out.iter_mut().zip(words.chunks_exact(self.width)) {
                            *out = l2(words, query);
                            lowest = lesser(out, &lowest);
                        }
                        *least = lowest;
                    }
                },
            ),
            Metric::Dot => Arch::new().dispatch(
                #[inline(always)]
                || {
                    for (((out, words), query), least) in each {
                        let mut lowest = *least;
                        for (out, words) in out.iter_mut().zip(words.chunks_exact(self.width)) {
                            *out = product(words, query).map(|product| 1.0 - product);
                            lowest = lesser(out, &lowest);
                        }
                        *least = lowest;
                    }
                },
            ),
            Metric::Cosine | Metric::Hamming => {
                return Err(Corrupt(
                    "metric of product codes: expected l2 or dot".into(),
                ));
            }
        }
        Ok(())
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

#[inline(always)]
fn product(words: &[[f32; LANES]], query: &[f32]) -> [f32; LANES] {
    let mut sums = [0.0; LANES];
    for (words, q) in words.iter().zip(query) {
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum += q * word;
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
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
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
                let (mut table, mut least) = (Vec::new(), Vec::new());
                book.table(&vector, Metric::L2, &mut table, &mut least)
                    .unwrap();
                assert_eq!(table[code], 0.0);
                for (table, least) in table.chunks(codes.into()).zip(&least) {
                    for (lane, &least) in least.iter().enumerate() {
                        let own = table.iter().skip(lane).step_by(LANES);
                        assert_eq!(own.copied().fold(f32::INFINITY, f32::min), least);
                    }
                }
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
        assert!(
            book.table(&[0.0; 2], Metric::Cosine, &mut Vec::new(), &mut Vec::new())
                .is_err()
        );
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
