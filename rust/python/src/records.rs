//! The kernel of records that repeat in a message.

use numpy::{IntoPyArray, PyReadonlyArray2};
use pilum_kernels::record_description::Description;
use pilum_kernels::tagged_records::tabulate;
use pyo3::prelude::*;

use crate::arrays::{Made, corrupt, impossible, rows};

type Records<'py> = (
    Made<'py, i64>,
    Made<'py, i64>,
    Vec<Made<'py, u64>>,
    Made<'py, u8>,
    Made<'py, i64>,
);

/// A description of the records of a number, which is checked once.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct RecordDescription(Description);

#[pymethods]
impl RecordDescription {
    #[new]
    #[allow(clippy::needless_pass_by_value)]
    fn new(number: u64, members: PyReadonlyArray2<'_, i64>, banned: Vec<String>) -> PyResult<Self> {
        let described = Description::of(number, &rows(&members)?, banned);
        described.map(Self).map_err(impossible)
    }

    /// Tabulates the records in a message: places, columns, flags and samples.
    fn tabulate<'py>(&self, py: Python<'py>, message: &[u8]) -> PyResult<Records<'py>> {
        let made = py.detach(|| tabulate(message, &self.0));
        let found = made.map_err(|error| corrupt(py, &error))?;
        let columns = found.columns.into_iter();
        Ok((
            found.starts.into_pyarray(py),
            found.ends.into_pyarray(py),
            columns.map(|column| column.into_pyarray(py)).collect(),
            found.flags.into_pyarray(py),
            found.samples.into_pyarray(py),
        ))
    }
}
