//! The bounds of zones.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pilum_kernels::zone_bounds::{Order, zone_bounds as bounds_of_zones};
use pyo3::prelude::*;

use crate::arrays::{Bytes, Made, impossible, sizes, slice};

/// The bytes of the least and the greatest value of each zone, and the numbers of nulls and NaNs.
///
/// Values are integers, `signed` or not, or floats if `signed` is None.
#[pyfunction]
#[pyo3(signature = (data, width, signed, validity, bounds))]
#[allow(clippy::needless_pass_by_value, clippy::type_complexity)]
pub fn zone_bounds<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    width: usize,
    signed: Option<bool>,
    validity: Option<(Bytes<'py>, usize)>,
    bounds: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Made<'py, u8>, Made<'py, u8>, Made<'py, u32>, Made<'py, u32>)> {
    let order = match signed {
        None => Order::Float,
        Some(true) => Order::Signed,
        Some(false) => Order::Unsigned,
    };
    let (data, bounds) = (slice(&data)?, sizes(&bounds)?);
    let validity = match &validity {
        Some((bitmap, first)) => Some((slice(bitmap)?, *first)),
        None => None,
    };
    let made = py.detach(|| bounds_of_zones(data, width, order, validity, &bounds));
    let zones = made.map_err(impossible)?;
    Ok((
        zones.least.into_pyarray(py),
        zones.most.into_pyarray(py),
        zones.nulls.into_pyarray(py),
        zones.nans.into_pyarray(py),
    ))
}
