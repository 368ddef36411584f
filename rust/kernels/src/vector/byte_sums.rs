//! Exact sums of (row - query)^2 over rows of bytes without a sign, four rows at a time.
//!
//! With AVX2, 16 bytes of each of four rows are widened to 16 bits, and pairs of terms are added by
//! one instruction. Elsewhere rows are summed one by one; the sums are the same.

use std::ops::ControlFlow;

use super::distance;
use crate::error::Result;

/// How many bytes are widened at once.
const BYTES: usize = 16;

/// The greatest width of rows of which squares are added as 32 bits.
const MOST_BYTES: usize = 1 << 16;

/// Calls `visit` with the sum of squares of each row, until it breaks.
///
/// Rows have the width of the query.
#[inline]
pub fn each_square<'a>(
    rows: impl Iterator<Item = Result<&'a [u8]>>,
    query: &[u8],
    visit: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    if query.len() <= MOST_BYTES
        && let Some(simd) = pulp::x86::V3::try_new()
    {
        return simd.vectorize(wide::EachSquare {
            simd,
            rows,
            query,
            visit,
        });
    }
    one_by_one(rows, query, visit)
}

/// Writes the sum of the squared differences of codes, times a factor, for each of some rows.
pub fn l2_of_codes<'a>(
    query: &[u8],
    rows: impl Iterator<Item = Result<&'a [u8]>>,
    factor: f64,
    out: &mut [f32],
) -> Result<()> {
    let mut out = out.iter_mut();
    each_square(rows.take(out.len()), query, |squares| match out.next() {
        Some(out) => {
            *out = distance::scaled(squares, factor);
            ControlFlow::Continue(())
        }
        None => ControlFlow::Break(()),
    })
}

fn one_by_one<'a>(
    rows: impl Iterator<Item = Result<&'a [u8]>>,
    query: &[u8],
    mut visit: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    for row in rows {
        if visit(distance::squares(row?, query)).is_break() {
            break;
        }
    }
    Ok(())
}

#[cfg(target_arch = "x86_64")]
mod wide {
    //! Four rows at a time.
    use std::arch::x86_64::__m256i;
    use std::ops::ControlFlow;

    use pulp::NullaryFnOnce;
    use pulp::x86::V3;

    use super::BYTES;
    use crate::error::Result;
    use crate::vector::distance;

    pub struct EachSquare<'q, R, V> {
        pub simd: V3,
        pub rows: R,
        pub query: &'q [u8],
        pub visit: V,
    }

    impl<'a, R, V> NullaryFnOnce for EachSquare<'_, R, V>
    where
        R: Iterator<Item = Result<&'a [u8]>>,
        V: FnMut(u64) -> ControlFlow<()>,
    {
        type Output = Result<()>;

        #[inline(always)]
        fn call(self) -> Result<()> {
            let Self {
                simd,
                mut rows,
                query,
                mut visit,
            } = self;
            let avx2 = simd.avx2;
            let (queries, query_rest) = query.as_chunks::<BYTES>();
            while let Some(first) = rows.next() {
                let others = [rows.next(), rows.next(), rows.next()];
                let count = 1 + others.iter().flatten().count();
                let first = first?;
                let [second, third, fourth] = others;
                let four = [
                    first,
                    second.transpose()?.map_or(first, |row| row),
                    third.transpose()?.map_or(first, |row| row),
                    fourth.transpose()?.map_or(first, |row| row),
                ];
                let blocks = four.map(|row| row.as_chunks::<BYTES>());
                let sums = sums(
                    simd,
                    blocks.map(|(blocks, _)| blocks),
                    queries,
                    #[inline(always)]
                    |query: &[u8; BYTES]| avx2._mm256_cvtepu8_epi16(pulp::cast(*query)),
                    #[inline(always)]
                    |row: &[u8; BYTES], query| {
                        let row = avx2._mm256_cvtepu8_epi16(pulp::cast(*row));
                        let difference = avx2._mm256_sub_epi16(row, query);
                        avx2._mm256_madd_epi16(difference, difference)
                    },
                );
                for (sum, (_, rest)) in sums.iter().zip(blocks).take(count) {
                    let mut total = u64::from(sum.cast_unsigned());
                    if !query_rest.is_empty() {
                        total += distance::squares(rest, query_rest);
                    }
                    if visit(total).is_break() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        }
    }

    /// The sums of the terms of four rows.
    #[inline(always)]
    fn sums<T, Q>(
        simd: V3,
        rows: [&[T]; 4],
        query: &[Q],
        widened: impl Fn(&Q) -> __m256i,
        terms: impl Fn(&T, __m256i) -> __m256i,
    ) -> [i32; 4] {
        let (avx, avx2) = (simd.avx, simd.avx2);
        let zero = avx._mm256_setzero_si256();
        let [mut sum0, mut sum1, mut sum2, mut sum3] = [zero; 4];
        let [a, b, c, d] = rows;
        let rows = a.iter().zip(b).zip(c.iter().zip(d));
        for (((a, b), (c, d)), query) in rows.zip(query) {
            let query = widened(query);
            sum0 = avx2._mm256_add_epi32(sum0, terms(a, query));
            sum1 = avx2._mm256_add_epi32(sum1, terms(b, query));
            sum2 = avx2._mm256_add_epi32(sum2, terms(c, query));
            sum3 = avx2._mm256_add_epi32(sum3, terms(d, query));
        }
        let low = avx2._mm256_hadd_epi32(sum0, sum1);
        let high = avx2._mm256_hadd_epi32(sum2, sum3);
        let all = avx2._mm256_hadd_epi32(low, high);
        let halves = [
            avx._mm256_castsi256_si128(all),
            avx2._mm256_extracti128_si256::<1>(all),
        ];
        let [low, high] = halves;
        pulp::cast(simd.sse2._mm_add_epi32(low, high))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn bytes(count: usize, factor: usize) -> Vec<u8> {
        let byte = |i: usize| u8::try_from(i * i * factor % 256).unwrap();
        (0..count).map(byte).collect()
    }

    #[test]
    fn squares_are_those_of_single_rows() {
        for width in [1, 3, 15, 16, 17, 64, 100, 70_000] {
            for count in [0, 1, 3, 4, 5, 9] {
                let (rows, query) = (bytes(width * count, 7), bytes(width, 13));
                let mut found = Vec::new();
                let each = rows.chunks_exact(width).map(Ok);
                each_square(each, &query, |sum| {
                    found.push(sum);
                    ControlFlow::Continue(())
                })
                .unwrap();
                let each = rows.chunks_exact(width);
                let expected: Vec<_> = each.map(|row| distance::squares(row, &query)).collect();
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn squares_of_opposite_bytes_do_not_overflow() {
        let (row, query) = (vec![255u8; MOST_BYTES], vec![0u8; MOST_BYTES]);
        let mut found = 0;
        each_square([Ok(row.as_slice())].into_iter(), &query, |sum| {
            found = sum;
            ControlFlow::Break(())
        })
        .unwrap();
        assert_eq!(found, 65_025 << 16);
    }

    #[test]
    fn a_visit_can_end_it() {
        let rows = bytes(16 * 9, 3);
        let mut visits = 0;
        each_square(rows.chunks_exact(16).map(Ok), &[0; 16], |_| {
            visits += 1;
            if visits == 6 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap();
        assert_eq!(visits, 6);
    }
}
