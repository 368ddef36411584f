//! Values and levels to the chunks of a mini-block page.

use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pilum_kernels::joined_pages::{Columns, encode_each};
use pilum_kernels::mini_block_values::{self as kernel, Chunking, Input, ItemValidity};
use pilum_kernels::mini_block_writer::{LevelsIn, encode};
use pyo3::prelude::*;

use crate::arrays::{OffsetsArg, impossible, slice};
use crate::plans::{Block, scheme};

type Bytes = Py<PyArray1<u8>>;
type Made<'py> = Bound<'py, PyArray1<u8>>;

/// How values are stored in chunks.
#[pyclass(
    frozen,
    eq,
    module = "pilum._kernels",
    rename_all = "SCREAMING_SNAKE_CASE"
)]
#[derive(PartialEq, Eq)]
pub enum Coding {
    Plain,
    InlineBitpacking,
    Rle,
    ByteStreamSplit,
    Lz4Values,
}

impl Coding {
    fn kernel(&self) -> kernel::Coding {
        match self {
            Self::Plain => kernel::Coding::Plain,
            Self::InlineBitpacking => kernel::Coding::InlineBitpacking,
            Self::Rle => kernel::Coding::Rle,
            Self::ByteStreamSplit => kernel::Coding::ByteStreamSplit,
            Self::Lz4Values => kernel::Coding::Lz4Values,
        }
    }
}

enum Kind {
    Fixed { bits: usize },
    Bits { first: usize },
    Strings { offsets: Py<PyAny> },
    Lists { bits: usize, masks: Vec<Mask> },
}

/// Bitmap of the items of a list, its first bit, and items per row.
type Mask = (Bytes, usize, usize);

/// Values of one page, as Arrow holds them.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct PageValues {
    data: Bytes,
    num_values: usize,
    kind: Kind,
}

#[pymethods]
impl PageValues {
    /// Values of a multiple of 8 bits.
    #[staticmethod]
    fn fixed(data: Bytes, num_values: usize, bits: usize) -> Self {
        let kind = Kind::Fixed { bits };
        Self {
            data,
            num_values,
            kind,
        }
    }

    /// Bits of a bitmap, from bit `first`.
    #[staticmethod]
    fn bits(data: Bytes, num_values: usize, first: usize) -> Self {
        let kind = Kind::Bits { first };
        Self {
            data,
            num_values,
            kind,
        }
    }

    /// Strings, by offsets of 32 or 64 bits.
    #[staticmethod]
    fn strings(data: Bytes, num_values: usize, offsets: Py<PyAny>) -> Self {
        let kind = Kind::Strings { offsets };
        Self {
            data,
            num_values,
            kind,
        }
    }

    /// Rows of `bits` bits of items, with a bitmap for each nullable level of items.
    #[staticmethod]
    fn lists(data: Bytes, num_values: usize, bits: usize, masks: Vec<Mask>) -> Self {
        let kind = Kind::Lists { bits, masks };
        Self {
            data,
            num_values,
            kind,
        }
    }
}

/// How a page is cut into chunks, and how these store its values and levels.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct MiniBlockWriter {
    coding: kernel::Coding,
    chunking: Chunking,
    rep: Option<Py<Block>>,
    def: Option<Py<Block>>,
    max_rep: u16,
    max_visible: u16,
}

#[pymethods]
impl MiniBlockWriter {
    /// Describes chunks of at most `max_values` values that aim at `target_bytes`; `compression`
    /// is the scheme and level for the first value buffer of each.
    #[new]
    #[pyo3(signature = (
        coding, *, rep=None, def_=None, max_rep=0, max_visible=0, large=false, max_values=4096,
        target_bytes=None, compression=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        coding: &Coding,
        rep: Option<Py<Block>>,
        def_: Option<Py<Block>>,
        max_rep: u16,
        max_visible: u16,
        large: bool,
        max_values: usize,
        target_bytes: Option<usize>,
        compression: Option<(String, i32)>,
    ) -> PyResult<Self> {
        let compression = compression.map(|(name, level)| Ok::<_, PyErr>((scheme(&name)?, level)));
        Ok(Self {
            coding: coding.kernel(),
            chunking: Chunking {
                large,
                max_values,
                target_bytes,
                compression: compression.transpose()?,
            },
            rep,
            def: def_,
            max_rep,
            max_visible,
        })
    }

    /// Cuts values and levels; returns the words of the chunks, the chunks and the repetition index.
    #[allow(clippy::needless_pass_by_value)]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        values: &PageValues,
        rep: PyReadonlyArray1<'py, u16>,
        def_: PyReadonlyArray1<'py, u16>,
    ) -> PyResult<(Made<'py>, Made<'py>, Made<'py>)> {
        let data = values.data.bind(py).try_readonly()?;
        let data = slice(&data)?;
        let offsets: OffsetsArg<'_>;
        let masks: Vec<PyReadonlyArray1<'_, u8>>;
        let input = match &values.kind {
            Kind::Fixed { bits } => Input::Fixed { data, bits: *bits },
            Kind::Bits { first } => Input::Bits {
                data,
                first: *first,
            },
            Kind::Strings { offsets: given } => {
                offsets = given.extract(py)?;
                Input::Variable {
                    offsets: offsets.view()?,
                    data,
                }
            }
            Kind::Lists { bits, masks: given } => {
                let bitmaps = given.iter().map(|mask| mask.0.bind(py).try_readonly());
                masks = bitmaps.collect::<Result<_, _>>()?;
                let validity = masks
                    .iter()
                    .zip(given)
                    .map(|(bitmap, (_, first, per_row))| {
                        Ok(ItemValidity {
                            bitmap: slice(bitmap)?,
                            first: *first,
                            per_row: *per_row,
                        })
                    });
                Input::Lists {
                    validity: validity.collect::<PyResult<_>>()?,
                    data,
                    bits: *bits,
                }
            }
        };
        let levels = LevelsIn {
            rep: slice(&rep)?,
            def: slice(&def_)?,
            rep_plan: self.rep.as_ref().map(|block| block.get().0.clone()),
            def_plan: self.def.as_ref().map(|block| block.get().0.clone()),
            max_rep: self.max_rep,
            max_visible: self.max_visible,
        };
        let made = py
            .detach(|| {
                encode(
                    &input,
                    self.coding,
                    values.num_values,
                    &levels,
                    &self.chunking,
                )
            })
            .map_err(impossible)?;
        Ok((
            made.words.into_pyarray(py),
            made.chunks.into_pyarray(py),
            made.index.into_pyarray(py),
        ))
    }

    /// Cuts `num_columns` columns of `num_values` values of `bits` bits, which lie one after the
    /// other. Returns the words and the chunks of each page, joined and padded, and their sizes.
    #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
    fn encode_each<'py>(
        &self,
        py: Python<'py>,
        data: PyReadonlyArray1<'py, u8>,
        bits: usize,
        num_values: usize,
        num_columns: usize,
        def_: PyReadonlyArray1<'py, u16>,
        alignment: usize,
        padding: u8,
    ) -> PyResult<(Made<'py>, Bound<'py, PyArray1<i64>>)> {
        let columns = Columns {
            data: slice(&data)?,
            bits,
            num_values,
            num_columns,
            def: slice(&def_)?,
            def_plan: self.def.as_ref().map(|block| block.get().0.clone()),
        };
        let (coding, chunking) = (self.coding, &self.chunking);
        let joined = py
            .detach(|| encode_each(&columns, coding, chunking, alignment, padding))
            .map_err(impossible)?;
        Ok((joined.data.into_pyarray(py), joined.sizes.into_pyarray(py)))
    }
}
