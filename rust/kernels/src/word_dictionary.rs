//! Values of a fixed width by their index in a dictionary.

use crate::error::{Corrupt, Result, part};

/// Looks up one value of `size` bytes per index.
///
/// Indices are little-endian, of 1, 2, 4 or 8 bytes. All of them must be below the number of values,
/// those of null rows, too.
pub fn words(indices: &[u8], width: usize, values: &[u8], size: usize) -> Result<Vec<u8>> {
    match width {
        1 => of_width::<1>(indices, values, size),
        2 => of_width::<2>(indices, values, size),
        4 => of_width::<4>(indices, values, size),
        8 => of_width::<8>(indices, values, size),
        _ => Err(Corrupt(format!("dictionary indices of {width} bytes"))),
    }
}

fn of_width<const N: usize>(indices: &[u8], values: &[u8], size: usize) -> Result<Vec<u8>> {
    let (indices, _) = indices.as_chunks::<N>();
    match size {
        1 => look_up::<N, 1>(indices, values),
        2 => look_up::<N, 2>(indices, values),
        4 => look_up::<N, 4>(indices, values),
        8 => look_up::<N, 8>(indices, values),
        16 => look_up::<N, 16>(indices, values),
        32 => look_up::<N, 32>(indices, values),
        _ => look_up_any(indices, values, size),
    }
}

fn look_up<const N: usize, const S: usize>(indices: &[[u8; N]], values: &[u8]) -> Result<Vec<u8>> {
    let (values, _) = values.as_chunks::<S>();
    let mut found = Vec::new();
    reserve(&mut found, indices.len(), S)?;
    let mut is_inside = true;
    found.extend(indices.iter().map(|index| {
        let value = values.get(number(index)).copied();
        is_inside &= value.is_some(); // checked at the end, which costs less than to stop
        value.unwrap_or([0; S])
    }));
    if is_inside {
        Ok(found.into_flattened())
    } else {
        Err(beyond(values.len()))
    }
}

fn look_up_any<const N: usize>(indices: &[[u8; N]], values: &[u8], size: usize) -> Result<Vec<u8>> {
    let count = values.len().checked_div(size).unwrap_or(0);
    let mut found = Vec::new();
    reserve(&mut found, indices.len().saturating_mul(size), 1)?;
    for index in indices {
        let index = number(index);
        if index >= count {
            return Err(beyond(count));
        }
        found.extend_from_slice(part(values, index * size, size, "dictionary value")?);
    }
    Ok(found)
}

fn number<const N: usize>(index: &[u8; N]) -> usize {
    let bytes = index.iter().rev();
    let number = bytes.fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn reserve<T>(found: &mut Vec<T>, count: usize, size: usize) -> Result<()> {
    found.try_reserve_exact(count).map_err(|_| {
        let bytes = count.saturating_mul(size);
        Corrupt(format!("{bytes} bytes of values in one page"))
    })
}

fn beyond(count: usize) -> Corrupt {
    Corrupt(format!("dictionary indices beyond its {count} values"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_of_every_width_and_size() {
        for width in [1, 2, 4, 8] {
            let indices: Vec<u8> = [2u64, 0, 1, 2]
                .iter()
                .flat_map(|index| index.to_le_bytes().into_iter().take(width))
                .collect();
            for size in [1, 2, 3, 4, 8, 16, 20, 32] {
                let values: Vec<u8> = [7, 8, 9].iter().flat_map(|&v| vec![v; size]).collect();
                let found = words(&indices, width, &values, size).unwrap();
                let expected: Vec<u8> = [9, 7, 8, 9].iter().flat_map(|&v| vec![v; size]).collect();
                assert_eq!(found, expected);
                let (fewer, _) = values.split_at(2 * size);
                assert!(words(&indices, width, fewer, size).is_err());
            }
        }
        assert!(words(&[0; 6], 3, &[0; 8], 8).is_err());
        assert!(words(&[0], 1, &[], 0).is_err());
    }
}
