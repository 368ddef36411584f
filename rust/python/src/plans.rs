//! Plans: nested descriptions of encoded bytes, as Python passes them.

use pilum_kernels::block::BlockPlan;
use pilum_kernels::compression::Scheme;
use pilum_kernels::fsst::SymbolTable;
use pilum_kernels::values;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::corrupt;

/// How the values of a page are stored.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct Plan(pub values::Plan);

/// How a block (levels, dictionary) is stored.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct Block(pub BlockPlan);

pub fn scheme(name: &str) -> PyResult<Scheme> {
    match name {
        "lz4" => Ok(Scheme::Lz4),
        "zstd" => Ok(Scheme::Zstd),
        _ => Err(PyValueError::new_err(format!("compression {name:?}"))),
    }
}

#[pymethods]
impl Plan {
    #[staticmethod]
    fn flat(bits: usize) -> Self {
        Self(values::Plan::Flat { bits })
    }

    #[staticmethod]
    fn inline_bitpacking(bits: usize) -> Self {
        Self(values::Plan::InlineBitpacking { bits })
    }

    #[staticmethod]
    fn rle(bits: usize) -> Self {
        Self(values::Plan::Rle { bits })
    }

    #[staticmethod]
    fn byte_stream_split(bits: usize) -> Self {
        Self(values::Plan::ByteStreamSplit { bits })
    }

    #[staticmethod]
    fn variable(offset_bits: usize) -> Self {
        Self(values::Plan::Variable { offset_bits })
    }

    #[staticmethod]
    fn fsst(py: Python<'_>, table: &[u8], offset_bits: usize) -> PyResult<Self> {
        let table = SymbolTable::parse(table).map_err(|error| corrupt(py, &error))?;
        Ok(Self(values::Plan::Fsst { table, offset_bits }))
    }

    #[staticmethod]
    fn fixed_size_list(validity: Vec<usize>, bits: usize) -> Self {
        Self(values::Plan::FixedSizeList { validity, bits })
    }

    #[staticmethod]
    fn general(compression: &str, inner: &Self) -> PyResult<Self> {
        let inner = Box::new(inner.0.clone());
        Ok(Self(values::Plan::General {
            scheme: scheme(compression)?,
            inner,
        }))
    }
}

#[pymethods]
impl Block {
    #[staticmethod]
    fn flat(bits: usize) -> Self {
        Self(BlockPlan::Flat { bits })
    }

    #[staticmethod]
    fn inline_bitpacking(bits: usize) -> Self {
        Self(BlockPlan::InlineBitpacking { bits })
    }

    #[staticmethod]
    fn out_of_line_bitpacking(bits: usize, packed: usize) -> Self {
        Self(BlockPlan::OutOfLineBitpacking { bits, packed })
    }

    #[staticmethod]
    fn rle(bits: usize) -> Self {
        Self(BlockPlan::Rle { bits })
    }

    #[staticmethod]
    fn general(compression: &str, inner: &Self) -> PyResult<Self> {
        let inner = Box::new(inner.0.clone());
        Ok(Self(BlockPlan::General {
            scheme: scheme(compression)?,
            inner,
        }))
    }
}
