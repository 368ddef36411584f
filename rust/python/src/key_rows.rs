//! Collectors of the rows of keys: of trigrams, numbers and strings.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pilum_kernels::error::signed;
use pilum_kernels::key_rows::KeyRows;
use pilum_kernels::row_set_writer::Packed;
use pilum_kernels::trigrams;
use pyo3::prelude::*;

use crate::arrays::{Bytes, Made, OffsetsArg, impossible, slice};

/// The distinct trigrams of a text, in ascending order.
#[pyfunction]
pub fn trigrams_of<'py>(py: Python<'py>, text: &str) -> Made<'py, u32> {
    trigrams::of(text).into_pyarray(py)
}

/// Collects the rows of each trigram of texts.
#[pyclass(module = "pilum._kernels")]
#[derive(Default)]
pub struct TrigramPostings(trigrams::Postings);

#[pymethods]
impl TrigramPostings {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds texts, each with its row.
    #[allow(clippy::needless_pass_by_value)]
    fn add(
        &mut self,
        py: Python<'_>,
        offsets: OffsetsArg<'_>,
        data: Bytes<'_>,
        rows: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<()> {
        let (offsets, data, rows) = (offsets.view()?, slice(&data)?, slice(&rows)?);
        py.detach(|| self.0.add(offsets, data, rows))
            .map_err(impossible)
    }

    /// Adds rows without a text.
    #[allow(clippy::needless_pass_by_value)]
    fn add_nulls(&mut self, py: Python<'_>, rows: PyReadonlyArray1<'_, u64>) -> PyResult<()> {
        let rows = slice(&rows)?;
        py.detach(|| self.0.add_nulls(rows));
        Ok(())
    }

    /// Returns the next trigrams, their serialized sets of rows and the ends of these.
    fn take<'py>(
        &mut self,
        py: Python<'py>,
        wanted_bytes: usize,
    ) -> PyResult<(Made<'py, u32>, Made<'py, u8>, Made<'py, i64>)> {
        let taken = py.detach(|| self.0.take(wanted_bytes));
        let (keys, packed) = taken.map_err(impossible)?;
        let (data, ends) = sets_out(py, packed);
        Ok((keys.into_pyarray(py), data, ends))
    }
}

/// Collects the rows of each number.
#[pyclass(module = "pilum._kernels")]
#[derive(Default)]
pub struct NumberRows(KeyRows<u64>);

#[pymethods]
impl NumberRows {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// About how much memory it needs.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes()
    }

    /// Adds rows, each with its number.
    #[allow(clippy::needless_pass_by_value)]
    fn add(
        &mut self,
        py: Python<'_>,
        keys: PyReadonlyArray1<'_, u64>,
        rows: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<()> {
        let (keys, rows) = (slice(&keys)?, slice(&rows)?);
        py.detach(|| self.0.add(keys, rows)).map_err(impossible)
    }

    /// Adds rows without a number.
    #[allow(clippy::needless_pass_by_value)]
    fn add_nulls(&mut self, py: Python<'_>, rows: PyReadonlyArray1<'_, u64>) -> PyResult<()> {
        let rows = slice(&rows)?;
        py.detach(|| self.0.add_nulls(rows));
        Ok(())
    }

    /// Sorts the numbers; nothing can be added after it.
    fn sort(&mut self, py: Python<'_>) {
        py.detach(|| self.0.sort());
    }

    /// The set of rows without a number, and its ends; None if there are none, or a second time.
    fn take_nulls<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<Option<(Made<'py, u8>, Made<'py, i64>)>> {
        let taken = py.detach(|| self.0.take_nulls()).map_err(impossible)?;
        Ok(taken.map(|packed| sets_out(py, packed)))
    }

    /// The next numbers, their sets of rows, about `wanted_bytes` in all, and the ends of these.
    #[allow(clippy::type_complexity)]
    fn take<'py>(
        &mut self,
        py: Python<'py>,
        wanted_bytes: usize,
    ) -> PyResult<(Made<'py, u64>, Made<'py, u8>, Made<'py, i64>)> {
        let taken = py.detach(|| self.0.take(wanted_bytes));
        let (keys, packed) = taken.map_err(impossible)?;
        let (data, ends) = sets_out(py, packed);
        Ok((keys.into_pyarray(py), data, ends))
    }
}

/// Collects the rows of each string.
#[pyclass(module = "pilum._kernels")]
#[derive(Default)]
pub struct StringRows(KeyRows<Box<[u8]>>);

#[pymethods]
impl StringRows {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// About how much memory it needs.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes()
    }

    /// Adds rows, each with its string.
    #[allow(clippy::needless_pass_by_value)]
    fn add(
        &mut self,
        py: Python<'_>,
        offsets: OffsetsArg<'_>,
        data: Bytes<'_>,
        rows: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<()> {
        let (offsets, data, rows) = (offsets.view()?, slice(&data)?, slice(&rows)?);
        py.detach(|| self.0.add(offsets, data, rows))
            .map_err(impossible)
    }

    /// Adds rows without a string.
    #[allow(clippy::needless_pass_by_value)]
    fn add_nulls(&mut self, py: Python<'_>, rows: PyReadonlyArray1<'_, u64>) -> PyResult<()> {
        let rows = slice(&rows)?;
        py.detach(|| self.0.add_nulls(rows));
        Ok(())
    }

    /// Sorts the strings; nothing can be added after it.
    fn sort(&mut self, py: Python<'_>) {
        py.detach(|| self.0.sort());
    }

    /// The set of rows without a string, and its ends; None if there are none, or a second time.
    fn take_nulls<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<Option<(Made<'py, u8>, Made<'py, i64>)>> {
        let taken = py.detach(|| self.0.take_nulls()).map_err(impossible)?;
        Ok(taken.map(|packed| sets_out(py, packed)))
    }

    /// The next strings as offsets and bytes, their sets of rows, and the ends of these.
    #[allow(clippy::type_complexity)]
    fn take<'py>(
        &mut self,
        py: Python<'py>,
        wanted_bytes: usize,
    ) -> PyResult<(Made<'py, i64>, Made<'py, u8>, Made<'py, u8>, Made<'py, i64>)> {
        let taken = py.detach(|| self.0.take(wanted_bytes));
        let (keys, packed) = taken.map_err(impossible)?;
        let mut offsets = vec![0_i64];
        for end in keys.iter().scan(0, |end, key| {
            *end += key.len();
            Some(*end)
        }) {
            offsets.push(signed(end, "bytes of keys").map_err(impossible)?);
        }
        let (data, ends) = sets_out(py, packed);
        let bytes = keys.concat();
        Ok((offsets.into_pyarray(py), bytes.into_pyarray(py), data, ends))
    }
}

fn sets_out(py: Python<'_>, packed: Packed) -> (Made<'_, u8>, Made<'_, i64>) {
    (packed.data.into_pyarray(py), packed.ends.into_pyarray(py))
}
