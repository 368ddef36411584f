//! The order of keys, and lookups in keys that are in order.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pilum_kernels::order;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Bytes, Made, OffsetsArg, first_that_fits, impossible, slice};

/// The places of keys in ascending order; equal keys keep theirs.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn stable_order<'py>(
    py: Python<'py>,
    keys: PyReadonlyArray1<'py, u64>,
) -> PyResult<Made<'py, i64>> {
    let keys = slice(&keys)?;
    let made = py.detach(|| order::stable_order(keys));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// Keys in ascending order, each with its value; values of equal keys keep their order.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn sort_pairs<'py>(
    py: Python<'py>,
    keys: PyReadonlyArray1<'py, u64>,
    values: PyReadonlyArray1<'py, u64>,
) -> PyResult<(Made<'py, u64>, Made<'py, u64>)> {
    let (keys, values) = (slice(&keys)?, slice(&values)?);
    let made = py.detach(|| order::sort_pairs(keys, values));
    let (keys, values) = made.map_err(impossible)?;
    Ok((keys.into_pyarray(py), values.into_pyarray(py)))
}

/// How many of some ascending strings are less than each wanted one; or equal, too, if `after`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn places_of_strings<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
    wanted_offsets: OffsetsArg<'py>,
    wanted: Bytes<'py>,
    after: bool,
) -> PyResult<Made<'py, i64>> {
    let strings = order::Strings {
        offsets: offsets.view()?,
        data: slice(&data)?,
    };
    let wanted = order::Strings {
        offsets: wanted_offsets.view()?,
        data: slice(&wanted)?,
    };
    let made = py.detach(|| order::places(strings, wanted, after));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// Ascending integers.
pub enum Integers<'py> {
    Int64(PyReadonlyArray1<'py, i64>),
    UInt64(PyReadonlyArray1<'py, u64>),
    Int32(PyReadonlyArray1<'py, i32>),
    UInt32(PyReadonlyArray1<'py, u32>),
}

first_that_fits!(Integers<'py>: Int64, UInt64, Int32, UInt32);

/// The pairs of equal items of two ascending arrays of one type: the places in both.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn equal_pairs<'py>(
    py: Python<'py>,
    wanted: Integers<'py>,
    keys: Integers<'py>,
) -> PyResult<(Made<'py, i64>, Made<'py, i64>)> {
    let made = match (&wanted, &keys) {
        (Integers::Int64(wanted), Integers::Int64(keys)) => {
            let (wanted, keys) = (slice(wanted)?, slice(keys)?);
            py.detach(|| order::equal_pairs(wanted, keys))
        }
        (Integers::UInt64(wanted), Integers::UInt64(keys)) => {
            let (wanted, keys) = (slice(wanted)?, slice(keys)?);
            py.detach(|| order::equal_pairs(wanted, keys))
        }
        (Integers::Int32(wanted), Integers::Int32(keys)) => {
            let (wanted, keys) = (slice(wanted)?, slice(keys)?);
            py.detach(|| order::equal_pairs(wanted, keys))
        }
        (Integers::UInt32(wanted), Integers::UInt32(keys)) => {
            let (wanted, keys) = (slice(wanted)?, slice(keys)?);
            py.detach(|| order::equal_pairs(wanted, keys))
        }
        _ => return Err(PyValueError::new_err("keys of two types")),
    };
    let (places, found) = made.map_err(impossible)?;
    Ok((places.into_pyarray(py), found.into_pyarray(py)))
}

/// A page: its ascending keys, the reference of each, and the part of the wanted keys to look up.
type SoughtPage<'py> = (Integers<'py>, PyReadonlyArray1<'py, u64>, usize, usize);

/// The references of the keys of pages that equal one of some ascending keys of the same type.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn equal_rows<'py>(
    py: Python<'py>,
    wanted: Integers<'py>,
    pages: Vec<SoughtPage<'py>>,
) -> PyResult<Made<'py, u64>> {
    macro_rules! search {
        ($kind:ident, $wanted:expr) => {{
            let wanted = slice($wanted)?;
            let mut sought = Vec::with_capacity(pages.len());
            for (keys, references, first, end) in &pages {
                let Integers::$kind(keys) = keys else {
                    return Err(PyValueError::new_err("keys of two types"));
                };
                let part = wanted.get(*first..*end);
                let part = part.ok_or_else(|| PyValueError::new_err("a part of the keys"))?;
                sought.push((slice(keys)?, slice(references)?, part));
            }
            py.detach(|| order::equal_rows(&sought))
        }};
    }
    let made = match &wanted {
        Integers::Int64(wanted) => search!(Int64, wanted),
        Integers::UInt64(wanted) => search!(UInt64, wanted),
        Integers::Int32(wanted) => search!(Int32, wanted),
        Integers::UInt32(wanted) => search!(UInt32, wanted),
    };
    Ok(made.map_err(impossible)?.into_pyarray(py))
}
