//! Converts numpy arrays to slices and back, and kernel errors to exceptions.

use numpy::{Element, IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pilum_kernels::error::Corrupt;
use pilum_kernels::offsets::{Offsets, OffsetsIn};
use pilum_kernels::unravel::Unraveled;
use pilum_kernels::values::Values;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// A buffer that Python owns.
pub type Bytes<'py> = PyReadonlyArray1<'py, u8>;

/// An array that is made for Python.
pub type Made<'py, T> = Bound<'py, PyArray1<T>>;

/// The exception for damage that a decoder found.
pub fn corrupt(py: Python<'_>, error: &Corrupt) -> PyErr {
    let made = py
        .import("pilum.errors")
        .and_then(|errors| errors.getattr("CorruptFileError"))
        .and_then(|class| class.call1((error.0.as_str(),)));
    made.map_or_else(|failure| failure, |exception| PyErr::from_value(exception))
}

/// The exception for something that cannot be encoded.
pub fn impossible(error: Corrupt) -> PyErr {
    PyValueError::new_err(error.0)
}

/// A contiguous array as a slice.
pub fn slice<'a, T: Element>(array: &'a PyReadonlyArray1<'_, T>) -> PyResult<&'a [T]> {
    array
        .as_slice()
        .map_err(|_| PyValueError::new_err("the array is not contiguous"))
}

/// A contiguous int64 array as sizes.
pub fn sizes(array: &PyReadonlyArray1<'_, i64>) -> PyResult<Vec<usize>> {
    let negative = |_| PyValueError::new_err("a negative size");
    let found = slice(array)?
        .iter()
        .map(|&value| usize::try_from(value).map_err(negative));
    found.collect()
}

/// The rows of a contiguous int64 array of `N` columns, as sizes.
pub fn rows<const N: usize>(array: &PyReadonlyArray2<'_, i64>) -> PyResult<Vec<[usize; N]>> {
    let flat = array
        .as_slice()
        .map_err(|_| PyValueError::new_err("the array is not contiguous"))?;
    let (rows, rest) = flat.as_chunks::<N>();
    if !rest.is_empty() {
        return Err(PyValueError::new_err(format!("expected {N} columns")));
    }
    let negative = |_| PyValueError::new_err("a negative size");
    rows.iter()
        .map(|row| {
            let mut sizes = [0; N];
            for (size, &value) in sizes.iter_mut().zip(row) {
                *size = usize::try_from(value).map_err(negative)?;
            }
            Ok(sizes)
        })
        .collect()
}

/// Converts an argument to the first variant of an enum that fits.
///
/// The derived conversion writes down why each earlier variant does not fit, although another one
/// does: that takes 9 microseconds, and swallows an interrupt that arrives in this moment.
macro_rules! first_that_fits {
    ($name:ty: $($variant:ident $(($($field:ident),+))?),+) => {
        impl<'a, 'py> pyo3::FromPyObject<'a, 'py> for $name {
            type Error = pyo3::PyErr;

            fn extract(object: pyo3::Borrowed<'a, 'py, pyo3::PyAny>) -> pyo3::PyResult<Self> {
                $(first_that_fits!(@return object, $variant $(($($field),+))?);)+
                let expected = concat!("expected " $(, stringify!($variant), ", ")+, "found another type");
                Err(pyo3::exceptions::PyTypeError::new_err(expected))
            }
        }
    };
    (@return $object:ident, $variant:ident) => {
        if let Ok(found) = $object.extract() {
            return Ok(Self::$variant(found));
        }
    };
    (@return $object:ident, $variant:ident($($field:ident),+)) => {
        if let Ok(($($field),+)) = $object.extract() {
            return Ok(Self::$variant($($field),+));
        }
    };
}
pub(crate) use first_that_fits;

/// Offsets of strings, 32 or 64 bits.
pub enum OffsetsArg<'py> {
    Small(PyReadonlyArray1<'py, i32>),
    Large(PyReadonlyArray1<'py, i64>),
}

first_that_fits!(OffsetsArg<'py>: Small, Large);

impl OffsetsArg<'_> {
    pub fn view(&self) -> PyResult<OffsetsIn<'_>> {
        Ok(match self {
            Self::Small(array) => OffsetsIn::Small(slice(array)?),
            Self::Large(array) => OffsetsIn::Large(slice(array)?),
        })
    }
}

/// Decoded values as a list of arrays, in the order of Arrow's buffers.
pub fn values_out<'py>(py: Python<'py>, values: Values) -> PyResult<Bound<'py, PyList>> {
    let out = PyList::empty(py);
    match values {
        Values::Fixed(data) => out.append(data.into_pyarray(py))?,
        Values::Bits(bits) => out.append(bits.finish().into_pyarray(py))?,
        Values::Variable { offsets, data } => {
            match offsets {
                Offsets::Small(offsets) => out.append(offsets.into_pyarray(py))?,
                Offsets::Large(offsets) => out.append(offsets.into_pyarray(py))?,
            }
            out.append(data.into_pyarray(py))?;
        }
        Values::Lists { validity, items } => {
            for bitmap in validity {
                out.append(bitmap.finish().into_pyarray(py))?;
            }
            for array in values_out(py, *items)? {
                out.append(array)?;
            }
        }
    }
    Ok(out)
}

/// Layers as `(length, validity, null count, offsets)`, inner-most first.
pub fn layers_out<'py>(py: Python<'py>, layers: Vec<Unraveled>) -> PyResult<Bound<'py, PyList>> {
    let out = PyList::empty(py);
    for layer in layers {
        let validity = layer.validity.map(|bitmap| bitmap.into_pyarray(py));
        let offsets = layer.offsets.map(|offsets| offsets.into_pyarray(py));
        out.append((layer.len, validity, layer.null_count, offsets))?;
    }
    Ok(out)
}
