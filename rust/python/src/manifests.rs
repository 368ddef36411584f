//! The kernel of manifests.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pilum_kernels::fragment_survey::survey;
use pyo3::prelude::*;

use crate::arrays::{corrupt, slice};

type Made<'py, T> = Bound<'py, PyArray1<T>>;
type Surveyed<'py> = (
    Made<'py, i64>,
    Made<'py, i64>,
    Made<'py, u64>,
    Made<'py, u64>,
    Made<'py, u64>,
    Made<'py, u8>,
    Made<'py, i64>,
);

/// Surveys the fragments in the message of a manifest.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn survey_fragments<'py>(
    py: Python<'py>,
    message: PyReadonlyArray1<'py, u8>,
) -> PyResult<Surveyed<'py>> {
    let message = slice(&message)?;
    let made = py.detach(|| survey(message));
    let found = made.map_err(|error| corrupt(py, &error))?;
    Ok((
        found.starts.into_pyarray(py),
        found.ends.into_pyarray(py),
        found.ids.into_pyarray(py),
        found.rows.into_pyarray(py),
        found.deleted.into_pyarray(py),
        found.flags.into_pyarray(py),
        found.samples.into_pyarray(py),
    ))
}
