//! Sets of rows as bits.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pilum_kernels::row_marks;
use pyo3::prelude::*;

use crate::arrays::{Made, impossible, slice};

/// A set of rows as a bit for each row; see `row_marks`.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct RowMarks(row_marks::RowMarks);

#[pymethods]
impl RowMarks {
    /// Marks rows in ascending order; none if that takes more fragments or bytes.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn made(
        py: Python<'_>,
        rows: PyReadonlyArray1<'_, u64>,
        value: bool,
        most_fragments: usize,
        most_bytes: usize,
    ) -> PyResult<Option<Self>> {
        let rows = slice(&rows)?;
        let made = py.detach(|| row_marks::RowMarks::new(rows, value, most_fragments, most_bytes));
        Ok(made.map_err(impossible)?.map(Self))
    }

    /// Marks the rows whose bits are set, given the first row of each part, its bits, the number of
    /// the first one and how many they are; none if that takes more fragments or bytes.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn of_bits(
        parts: Vec<(u64, PyReadonlyArray1<'_, u8>, usize, usize)>,
        most_fragments: usize,
        most_bytes: usize,
    ) -> PyResult<Option<Self>> {
        let parts = parts.iter().map(|(first, bitmap, start, count)| {
            Ok(row_marks::RowBits {
                first: *first,
                bitmap: slice(bitmap)?,
                start: *start,
                count: *count,
            })
        });
        let parts = parts.collect::<PyResult<Vec<_>>>()?;
        let made = row_marks::RowMarks::of_bits(&parts, most_fragments, most_bytes);
        Ok(made.map_err(impossible)?.map(Self))
    }

    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes()
    }

    /// Whether the bit of each row is set.
    #[allow(clippy::needless_pass_by_value)]
    fn of<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray1<'py, u64>,
    ) -> PyResult<Made<'py, bool>> {
        let rows = slice(&rows)?;
        Ok(py.detach(|| self.0.of(rows)).into_pyarray(py))
    }

    /// The same of some parts; none for parts without any bit that is set.
    #[allow(clippy::needless_pass_by_value)]
    fn of_each<'py>(
        &self,
        py: Python<'py>,
        parts: Vec<PyReadonlyArray1<'py, u64>>,
    ) -> PyResult<Vec<Option<Made<'py, bool>>>> {
        let parts = parts.iter().map(slice).collect::<PyResult<Vec<_>>>()?;
        let made = py.detach(|| self.0.of_each(&parts)).into_iter();
        Ok(made.map(|marks| Some(marks?.into_pyarray(py))).collect())
    }
}
