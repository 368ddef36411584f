//! JSON text and its binary form.

use numpy::IntoPyArray;
use numpy::{PyArray1, PyReadonlyArray1};
use pilum_kernels::jsonb;
use pyo3::prelude::*;

use crate::arrays::{OffsetsArg, corrupt, impossible, slice};

type Bytes<'py> = PyReadonlyArray1<'py, u8>;
type Strings<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u8>>);

/// Converts texts to binary form; returns offsets and bytes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn encode_json<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
    validity: Option<Bytes<'py>>,
) -> PyResult<Strings<'py>> {
    let (offsets, data) = (offsets.view()?, slice(&data)?);
    let validity = validity.as_ref().map(slice).transpose()?;
    let made = py.detach(|| jsonb::encode(offsets, data, validity));
    let (offsets, data) = made.map_err(impossible)?;
    Ok((offsets.into_pyarray(py), data.into_pyarray(py)))
}

/// Converts binary values to text; returns offsets and bytes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn decode_json<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
    validity: Option<Bytes<'py>>,
) -> PyResult<Strings<'py>> {
    let (offsets, data) = (offsets.view()?, slice(&data)?);
    let validity = validity.as_ref().map(slice).transpose()?;
    let made = py.detach(|| jsonb::decode(offsets, data, validity));
    let (offsets, data) = made.map_err(|error| corrupt(py, &error))?;
    Ok((offsets.into_pyarray(py), data.into_pyarray(py)))
}
