//! Rows of packed structs to columns and back.

use numpy::{IntoPyArray, PyArray1};
use pilum_kernels::packed::{self, Member};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arrays::{Bytes, OffsetsArg, corrupt, first_that_fits, impossible, slice, values_out};
use crate::plans::Plan;

type Rows<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u8>>);

/// Splits rows into their members; returns the buffers of each.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn split_rows<'py>(
    py: Python<'py>,
    members: Vec<PyRef<'py, Plan>>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
) -> PyResult<Bound<'py, PyList>> {
    let plans: Vec<_> = members.iter().map(|plan| plan.0.clone()).collect();
    let (offsets, data) = (offsets.view()?, slice(&data)?);
    let made = py
        .detach(|| packed::split(&plans, offsets, data))
        .map_err(|error| corrupt(py, &error))?;
    let out = PyList::empty(py);
    for values in made {
        out.append(values_out(py, values)?)?;
    }
    Ok(out)
}

/// Bytes and width of a member, or the offsets and bytes of its strings.
pub enum MemberArg<'py> {
    Fixed(Bytes<'py>, usize),
    Variable(OffsetsArg<'py>, Bytes<'py>),
}

first_that_fits!(MemberArg<'py>: Fixed(data, width), Variable(offsets, data));

/// Joins members to rows; returns where each row starts and their bytes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn join_rows<'py>(
    py: Python<'py>,
    members: Vec<MemberArg<'py>>,
    num_rows: usize,
    validity: Option<Bytes<'py>>,
) -> PyResult<Rows<'py>> {
    let views: PyResult<Vec<_>> = members
        .iter()
        .map(|member| {
            Ok(match member {
                MemberArg::Fixed(data, width) => Member::Fixed {
                    data: slice(data)?,
                    width: *width,
                },
                MemberArg::Variable(offsets, data) => Member::Variable {
                    offsets: offsets.view()?,
                    data: slice(data)?,
                },
            })
        })
        .collect();
    let (views, validity) = (views?, validity.as_ref().map(slice).transpose()?);
    let (ends, rows) = py
        .detach(|| packed::join(&views, num_rows, validity))
        .map_err(impossible)?;
    Ok((ends.into_pyarray(py), rows.into_pyarray(py)))
}
