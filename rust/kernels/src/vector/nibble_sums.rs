//! Exact sums of products of codes of 4 bits with bytes, eight rows at a time.
//!
//!     group     eight rows, blocks of 8 codes of each: 4 bytes of the first row, of the second, …
//!     byte      the code i of a block in the lower half, the code i + 4 in the upper one
//!     code      0 … 15, which represents -8 … 7
//!     query     as many blocks of 8 bytes with a sign, each between -127 and 127
//!
//! With AVX2, the products of all rows with 4 numbers of a query are added in pairs by one
//! instruction, as integers of 16 bits, and stay in the lanes of their rows. Elsewhere rows are
//! summed one by one; the sums are the same.

/// How many rows are in a group.
pub const ROWS: usize = 8;

/// How many codes of a row are in a block.
pub const CODES: usize = 8;

/// How many queries go through the codes together.
pub const SEVERAL: usize = 4;

/// How many bytes a block of a row has.
const BYTES: usize = CODES / 2;

/// What the code of 0 is.
const ZERO: i8 = 8;

/// A block of a group.
pub type Block = [u8; ROWS * BYTES];

/// The sums of a group.
pub type Sums = [i32; ROWS];

/// Writes the codes of a row, between -8 and 7, to its place in a group.
pub fn pack(codes: &[i8], place: usize, group: &mut [Block]) {
    let (whole, rest) = codes.as_chunks::<CODES>();
    let mut last = [0; CODES];
    for (to, code) in last.iter_mut().zip(rest) {
        *to = *code;
    }
    for (codes, block) in whole.iter().chain([&last]).zip(group) {
        let bytes = block.as_chunks_mut::<BYTES>().0.get_mut(place);
        let (low, high) = codes.split_at(BYTES);
        for (byte, (low, high)) in bytes.into_iter().flatten().zip(low.iter().zip(high)) {
            *byte = nibble(*low) | nibble(*high) << 4;
        }
    }
}

fn nibble(code: i8) -> u8 {
    code.wrapping_add(ZERO).cast_unsigned() & 15
}

/// The numbers of a query.
#[derive(Default)]
pub struct Query {
    /// Of each block, its lower and its upper half, as they are repeated for all rows.
    blocks: Vec<[i32; 2]>,
    /// What a row of zeros adds to a sum.
    excess: i32,
}

impl Query {
    pub fn new(numbers: &[i8]) -> Self {
        let half = |numbers: &[i8]| {
            let mut bytes = [0; BYTES];
            for (byte, number) in bytes.iter_mut().zip(numbers) {
                *byte = number.cast_unsigned();
            }
            i32::from_le_bytes(bytes)
        };
        let block = |numbers: &[i8]| {
            let (low, high) = numbers.split_at(numbers.len().min(BYTES));
            [half(low), half(high)]
        };
        let all = numbers.iter().map(|&number| i32::from(number));
        Self {
            blocks: numbers.chunks(CODES).map(block).collect(),
            excess: i32::from(ZERO) * all.sum::<i32>(),
        }
    }
}

/// Writes the sum of products of each row of some groups.
///
/// A group has as many blocks as the query; sums fit 32 bits.
pub fn products(groups: &[Block], query: &Query, out: &mut [Sums]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return simd.vectorize(wide::Products {
            simd,
            groups,
            query,
            out,
        });
    }
    for (group, out) in groups.chunks_exact(query.blocks.len().max(1)).zip(out) {
        *out = sums(group, query);
    }
}

/// Writes the same for several queries, whose codes are unpacked once.
pub fn products_of_several(
    groups: &[Block],
    queries: [&Query; SEVERAL],
    out: [&mut [Sums]; SEVERAL],
) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return simd.vectorize(wide::ProductsOfSeveral {
            simd,
            groups,
            queries,
            out,
        });
    }
    for (query, out) in queries.into_iter().zip(out) {
        products(groups, query, out);
    }
}

fn sums(group: &[Block], query: &Query) -> Sums {
    let mut sums = [-query.excess; ROWS];
    for (block, query) in group.iter().zip(&query.blocks) {
        let [low, high] = query.map(|half| half.to_le_bytes().map(u8::cast_signed));
        for (sum, bytes) in sums.iter_mut().zip(block.as_chunks::<BYTES>().0) {
            for (&byte, (&low, &high)) in bytes.iter().zip(low.iter().zip(&high)) {
                *sum += i32::from(byte & 15) * i32::from(low);
                *sum += i32::from(byte >> 4) * i32::from(high);
            }
        }
    }
    sums
}

#[cfg(target_arch = "x86_64")]
mod wide {
    //! A lane of 32 bits for each row.
    use std::arch::x86_64::__m256i;

    use pulp::NullaryFnOnce;
    use pulp::x86::V3;

    use super::{Block, Query, SEVERAL, Sums};

    /// So many blocks are added as 16 bits: 4 * 4 * 15 * 127 is less than 2^15.
    const SHORT: usize = 4;

    pub struct Products<'a> {
        pub simd: V3,
        pub groups: &'a [Block],
        pub query: &'a Query,
        pub out: &'a mut [Sums],
    }

    impl NullaryFnOnce for Products<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Self { simd, query, .. } = self;
            let avx2 = simd.avx2;
            let excess = simd.avx._mm256_set1_epi32(query.excess);
            let groups = self.groups.chunks_exact(query.blocks.len().max(1));
            for (group, out) in groups.zip(self.out) {
                let sums = sums(simd, group, &query.blocks);
                *out = pulp::cast(avx2._mm256_sub_epi32(sums, excess));
            }
        }
    }

    pub struct ProductsOfSeveral<'a, 'o> {
        pub simd: V3,
        pub groups: &'a [Block],
        pub queries: [&'a Query; SEVERAL],
        pub out: [&'o mut [Sums]; SEVERAL],
    }

    impl NullaryFnOnce for ProductsOfSeveral<'_, '_> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Self { simd, queries, .. } = self;
            let excess = queries.map(|query| simd.avx._mm256_set1_epi32(query.excess));
            let [first, ..] = queries;
            let groups = self.groups.chunks_exact(first.blocks.len().max(1));
            let [a, b, c, d] = self.out;
            let out = a.iter_mut().zip(b).zip(c.iter_mut().zip(d));
            for (group, ((a, b), (c, d))) in groups.zip(out) {
                let found = sums_of_several(simd, group, queries);
                for (out, (sums, excess)) in
                    [a, b, c, d].into_iter().zip(found.into_iter().zip(excess))
                {
                    *out = pulp::cast(simd.avx2._mm256_sub_epi32(sums, excess));
                }
            }
        }
    }

    #[inline(always)]
    fn sums_of_several(
        simd: V3,
        group: &[Block],
        queries: [&Query; SEVERAL],
    ) -> [__m256i; SEVERAL] {
        let (avx, avx2) = (simd.avx, simd.avx2);
        let ones = avx._mm256_set1_epi16(1);
        let mut sums = [avx._mm256_setzero_si256(); SEVERAL];
        let [a, b, c, d] = queries.map(|query| query.blocks.chunks(SHORT));
        for (blocks, ((a, b), (c, d))) in group.chunks(SHORT).zip(a.zip(b).zip(c.zip(d))) {
            let short = of_some_of_several(simd, blocks, [a, b, c, d]);
            for (sum, short) in sums.iter_mut().zip(short) {
                *sum = avx2._mm256_add_epi32(*sum, avx2._mm256_madd_epi16(short, ones));
            }
        }
        sums
    }

    /// The sums of at most `SHORT` blocks for several queries; see `of_some`.
    #[inline(always)]
    fn of_some_of_several(
        simd: V3,
        blocks: &[Block],
        queries: [&[[i32; 2]]; SEVERAL],
    ) -> [__m256i; SEVERAL] {
        let (avx, avx2) = (simd.avx, simd.avx2);
        let half = avx._mm256_set1_epi8(15);
        let mut sums = [avx._mm256_setzero_si256(); SEVERAL];
        let [a, b, c, d] = queries.map(<[[i32; 2]]>::iter);
        for (&block, ((a, b), (c, d))) in blocks.iter().zip(a.zip(b).zip(c.zip(d))) {
            let codes = pulp::cast(block);
            let of_low = avx2._mm256_and_si256(codes, half);
            let of_high = avx2._mm256_and_si256(avx2._mm256_srli_epi16::<4>(codes), half);
            for (sum, &[low, high]) in sums.iter_mut().zip([a, b, c, d]) {
                let of_low = avx2._mm256_maddubs_epi16(of_low, avx._mm256_set1_epi32(low));
                let of_high = avx2._mm256_maddubs_epi16(of_high, avx._mm256_set1_epi32(high));
                *sum = avx2._mm256_add_epi16(*sum, avx2._mm256_add_epi16(of_low, of_high));
            }
        }
        sums
    }

    #[inline(always)]
    fn sums(simd: V3, group: &[Block], query: &[[i32; 2]]) -> __m256i {
        let (avx, avx2) = (simd.avx, simd.avx2);
        let ones = avx._mm256_set1_epi16(1);
        let mut sum = avx._mm256_setzero_si256();
        let (fours, rest) = group.as_chunks::<SHORT>();
        let (query_fours, query_rest) = query.as_chunks::<SHORT>();
        for (blocks, query) in fours.iter().zip(query_fours) {
            let short = of_some(simd, blocks, query);
            sum = avx2._mm256_add_epi32(sum, avx2._mm256_madd_epi16(short, ones));
        }
        let short = of_some(simd, rest, query_rest);
        avx2._mm256_add_epi32(sum, avx2._mm256_madd_epi16(short, ones))
    }

    /// The sums of at most `SHORT` blocks, two of 16 bits for each row.
    #[inline(always)]
    fn of_some(simd: V3, blocks: &[Block], query: &[[i32; 2]]) -> __m256i {
        let (avx, avx2) = (simd.avx, simd.avx2);
        let half = avx._mm256_set1_epi8(15);
        let mut sum = avx._mm256_setzero_si256();
        for (&block, &[low, high]) in blocks.iter().zip(query) {
            let codes = pulp::cast(block);
            let of_low = avx2._mm256_and_si256(codes, half);
            let codes = avx2._mm256_srli_epi16::<4>(codes);
            let of_high = avx2._mm256_and_si256(codes, half);
            let of_low = avx2._mm256_maddubs_epi16(of_low, avx._mm256_set1_epi32(low));
            let of_high = avx2._mm256_maddubs_epi16(of_high, avx._mm256_set1_epi32(high));
            let both = avx2._mm256_add_epi16(of_low, of_high);
            sum = avx2._mm256_add_epi16(sum, both);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn some(count: usize, factor: usize, most: usize) -> Vec<i8> {
        let one = |i: usize| i8::try_from(i * i * factor % (2 * most)).unwrap();
        (0..count)
            .map(|i| one(i) - i8::try_from(most).unwrap())
            .collect()
    }

    fn sums_of(rows: &[Vec<i8>], numbers: &[i8]) -> Vec<i32> {
        let query = Query::new(numbers);
        let width = query.blocks.len();
        let num_groups = rows.len().div_ceil(ROWS);
        let mut groups = vec![[0; 32]; num_groups * width];
        for (rows, group) in rows.chunks(ROWS).zip(groups.chunks_mut(width)) {
            for (place, row) in rows.iter().enumerate() {
                pack(row, place, group);
            }
        }
        let mut found = vec![[0; ROWS]; num_groups];
        products(&groups, &query, &mut found);
        let each = groups.chunks(width);
        let portable: Vec<Sums> = each.map(|group| sums(group, &query)).collect();
        assert_eq!(found, portable);
        let other = Query::new(&vec![1; numbers.len()]);
        let [mut first, mut second] = [found.clone(), found.clone()];
        let (mut third, mut fourth) = (first.clone(), vec![[0; ROWS]; num_groups]);
        products_of_several(
            &groups,
            [&other, &query, &other, &query],
            [&mut first, &mut second, &mut third, &mut fourth],
        );
        assert_eq!([&second, &fourth], [&found; 2]);
        assert_eq!(first, third);
        products(&groups, &other, &mut second);
        assert_eq!(first, second);
        let mut found = found.as_flattened().to_vec();
        found.truncate(rows.len());
        found
    }

    #[test]
    fn sums_are_those_of_the_formula() {
        for dimension in [1usize, 3, 4, 7, 8, 9, 32, 40, 65, 128, 300, 768] {
            let query = some(dimension, 13, 63);
            for count in [0usize, 1, 7, 8, 9, 24] {
                let rows: Vec<Vec<i8>> = (0..count).map(|i| some(dimension, i + 3, 8)).collect();
                let naive = |row: &Vec<i8>| {
                    let each = row.iter().zip(&query);
                    each.map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
                };
                let expected: Vec<i32> = rows.iter().map(naive).collect();
                assert_eq!(sums_of(&rows, &query), expected);
            }
        }
    }

    #[test]
    fn the_greatest_sums_do_not_overflow() {
        for (code, value) in [(7i8, 127i8), (7, -127), (-8, 127), (-8, -127)] {
            let rows = vec![vec![code; 1000]; 9];
            let expected = 1000 * i32::from(code) * i32::from(value);
            assert_eq!(sums_of(&rows, &[value; 1000]), [expected; 9]);
        }
    }
}
