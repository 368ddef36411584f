//! Values of one width in many buffers, read together.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pilum_kernels::error::out_of_range;
use pilum_kernels::slots::{Slots, slots_of};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arrays::{corrupt, slice};
use crate::decoding::ranges_of;

pub type Pairs<'py> = PyReadonlyArray2<'py, i64>;
pub type Made<'py> = Bound<'py, PyArray1<i64>>;

/// Values of one width of several buffers.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct PickedSlots(Vec<(usize, Slots)>);

#[pymethods]
impl PickedSlots {
    /// Selects slots: for each buffer where it begins in the file, bits of a slot, and rows.
    #[new]
    fn new(buffers: Vec<(usize, usize, Pairs<'_>)>) -> PyResult<Self> {
        let mut picked = Vec::with_capacity(buffers.len());
        let (mut last, mut list) = (None, Vec::new());
        for (offset, bits, wanted) in &buffers {
            if last != Some(wanted.as_ptr()) {
                last = Some(wanted.as_ptr());
                list = ranges_of(wanted)?;
            }
            picked.push((*offset, slots_of(*bits, &list)));
        }
        Ok(Self(picked))
    }

    /// Positions in the file and sizes of what is to be read, buffer by buffer.
    fn ranges<'py>(&self, py: Python<'py>) -> PyResult<(Made<'py>, Made<'py>)> {
        let ranges = self.0.iter().flat_map(|(offset, slots)| {
            let place = |&(start, length): &_| (offset.saturating_add(start), length);
            slots.ranges.iter().map(place)
        });
        places_out(py, ranges)
    }

    /// The bytes of the selected values of each buffer.
    #[allow(clippy::needless_pass_by_value)]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        data: PyReadonlyArray1<'py, u8>,
        starts: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (data, starts) = (slice(&data)?, slice(&starts)?);
        let decoded = py.detach(|| {
            let mut left = starts;
            let decode = |(_, slots): &(usize, Slots)| {
                let (own, others) = left
                    .split_at_checked(slots.ranges.len())
                    .ok_or_else(|| out_of_range("ranges"))?;
                left = others;
                slots.decode(data, own)
            };
            self.0.iter().map(decode).collect::<Result<Vec<_>, _>>()
        });
        let decoded = decoded.map_err(|error| corrupt(py, &error))?;
        PyList::new(py, decoded.into_iter().map(|bytes| bytes.into_pyarray(py)))
    }
}

/// Places in the file as arrays of positions and of sizes.
pub fn places_out<'py>(
    py: Python<'py>,
    places: impl Iterator<Item = (usize, usize)>,
) -> PyResult<(Made<'py>, Made<'py>)> {
    let (mut offsets, mut sizes) = (Vec::new(), Vec::new());
    for (offset, length) in places {
        offsets.push(i64::try_from(offset)?);
        sizes.push(i64::try_from(length)?);
    }
    Ok((offsets.into_pyarray(py), sizes.into_pyarray(py)))
}
