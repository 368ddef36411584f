//! The least and the greatest value of zones, which are runs of adjacent values.
//!
//! Floats are in the total order of IEEE 754, and a NaN counts as no value.

use crate::bitmap::word_at;
use crate::error::{Corrupt, Result, ensure, part, size};

/// How bits are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Signed,
    Unsigned,
    Float,
}

/// What is known of each zone.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Zones {
    /// The bytes of the least value of each zone; of zeros if it has none.
    pub least: Vec<u8>,
    /// The bytes of the greatest value of each zone; of zeros if it has none.
    pub most: Vec<u8>,
    pub nulls: Vec<u32>,
    pub nans: Vec<u32>,
}

/// Summarizes the zones between `bounds` of values of 1, 2, 4, 8 or 16 bytes.
///
/// `validity` is a bitmap and its first bit.
pub fn zone_bounds(
    data: &[u8],
    width: usize,
    order: Order,
    validity: Option<(&[u8], usize)>,
    bounds: &[usize],
) -> Result<Zones> {
    if let Some((bitmap, first)) = validity {
        let bits = bitmap.len().saturating_mul(8).saturating_sub(first);
        let needed = data.len() / width.max(1);
        ensure(bits >= needed, "bits of validity", bits, needed)?;
    }
    let mut zones = Zones::default();
    for ends in bounds.windows(2) {
        let &[start, stop] = ends else { continue };
        let rows = stop
            .checked_sub(start)
            .ok_or_else(|| Corrupt(format!("a zone from {start} to {stop}")))?;
        let values = part(
            data,
            start.saturating_mul(width),
            rows.saturating_mul(width),
            "zone",
        )?;
        let validity = validity.map(|(bitmap, first)| (bitmap, first + start));
        match width {
            1 => words8::add(values, order, validity, &mut zones),
            2 => words16::add(values, order, validity, &mut zones),
            4 => words32::add(values, order, validity, &mut zones),
            8 => words64::add(values, order, validity, &mut zones),
            16 => words128::add(values, order, validity, &mut zones),
            _ => Err(Corrupt(format!("zones of values of {width} bytes"))),
        }?;
    }
    Ok(zones)
}

macro_rules! words {
    ($name:ident, $word:ty, $bytes:literal, $infinity:literal) => {
        mod $name {
            use pulp::{Arch, Simd, WithSimd};

            use super::{Order, Result, Zones, size, word_at};

            const SIGN: $word = 1 << (<$word>::BITS - 1);

            /// A number that is ordered as the values are.
            #[inline(always)]
            fn rank(word: $word, order: Order) -> $word {
                match order {
                    Order::Unsigned => word,
                    Order::Signed => word ^ SIGN,
                    Order::Float if word & SIGN == 0 => word | SIGN,
                    Order::Float => !word,
                }
            }

            fn unrank(rank: $word, order: Order) -> $word {
                match order {
                    Order::Unsigned => rank,
                    Order::Signed => rank ^ SIGN,
                    Order::Float if rank & SIGN == 0 => !rank,
                    Order::Float => rank & !SIGN,
                }
            }

            /// What is known of some values: the least and the greatest rank, and counts.
            struct Known {
                least: $word,
                most: $word,
                nulls: usize,
                nans: usize,
            }

            impl Known {
                /// Adds up to 64 values, or any number if all are valid and no floats.
                ///
                /// Bit `i` of `valid` says whether value `i` is valid; null otherwise.
                #[inline(always)]
                fn add(&mut self, block: &[[u8; $bytes]], order: Order, valid: u64) {
                    if valid == u64::MAX && order != Order::Float {
                        let flip = rank(0, order);
                        let (mut least, mut most) = (self.least, self.most);
                        for item in block {
                            let rank = <$word>::from_le_bytes(*item) ^ flip;
                            least = least.min(rank);
                            most = most.max(rank);
                        }
                        (self.least, self.most) = (least, most);
                        return;
                    }
                    let (mut nulls, mut nans) = (0u32, 0u32);
                    let (mut least, mut most) = (self.least, self.most);
                    for (place, item) in (0u32..).zip(block) {
                        let word = <$word>::from_le_bytes(*item);
                        let is_null = valid >> place & 1 == 0;
                        let is_nan = order == Order::Float && word << 1 > $infinity << 1;
                        nulls += u32::from(is_null);
                        nans += u32::from(is_nan && !is_null);
                        let rank = rank(word, order);
                        let is_none = is_null || is_nan;
                        least = least.min(if is_none { <$word>::MAX } else { rank });
                        most = most.max(if is_none { 0 } else { rank });
                    }
                    (self.least, self.most) = (least, most);
                    self.nulls += nulls as usize;
                    self.nans += nans as usize;
                }
            }

            #[inline(always)]
            fn fold(
                items: &[[u8; $bytes]],
                order: Order,
                validity: Option<(&[u8], usize)>,
            ) -> Known {
                let mut known = Known {
                    least: <$word>::MAX,
                    most: 0,
                    nulls: 0,
                    nans: 0,
                };
                if validity.is_none() && order != Order::Float {
                    known.add(items, order, u64::MAX);
                    return known;
                }
                for (number, block) in items.chunks(64).enumerate() {
                    let valid = validity.map_or(u64::MAX, |(bitmap, first)| {
                        word_at(bitmap, first + number * 64)
                    });
                    known.add(block, order, valid);
                }
                known
            }

            /// A closure would be a function of its own, for any processor.
            struct Fold<'a> {
                items: &'a [[u8; $bytes]],
                order: Order,
                validity: Option<(&'a [u8], usize)>,
            }

            impl WithSimd for Fold<'_> {
                type Output = Known;

                #[inline(always)]
                fn with_simd<S: Simd>(self, _: S) -> Known {
                    let (items, validity) = (self.items, self.validity);
                    match self.order {
                        Order::Signed => fold(items, Order::Signed, validity),
                        Order::Unsigned => fold(items, Order::Unsigned, validity),
                        Order::Float => fold(items, Order::Float, validity),
                    }
                }
            }

            pub fn add(
                data: &[u8],
                order: Order,
                validity: Option<(&[u8], usize)>,
                zones: &mut Zones,
            ) -> Result<()> {
                let items = data.as_chunks::<$bytes>().0;
                let known = Arch::new().dispatch(Fold {
                    items,
                    order,
                    validity,
                });
                let Known {
                    mut least,
                    mut most,
                    nulls,
                    nans,
                } = known;
                if nulls + nans == items.len() {
                    (least, most) = (rank(0, order), rank(0, order));
                }
                zones.least.extend(unrank(least, order).to_le_bytes());
                zones.most.extend(unrank(most, order).to_le_bytes());
                let count = |number: usize| {
                    u32::try_from(size(number, "values")?)
                        .map_err(|_| crate::error::out_of_range("values of a zone"))
                };
                zones.nulls.push(count(nulls)?);
                zones.nans.push(count(nans)?);
                Ok(())
            }
        }
    };
}

words!(words8, u8, 1, 0x7f);
words!(words16, u16, 2, 0x7c00);
words!(words32, u32, 4, 0x7f80_0000);
words!(words64, u64, 8, 0x7ff0_0000_0000_0000);
words!(
    words128,
    u128,
    16,
    0x7fff_0000_0000_0000_0000_0000_0000_0000
);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn bytes(values: &[f64]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    #[test]
    fn zones_of_floats() {
        let values = [-1.5, f64::NAN, 0.0, -0.0, -f64::NAN, 7.0];
        let found = zone_bounds(&bytes(&values), 8, Order::Float, None, &[0, 3, 5, 5, 6]).unwrap();
        assert_eq!(found.least, bytes(&[-1.5, -0.0, 0.0, 7.0]));
        assert_eq!(found.most, bytes(&[0.0, -0.0, 0.0, 7.0]));
        assert_eq!(found.nans, [1, 1, 0, 0]);
        assert_eq!(found.nulls, [0; 4]);
    }

    #[test]
    fn zones_with_nulls() {
        let found = zone_bounds(
            &[5, 0xff, 3, 9],
            1,
            Order::Signed,
            Some((&[0b1_1010], 1)),
            &[0, 2, 4],
        )
        .unwrap();
        assert_eq!((found.least, found.most), (vec![5, 3], vec![5, 9]));
        assert_eq!(found.nulls, [1, 0]);
        assert!(zone_bounds(&[1], 1, Order::Unsigned, None, &[0, 2]).is_err());
        assert!(zone_bounds(&[1], 1, Order::Unsigned, Some((&[], 0)), &[0, 1]).is_err());
    }
}
