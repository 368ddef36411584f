//! Signatures of texts, by which near duplicates are found.
//!
//!     text ──tokens──▶ shingles ──hash──▶ x, … ──▶ the least a * x + b, for each pair (a, b)
//!          ──compressed to 16 bits──▶ signature ──cut into bands──▶ a key for each band
//!
//! A shingle is some adjacent tokens with the byte 0x1f between them; fewer tokens are one shingle.
//! All hashes are XXH64 with the seed 42. The coefficients are drawn from SplitMix64, in an order
//! that depends on the number of hashes only. A text without tokens has no signature.

use std::sync::Arc;

use pulp::{Arch, Simd, WithSimd};
use xxhash_rust::xxh64::xxh64;

use crate::analysis::{Analyzer, Documents, Texts};
use crate::error::{Result, ensure, signed};

const SEED: u64 = 42;
const SEPARATOR: u8 = 0x1f;
/// Most values of a signature.
const MOST_HASHES: usize = 4096;
/// Most bands: their number is stored in a byte.
const MOST_BANDS: usize = 256;
/// Bits of a key below the number of its band.
const KEY_BITS: u32 = 56;
/// Hashes whose least values stay in registers.
const LANES: usize = 8;
/// Added to an unsigned number, it makes the order of signed numbers that of unsigned ones.
const FLIP: u64 = 1 << 63;

/// Coefficients of some hashes. Those that fill up the last block are not used.
#[derive(Clone, Copy, Default)]
struct Block {
    multipliers: [u64; LANES],
    increments: [u64; LANES],
}

/// Makes signatures.
pub struct Hasher {
    analyzer: Arc<Analyzer>,
    shingle_size: usize,
    num_bands: usize,
    blocks: Vec<Block>,
    compressors: Vec<u64>,
}

/// Signatures of the texts that have one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Signed {
    /// The number of each such text.
    pub rows: Vec<i64>,
    /// The signatures, one after the other.
    pub signatures: Vec<u16>,
    /// The keys of the bands, one text after the other.
    pub keys: Vec<u64>,
}

impl Hasher {
    pub fn new(
        analyzer: Arc<Analyzer>,
        num_hashes: usize,
        num_bands: usize,
        shingle_size: usize,
    ) -> Result<Self> {
        let is_known = (1..=MOST_HASHES).contains(&num_hashes);
        ensure(is_known, "hashes", num_hashes, "1 to 4096")?;
        ensure(shingle_size > 0, "tokens of a shingle", shingle_size, "1")?;
        width_of_bands(num_hashes, num_bands)?;
        let mut state = SEED;
        let mut blocks = vec![Block::default(); num_hashes.div_ceil(LANES)];
        for place in 0..num_hashes {
            if let Some(block) = blocks.get_mut(place / LANES)
                && let Some(multiplier) = block.multipliers.get_mut(place % LANES)
                && let Some(increment) = block.increments.get_mut(place % LANES)
            {
                *multiplier = draw(&mut state) | 1;
                *increment = draw(&mut state).wrapping_add(FLIP);
            }
        }
        let compressors = (0..num_hashes).map(|_| draw(&mut state) | 1).collect();
        Ok(Self {
            analyzer,
            shingle_size,
            num_bands,
            blocks,
            compressors,
        })
    }

    pub fn num_hashes(&self) -> usize {
        self.compressors.len()
    }

    /// The signatures of texts, with the keys of their bands.
    pub fn sign(&self, texts: Texts<'_>) -> Result<Signed> {
        let mut made = Signed::default();
        let (mut row, mut scratch) = (0_usize, Scratch::default());
        let documents = Documents { texts, lists: None };
        documents.each(|text| {
            if let Some(text) = text
                && self.add(text, &mut scratch, &mut made.signatures)?
            {
                made.rows.push(signed(row, "texts")?);
            }
            row += 1;
            Ok(())
        })?;
        made.keys = band_keys(&made.signatures, self.num_hashes(), self.num_bands)?;
        Ok(made)
    }

    /// The signature of one text and the keys of its bands; both are empty if it has no tokens.
    pub fn sign_one(&self, text: &str) -> Result<(Vec<u16>, Vec<u64>)> {
        let mut signature = Vec::with_capacity(self.num_hashes());
        self.add(text, &mut Scratch::default(), &mut signature)?;
        let keys = band_keys(&signature, self.num_hashes(), self.num_bands)?;
        Ok((signature, keys))
    }

    /// Appends the signature of a text; returns whether it has one.
    fn add(&self, text: &str, scratch: &mut Scratch, out: &mut Vec<u16>) -> Result<bool> {
        let tokens = &mut scratch.tokens;
        tokens.clear();
        self.analyzer.each_token(text, |prefix, token, _| {
            tokens.add(prefix, token);
            Ok(())
        })?;
        if tokens.ends.is_empty() {
            return Ok(false);
        }
        tokens.hashes(self.shingle_size, &mut scratch.shingles);
        Arch::new().dispatch(Minima {
            blocks: &self.blocks,
            shingles: &scratch.shingles,
            least: &mut scratch.least,
        });
        let values = scratch.least.iter().zip(&self.compressors);
        out.extend(values.map(|(&least, &by)| compressed(least, by)));
        Ok(true)
    }
}

/// Memory that is used for one text after the other.
#[derive(Default)]
struct Scratch {
    tokens: Joined,
    shingles: Vec<u64>,
    least: Vec<u64>,
}

/// The next number of SplitMix64.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The upper bits of a product: least values are small for long texts, products are not.
fn compressed(least: u64, by: u64) -> u16 {
    let [.., low, high] = by.wrapping_mul(least).to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// The tokens of a text with separators between them.
#[derive(Default)]
struct Joined {
    data: Vec<u8>,
    ends: Vec<usize>,
}

impl Joined {
    fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
    }

    fn add(&mut self, prefix: &str, token: &str) {
        if !self.ends.is_empty() {
            self.data.push(SEPARATOR);
        }
        self.data.extend_from_slice(prefix.as_bytes());
        self.data.extend_from_slice(token.as_bytes());
        self.ends.push(self.data.len());
    }

    /// The hash of each shingle.
    fn hashes(&self, shingle_size: usize, out: &mut Vec<u64>) {
        out.clear();
        let starts = std::iter::once(0).chain(self.ends.iter().map(|end| end + 1));
        let stops = self
            .ends
            .iter()
            .skip(shingle_size.min(self.ends.len()).saturating_sub(1));
        let shingles = starts.zip(stops);
        out.extend(
            shingles.filter_map(|(start, &stop)| Some(xxh64(self.data.get(start..stop)?, SEED))),
        );
    }
}

/// The least value of each hash of some shingles.
struct Minima<'a> {
    blocks: &'a [Block],
    shingles: &'a [u64],
    least: &'a mut Vec<u64>,
}

impl WithSimd for Minima<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.least.clear();
        for block in self.blocks {
            let mut least = [i64::MAX; LANES];
            for &shingle in self.shingles {
                let coefficients = block.multipliers.iter().zip(&block.increments);
                for (least, (multiplier, increment)) in least.iter_mut().zip(coefficients) {
                    let value = multiplier.wrapping_mul(shingle).wrapping_add(*increment);
                    *least = (*least).min(value.cast_signed());
                }
            }
            let values = least.iter().map(|least| least.cast_unsigned());
            self.least
                .extend(values.map(|value| value.wrapping_sub(FLIP)));
        }
    }
}

/// The keys of the bands of signatures, one signature after the other.
pub fn band_keys(signatures: &[u16], num_hashes: usize, num_bands: usize) -> Result<Vec<u64>> {
    let width = width_of_bands(num_hashes, num_bands)?;
    let is_whole = signatures.len().is_multiple_of(num_hashes);
    ensure(
        is_whole,
        "values of signatures",
        signatures.len(),
        num_hashes,
    )?;
    let mut bytes = Vec::with_capacity(2 * width);
    let numbers = (0_u64..).take(num_bands).cycle();
    let bands = signatures.chunks_exact(width).zip(numbers);
    let keys = bands.map(|(band, number)| {
        bytes.clear();
        bytes.extend(band.iter().flat_map(|value| value.to_le_bytes()));
        (number << KEY_BITS) | (xxh64(&bytes, SEED) & ((1 << KEY_BITS) - 1))
    });
    Ok(keys.collect())
}

/// The number of values of a band.
fn width_of_bands(num_hashes: usize, num_bands: usize) -> Result<usize> {
    let is_known = (1..=MOST_BANDS).contains(&num_bands);
    ensure(is_known, "bands", num_bands, "1 to 256")?;
    let fits = num_hashes > 0 && num_hashes.is_multiple_of(num_bands);
    ensure(fits, "hashes", num_hashes, "a multiple of the bands")?;
    Ok(num_hashes / num_bands)
}

/// How many values of each signature equal those of one signature.
pub fn equal_values(signatures: &[u16], of: &[u16]) -> Result<Vec<u32>> {
    let is_whole = !of.is_empty() && signatures.len().is_multiple_of(of.len());
    ensure(is_whole, "values of signatures", signatures.len(), of.len())?;
    Ok(Arch::new().dispatch(Equal { signatures, of }))
}

struct Equal<'a> {
    signatures: &'a [u16],
    of: &'a [u16],
}

impl WithSimd for Equal<'_> {
    type Output = Vec<u32>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Vec<u32> {
        let rows = self.signatures.chunks_exact(self.of.len());
        let counts = rows.map(|row| {
            // A signature has at most 4096 values.
            let equal = row.iter().zip(self.of);
            equal
                .map(|(one, other)| u16::from(one == other))
                .sum::<u16>()
        });
        counts.map(u32::from).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::analysis::{Base, Filters, Form};
    use crate::offsets::OffsetsIn;

    fn hasher(num_hashes: usize, num_bands: usize) -> Result<Hasher> {
        let analyzer = Analyzer {
            base: Base::Simple,
            filters: Filters {
                max_bytes: Some(40),
                lower_case: true,
                stemmer: None,
                stop_words: std::iter::empty::<String>().collect(),
                ascii_folding: true,
            },
            form: Form::Text,
        };
        Hasher::new(Arc::new(analyzer), num_hashes, num_bands, 2)
    }

    #[test]
    fn known_signatures() {
        let texts = Texts {
            offsets: OffsetsIn::Small(&[0, 19, 19, 22, 26]),
            data: b"The quick brown foxFox  \n ",
            validity: None,
        };
        let made = hasher(4, 2).unwrap().sign(texts).unwrap();
        assert_eq!(made.rows, [0, 2]);
        let expected = [
            0xb00f, 0x59d6, 0x511a, 0xcd2c, 0x2970, 0xd6db, 0x65f8, 0xadfc,
        ];
        assert_eq!(made.signatures, expected);
        let expected = [
            0x00f3_0f35_01d4_58ea,
            0x01ae_c5df_28d0_4915,
            0x003c_f6e8_0331_2eca,
            0x017c_5504_fbc8_3f36,
        ];
        assert_eq!(made.keys, expected);
        let of = made.signatures.get(..4).unwrap();
        assert_eq!(equal_values(&made.signatures, of), Ok(vec![4, 0]));
    }

    #[test]
    fn other_shapes_are_refused() {
        for (num_hashes, num_bands) in [(0, 1), (4097, 1), (4, 0), (4, 3), (514, 257)] {
            assert!(hasher(num_hashes, num_bands).is_err());
        }
        assert!(band_keys(&[1, 2, 3], 2, 1).is_err());
        assert!(equal_values(&[1, 2, 3], &[1, 2]).is_err());
        assert!(equal_values(&[], &[]).is_err());
    }
}
