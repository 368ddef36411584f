//! Rows of full-zip pages: which bytes to read for them.

use std::ops::Range;

use numpy::PyReadonlyArray1;
use pilum_kernels::error::{Corrupt, Result, out_of_range, part, size};
use pilum_kernels::full_zip::Page;
use pilum_kernels::zipped_rows::{self, Places};
use pyo3::prelude::*;

use crate::arrays::{corrupt, slice};
use crate::decoding::{FullZip, Selected};

/// Where each row of a page begins within its entries.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct RowIndex(zipped_rows::RowIndex);

#[pymethods]
impl RowIndex {
    #[new]
    #[allow(clippy::needless_pass_by_value)]
    fn new(py: Python<'_>, numbers: PyReadonlyArray1<'_, u8>, num_rows: usize) -> PyResult<Self> {
        let made = zipped_rows::RowIndex::new(slice(&numbers)?.to_vec(), num_rows);
        Ok(Self(made.map_err(|error| corrupt(py, &error))?))
    }

    /// Bytes in memory.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes()
    }
}

/// Layout, position and bytes of the entries of a page; its index, unless rows have one width; and
/// the selected rows.
pub type ZippedArg<'py> = (
    Py<FullZip>,
    (usize, usize),
    Option<PyRef<'py, RowIndex>>,
    Selected<'py>,
);

/// Rows of a page, to be fetched.
pub struct ZippedRows {
    pub page: Py<FullZip>,
    /// Number of the first range.
    pub first: usize,
    /// Bytes of each range.
    sizes: Vec<usize>,
}

impl ZippedRows {
    /// Selects rows; adds what is to be fetched to `ranges`.
    pub fn new(
        page: Py<FullZip>,
        (start, num_bytes): (usize, usize),
        index: Option<&RowIndex>,
        wanted: &[Range<usize>],
        ranges: &mut Vec<(usize, usize)>,
    ) -> Result<Self> {
        let places = match index {
            Some(index) => Places::Index(&index.0),
            None => Places::Stride(stride(page.get())?),
        };
        let first = ranges.len();
        let mut sizes = Vec::with_capacity(wanted.len());
        for rows in wanted {
            let (offset, size) = places.range(rows, num_bytes)?;
            ranges.push((start.saturating_add(offset), size));
            sizes.push(size);
        }
        Ok(Self { page, first, sizes })
    }

    /// Adds the bytes of the rows, given where each range begins in some bytes.
    pub fn add<'a>(
        &'a self,
        data: &'a [u8],
        starts: &[i64],
        rows: &mut Vec<(&'a Page, &'a [u8])>,
    ) -> Result<()> {
        let page = &self.page.get().0;
        for (place, &length) in self.sizes.iter().enumerate() {
            let start = starts.get(place).ok_or_else(|| out_of_range("ranges"))?;
            let start = size(*start, "position of a range")?;
            rows.push((page, part(data, start, length, "rows, bytes")?));
        }
        Ok(())
    }
}

fn stride(page: &FullZip) -> Result<usize> {
    let missing = || Corrupt("a full-zip page without its index".into());
    page.0.stride().ok_or_else(missing)
}
