//! JSON text and its binary form.

use numpy::IntoPyArray;
use numpy::PyArray1;
use pilum_kernels::{json_path, json_select as selecting, jsonb};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Bytes, OffsetsArg, corrupt, first_that_fits, impossible, slice};

type Strings<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u8>>);

/// Texts or binary documents, as the kernels take them.
fn documents<'a>(
    offsets: &'a OffsetsArg<'_>,
    data: &'a Bytes<'_>,
    validity: Option<&'a Bytes<'_>>,
) -> PyResult<selecting::Documents<'a>> {
    Ok(selecting::Documents {
        offsets: offsets.view()?,
        data: slice(data)?,
        validity: validity.map(slice).transpose()?,
    })
}

/// Converts texts to binary form; returns offsets and bytes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn encode_json<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
    validity: Option<Bytes<'py>>,
) -> PyResult<Strings<'py>> {
    let documents = documents(&offsets, &data, validity.as_ref())?;
    let made = py.detach(|| jsonb::encode(documents.offsets, documents.data, documents.validity));
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
    let documents = documents(&offsets, &data, validity.as_ref())?;
    let made = py.detach(|| jsonb::decode(documents.offsets, documents.data, documents.validity));
    let (offsets, data) = made.map_err(|error| corrupt(py, &error))?;
    Ok((offsets.into_pyarray(py), data.into_pyarray(py)))
}

/// A step of a path: the number of an item, or the name of a member.
pub enum StepArg {
    Item(usize),
    Key(String),
}

first_that_fits!(StepArg: Item, Key);

type Values<'py> = (
    Bound<'py, PyArray1<u8>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<u8>>,
);

/// The kinds of the values at a path, the bits of numbers, and the offsets and bytes of texts.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn json_values<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
    validity: Option<Bytes<'py>>,
    path: Vec<StepArg>,
) -> PyResult<Values<'py>> {
    let documents = documents(&offsets, &data, validity.as_ref())?;
    let path: Vec<json_path::Step> = path
        .into_iter()
        .map(|step| match step {
            StepArg::Item(index) => json_path::Step::Item(index),
            StepArg::Key(name) => json_path::Step::Key(name),
        })
        .collect();
    let found = py
        .detach(|| json_path::values(documents.offsets, documents.data, documents.validity, &path))
        .map_err(|error| corrupt(py, &error))?;
    Ok((
        found.kinds.into_pyarray(py),
        found.bits.into_pyarray(py),
        found.ends.into_pyarray(py),
        found.texts.into_pyarray(py),
    ))
}

/// A step of a JSONPath: the name of a member, `("members",)`, `("items",)`, or ranges of items.
pub enum SelectArg {
    Member(String),
    Every((String,)),
    Items(Vec<(i64, i64)>),
}

first_that_fits!(SelectArg: Member, Every, Items);

fn selection(path: Vec<SelectArg>) -> PyResult<Vec<selecting::Step>> {
    path.into_iter()
        .map(|step| match step {
            SelectArg::Member(name) => Ok(selecting::Step::Member(name)),
            SelectArg::Items(spans) => Ok(selecting::Step::Items(spans)),
            SelectArg::Every((what,)) if what == "members" => Ok(selecting::Step::Members),
            SelectArg::Every((what,)) if what == "items" => Ok(selecting::Step::AllItems),
            SelectArg::Every((what,)) => Err(PyValueError::new_err(format!(
                "step {what:?}: expected members or items"
            ))),
        })
        .collect()
}

/// Which documents have values at a path, and offsets and bytes of these values as documents.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, clippy::type_complexity)]
pub fn json_select<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
    validity: Option<Bytes<'py>>,
    path: Vec<SelectArg>,
) -> PyResult<(
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<u8>>,
)> {
    let documents = documents(&offsets, &data, validity.as_ref())?;
    let path = selection(path)?;
    let (found, (ends, data)) = py
        .detach(|| selecting::select(documents, &path))
        .map_err(|error| corrupt(py, &error))?;
    Ok((
        found.into_pyarray(py),
        ends.into_pyarray(py),
        data.into_pyarray(py),
    ))
}

/// The number of items of the array at a path: 0 for other values, -1 where there is none.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn json_array_lengths<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
    validity: Option<Bytes<'py>>,
    path: Vec<SelectArg>,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let documents = documents(&offsets, &data, validity.as_ref())?;
    let path = selection(path)?;
    let found = py
        .detach(|| selecting::lengths(documents, &path))
        .map_err(|error| corrupt(py, &error))?;
    Ok(found.into_pyarray(py))
}

/// Whether an array at a path has an item with a text.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn json_array_contains<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
    validity: Option<Bytes<'py>>,
    path: Vec<SelectArg>,
    text: String,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let documents = documents(&offsets, &data, validity.as_ref())?;
    let path = selection(path)?;
    let found = py
        .detach(|| selecting::contains(documents, &path, &text))
        .map_err(|error| corrupt(py, &error))?;
    Ok(found.into_pyarray(py))
}
