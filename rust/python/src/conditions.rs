//! Sets of values that rows are tested for.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pilum_kernels::bitmap;
use pilum_kernels::error::{Corrupt, ensure};
use pilum_kernels::kept_values as kept;
use pilum_kernels::mask::numbers::{Numbers, Order};
use pilum_kernels::mask::pattern::Pattern;
use pilum_kernels::mask::texts::Texts;
use pilum_kernels::mask::wildcards::{Part, Wildcards};
use pilum_kernels::mask::{self, Test};
use pyo3::prelude::*;

use crate::arrays::{OffsetsArg, corrupt, impossible, slice};

type Bits<'py> = Bound<'py, PyArray1<u8>>;

/// A set of values of one column; null may be one of them.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct Condition(pub mask::Condition);

impl Condition {
    fn of(test: Test) -> Self {
        Self(mask::Condition::new(test))
    }
}

/// A little-endian number of `bits` bits.
fn number(bytes: &[u8], bits: usize) -> Result<u128, Corrupt> {
    ensure(
        bytes.len() == bits.div_ceil(8) && bytes.len() <= 16,
        "number, bytes",
        bytes.len(),
        bits.div_ceil(8),
    )?;
    let value = |value, byte: &u8| value << 8 | u128::from(*byte);
    Ok(bytes.iter().rev().fold(0, value))
}

#[pymethods]
impl Condition {
    /// All values or none, with or without null.
    #[staticmethod]
    fn every(values: bool, null: bool) -> Self {
        Self(mask::Condition::every(values, null))
    }

    /// Numbers of one width from `low` to `high`, both included.
    #[staticmethod]
    fn numbers_within(
        order: &str,
        bits: usize,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
    ) -> PyResult<Self> {
        let end = |end: Option<&[u8]>| end.map(|bytes| number(bytes, bits)).transpose();
        let made = Order::named(order)
            .and_then(|order| Numbers::within(order, bits, end(low)?, end(high)?));
        Ok(Self::of(Test::Numbers(made.map_err(impossible)?)))
    }

    /// The given numbers.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn numbers_among(
        py: Python<'_>,
        order: &str,
        bits: usize,
        values: PyReadonlyArray1<'_, u8>,
    ) -> PyResult<Self> {
        let data = slice(&values)?;
        let made = py.detach(|| {
            let order = Order::named(order)?;
            ensure(
                bits.is_multiple_of(8) && bits > 0,
                "numbers, bits",
                bits,
                "whole bytes",
            )?;
            let values = data.chunks_exact(bits / 8).map(|value| number(value, bits));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            Numbers::among(order, bits, values.into_iter())
        });
        Ok(Self::of(Test::Numbers(made.map_err(impossible)?)))
    }

    /// Texts from `low` to `high`, both included.
    #[staticmethod]
    fn texts_within(low: Option<&[u8]>, high: Option<&[u8]>) -> Self {
        let end = |end: Option<&[u8]>| end.map(<[u8]>::to_vec);
        Self::of(Test::Texts(Texts::Within(end(low), end(high))))
    }

    /// The given texts.
    #[staticmethod]
    fn texts_among(texts: Vec<Vec<u8>>) -> Self {
        Self::of(Test::Texts(Texts::among(texts.into_iter())))
    }

    /// Texts with a prefix, a suffix, and parts between them, in this order.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn texts_like(prefix: &[u8], parts: Vec<Vec<u8>>, suffix: &[u8]) -> Self {
        Self::of(Test::Texts(Texts::Like(Pattern::new(
            prefix, &parts, suffix,
        ))))
    }

    /// Texts of characters that match a pattern. A part is a text, or the number of characters that
    /// a wildcard is: 1, or 0 for any number. If case is ignored, the texts are ASCII.
    #[staticmethod]
    fn texts_matching(parts: Vec<(String, Option<usize>)>, ignores_case: bool) -> Self {
        let part = |(text, count)| match count {
            None => Part::Text(text),
            Some(1) => Part::One,
            Some(_) => Part::Any,
        };
        let parts: Vec<Part> = parts.into_iter().map(part).collect();
        Self::of(Test::Texts(Texts::Wild(Wildcards::new(
            &parts,
            ignores_case,
        ))))
    }

    fn __and__(&self, other: &Self) -> PyResult<Self> {
        Ok(Self(self.0.and(&other.0).map_err(impossible)?))
    }

    fn __or__(&self, other: &Self) -> PyResult<Self> {
        Ok(Self(self.0.or(&other.0).map_err(impossible)?))
    }

    fn __invert__(&self) -> Self {
        Self(self.0.not())
    }

    /// Whether null is in the set.
    #[getter]
    fn null(&self) -> bool {
        self.0.null
    }

    /// Whether all values that are not null are in the set, or none is; None if that depends.
    #[getter]
    fn every_value(&self) -> Option<bool> {
        match self.0.test {
            Test::Every(all) => Some(all),
            _ => None,
        }
    }

    /// A bitmap of `count` numbers of fixed width that are not null.
    #[allow(clippy::needless_pass_by_value)]
    fn of_fixed<'py>(
        &self,
        py: Python<'py>,
        data: PyReadonlyArray1<'py, u8>,
        count: usize,
    ) -> PyResult<Bits<'py>> {
        let data = slice(&data)?;
        let bits = py.detach(|| self.0.of_fixed(data, count));
        Ok(bits.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
    }

    /// A bitmap of texts that are not null.
    #[allow(clippy::needless_pass_by_value)]
    fn of_texts<'py>(
        &self,
        py: Python<'py>,
        offsets: OffsetsArg<'py>,
        data: PyReadonlyArray1<'py, u8>,
    ) -> PyResult<Bits<'py>> {
        let (offsets, data) = (offsets.view()?, slice(&data)?);
        let bits = py.detach(|| self.0.of_texts(offsets, data));
        Ok(bits.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
    }

    /// The set of indices of the values of a dictionary that are in this set. `found` has a bit
    /// for each of the `count` values.
    #[allow(clippy::needless_pass_by_value)]
    fn of_indices(
        &self,
        py: Python<'_>,
        found: PyReadonlyArray1<'_, u8>,
        count: usize,
    ) -> PyResult<Self> {
        let found = slice(&found)?;
        let made = py.detach(|| self.0.of_indices(found, count));
        Ok(Self(made.map_err(impossible)?))
    }
}

/// The values of `width` bytes of which the bits from bit `first` on are set.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn kept_values<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    width: usize,
    bitmap: PyReadonlyArray1<'py, u8>,
    first: usize,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let (data, bitmap) = (slice(&data)?, slice(&bitmap)?);
    let made = py.detach(|| kept::values(data, width, bitmap, first));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// The bits, of `count` from bit `start` on, of which the bits of the bitmap from `first` on are set.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn kept_bits<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    start: usize,
    count: usize,
    bitmap: PyReadonlyArray1<'py, u8>,
    first: usize,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let (data, bitmap) = (slice(&data)?, slice(&bitmap)?);
    let made = py.detach(|| kept::bits(data, start, count, bitmap, first));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// The places of the bits that are set, among `count` bits from `start`; the first one is `first`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn places_of_bits<'py>(
    py: Python<'py>,
    bits: PyReadonlyArray1<'py, u8>,
    start: usize,
    count: usize,
    first: i64,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let bits = slice(&bits)?;
    let made = py.detach(|| bitmap::places(bits, start, count, first));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}
