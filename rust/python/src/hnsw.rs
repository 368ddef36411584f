//! Graphs of near vectors: reading, building and searching.

use numpy::ndarray::Dimension;
use numpy::{
    Element, IntoPyArray, PyArray1, PyArray2, PyArray3, PyArrayMethods, PyReadonlyArray,
    PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3, PyUntypedArrayMethods,
};
use pilum_kernels::vector::hnsw::build::{Builder, Shape};
use pilum_kernels::vector::hnsw::graph::Graph;
use pilum_kernels::vector::hnsw::search::{self, Hit, Limits, Part, Queries};
use pilum_kernels::vector::hnsw::storage::{Query, Storage, Vectors};
use pilum_kernels::vector::scalar::Bounds;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Made, corrupt, first_that_fits, impossible, sizes, slice};

/// Bounds of queries, rows and distances.
type Answer<'py> = (Made<'py, i64>, Made<'py, u64>, Made<'py, f32>);

/// Vector ids, offsets, linked nodes, their distances, bounds of levels and the entry point.
type BuiltRows<'py> = (
    Made<'py, u32>,
    Made<'py, i32>,
    Made<'py, u32>,
    Made<'py, f32>,
    Made<'py, i64>,
    u32,
);

/// Graph, vectors, rows, allowed rows, numbers of queries and the centroid of a partition.
type PartArg<'py> = (
    Bound<'py, HnswGraph>,
    Bound<'py, HnswVectors>,
    PyReadonlyArray1<'py, u64>,
    Option<PyReadonlyArray1<'py, bool>>,
    Option<PyReadonlyArray1<'py, u32>>,
    Option<PyReadonlyArray1<'py, f32>>,
);

/// Queries, one per row.
pub enum QueriesArg<'py> {
    Floats(PyReadonlyArray2<'py, f32>),
    Bits(PyReadonlyArray2<'py, u8>),
}

first_that_fits!(QueriesArg<'py>: Floats, Bits);

/// The graph of one partition, and the array with its links.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct HnswGraph {
    graph: Graph,
    neighbors: Py<PyArray1<u32>>,
}

#[pymethods]
impl HnswGraph {
    #[new]
    #[allow(clippy::needless_pass_by_value)]
    fn new(
        py: Python<'_>,
        vector_ids: PyReadonlyArray1<'_, u32>,
        offsets: PyReadonlyArray1<'_, i32>,
        neighbors: PyReadonlyArray1<'_, u32>,
        num_nodes: usize,
        entry_point: u32,
        drops_unknown: bool,
    ) -> PyResult<Self> {
        let (ids, offsets, links) = (slice(&vector_ids)?, slice(&offsets)?, slice(&neighbors)?);
        let graph =
            py.detach(|| Graph::new(ids, offsets, links, num_nodes, entry_point, drops_unknown));
        Ok(Self {
            graph: graph.map_err(|error| corrupt(py, &error))?,
            neighbors: neighbors.as_unbound().clone_ref(py),
        })
    }

    #[getter]
    fn num_nodes(&self) -> usize {
        self.graph.num_nodes()
    }

    #[getter]
    fn num_levels(&self) -> usize {
        self.graph.num_levels()
    }

    #[getter]
    fn size_bytes(&self) -> usize {
        self.graph.size_bytes()
    }
}

/// The vectors of one partition, as plain rows.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct HnswVectors {
    rows: Stored,
    is_dot: bool,
}

enum Stored {
    Floats(Py<PyArray2<f32>>),
    Bits(Py<PyArray2<u8>>),
    Scalar(Py<PyArray2<u8>>, Bounds),
    Product(Py<PyArray2<u8>>, Py<PyArray3<f32>>),
}

#[pymethods]
impl HnswVectors {
    /// Vectors of float32.
    #[staticmethod]
    fn floats(rows: Py<PyArray2<f32>>, is_dot: bool) -> Self {
        let rows = Stored::Floats(rows);
        Self { rows, is_dot }
    }

    /// Vectors of bits.
    #[staticmethod]
    fn bits(rows: Py<PyArray2<u8>>) -> Self {
        let (rows, is_dot) = (Stored::Bits(rows), false);
        Self { rows, is_dot }
    }

    /// Scalar codes: 0 means `start`, 255 means `end`.
    #[staticmethod]
    fn scalar_codes(codes: Py<PyArray2<u8>>, start: f64, end: f64, is_dot: bool) -> Self {
        let rows = Stored::Scalar(codes, Bounds { start, end });
        Self { rows, is_dot }
    }

    /// Product codes, one byte per sub-vector, and codewords by sub-vector, code and component.
    #[staticmethod]
    fn product_codes(codes: Py<PyArray2<u8>>, codewords: Py<PyArray3<f32>>, is_dot: bool) -> Self {
        let rows = Stored::Product(codes, codewords);
        Self { rows, is_dot }
    }
}

impl HnswVectors {
    fn view<'py>(&self, py: Python<'py>) -> PyResult<View<'py>> {
        let rows = match &self.rows {
            Stored::Floats(rows) => ViewedRows::Floats(rows.bind(py).try_readonly()?),
            Stored::Bits(rows) => ViewedRows::Bits(rows.bind(py).try_readonly()?),
            Stored::Scalar(codes, bounds) => {
                ViewedRows::Scalar(codes.bind(py).try_readonly()?, *bounds)
            }
            Stored::Product(codes, codewords) => ViewedRows::Product(
                codes.bind(py).try_readonly()?,
                codewords.bind(py).try_readonly()?,
            ),
        };
        let is_dot = self.is_dot;
        Ok(View { rows, is_dot })
    }
}

/// Vectors while a kernel reads them.
struct View<'py> {
    rows: ViewedRows<'py>,
    is_dot: bool,
}

enum ViewedRows<'py> {
    Floats(PyReadonlyArray2<'py, f32>),
    Bits(PyReadonlyArray2<'py, u8>),
    Scalar(PyReadonlyArray2<'py, u8>, Bounds),
    Product(PyReadonlyArray2<'py, u8>, PyReadonlyArray3<'py, f32>),
}

impl View<'_> {
    fn storage(&self) -> PyResult<Storage<'_>> {
        let vectors = match &self.rows {
            ViewedRows::Floats(rows) => Vectors::Floats {
                rows: values(rows)?,
                dimension: width(rows),
            },
            ViewedRows::Bits(rows) => Vectors::Bits {
                rows: values(rows)?,
                width: width(rows),
            },
            ViewedRows::Scalar(codes, bounds) => Vectors::Scalar {
                codes: values(codes)?,
                dimension: width(codes),
                bounds: *bounds,
            },
            ViewedRows::Product(codes, codewords) => {
                let num_sub_vectors = width(codes);
                if codewords.shape().first() != Some(&num_sub_vectors) {
                    return Err(PyValueError::new_err("codes and codewords do not agree"));
                }
                Vectors::Product {
                    codes: values(codes)?,
                    num_sub_vectors,
                    codebook: values(codewords)?,
                    num_codewords: codewords.shape().get(1).copied().unwrap_or_default(),
                }
            }
        };
        let is_dot = self.is_dot;
        Ok(Storage { vectors, is_dot })
    }
}

/// Builds the graph of one partition.
#[pyclass(module = "pilum._kernels")]
pub struct HnswBuilder(Option<Builder>);

#[pymethods]
impl HnswBuilder {
    #[new]
    fn new(num_nodes: u32, m: usize, ef_construction: usize, max_level: u8) -> PyResult<Self> {
        let shape = Shape {
            m,
            ef_construction,
            max_level,
        };
        Ok(Self(Some(
            Builder::new(num_nodes, shape).map_err(impossible)?,
        )))
    }

    /// Inserts the next `count` vectors, or those that are left; returns how many are inserted.
    fn insert(
        &mut self,
        py: Python<'_>,
        vectors: &Bound<'_, HnswVectors>,
        count: usize,
        num_threads: usize,
    ) -> PyResult<usize> {
        let view = vectors.get().view(py)?;
        let storage = view.storage()?;
        let builder = self.0.as_mut().ok_or_else(finished)?;
        py.detach(|| builder.insert(&storage, count, num_threads))
            .map_err(impossible)?;
        Ok(builder.num_inserted())
    }

    /// Returns the rows of the graph, after all vectors are inserted.
    fn finish<'py>(
        &mut self,
        py: Python<'py>,
        vectors: &Bound<'py, HnswVectors>,
    ) -> PyResult<BuiltRows<'py>> {
        let view = vectors.get().view(py)?;
        let storage = view.storage()?;
        let builder = self.0.take().ok_or_else(finished)?;
        let built = py.detach(|| builder.finish(&storage)).map_err(impossible)?;
        Ok((
            built.rows.vector_ids.into_pyarray(py),
            built.rows.offsets.into_pyarray(py),
            built.rows.neighbors.into_pyarray(py),
            built.rows.distances.into_pyarray(py),
            signed(built.level_offsets)?.into_pyarray(py),
            built.entry_point,
        ))
    }
}

/// The `k` nearest rows of each query in all parts, walking their graphs.
#[pyfunction]
#[pyo3(signature = (parts, queries, k, ef, *, lower=None, upper=None, earlier=None))]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
pub fn nearest_hnsw<'py>(
    py: Python<'py>,
    parts: Vec<PartArg<'py>>,
    queries: QueriesArg<'py>,
    k: usize,
    ef: usize,
    lower: Option<f32>,
    upper: Option<f32>,
    earlier: Option<(
        PyReadonlyArray1<'py, i64>,
        PyReadonlyArray1<'py, u64>,
        PyReadonlyArray1<'py, f32>,
    )>,
) -> PyResult<Answer<'py>> {
    let views = parts
        .iter()
        .map(|part| part.1.get().view(py))
        .collect::<PyResult<Vec<_>>>()?;
    let links = parts
        .iter()
        .map(|part| Ok(part.0.get().neighbors.bind(py).try_readonly()?))
        .collect::<PyResult<Vec<_>>>()?;
    let searched = parts
        .iter()
        .zip(views.iter().zip(&links))
        .map(
            |((graph, _, rows, allowed, queries, centroid), (view, links))| {
                Ok(Part {
                    graph: graph.get().graph.linked(slice(links)?),
                    storage: view.storage()?,
                    rows: slice(rows)?,
                    allowed: allowed.as_ref().map(slice).transpose()?,
                    queries: queries.as_ref().map(slice).transpose()?,
                    centroid: centroid.as_ref().map(slice).transpose()?,
                })
            },
        )
        .collect::<PyResult<Vec<_>>>()?;
    let (shape, targets) = match &queries {
        QueriesArg::Floats(array) => (array.shape(), Query::Floats(values(array)?)),
        QueriesArg::Bits(array) => (array.shape(), Query::Bits(values(array)?)),
    };
    let &[count, width] = shape else {
        return Err(PyValueError::new_err("queries are not a matrix"));
    };
    let mut hits = match &earlier {
        Some((bounds, rows, distances)) => hits_of(bounds, slice(rows)?, slice(distances)?)?,
        None => vec![Vec::new(); count],
    };
    if hits.len() != count {
        return Err(PyValueError::new_err("as many earlier answers as queries"));
    }
    let targets = Queries {
        values: targets,
        width,
    };
    let limits = Limits {
        k,
        ef,
        lower,
        upper,
    };
    py.detach(|| search::nearest(&searched, targets, limits, &mut hits))
        .map_err(|error| corrupt(py, &error))?;
    answer(py, hits)
}

fn hits_of(
    bounds: &PyReadonlyArray1<'_, i64>,
    rows: &[u64],
    distances: &[f32],
) -> PyResult<Vec<Vec<Hit>>> {
    let bounds = sizes(bounds)?;
    let ranges = bounds.iter().zip(bounds.iter().skip(1));
    let hits = ranges.map(|(&start, &end)| {
        let (rows, distances) = (rows.get(start..end)?, distances.get(start..end)?);
        Some(
            rows.iter()
                .copied()
                .zip(distances.iter().copied())
                .collect(),
        )
    });
    hits.collect::<Option<_>>()
        .ok_or_else(|| PyValueError::new_err("bounds of earlier answers are out of range"))
}

fn answer(py: Python<'_>, hits: Vec<Vec<Hit>>) -> PyResult<Answer<'_>> {
    let ends = hits.iter().scan(0, |end, hits| {
        *end += hits.len();
        Some(*end)
    });
    let bounds = std::iter::once(0).chain(ends).collect();
    let (rows, distances): (Vec<_>, Vec<_>) = hits.into_iter().flatten().unzip();
    Ok((
        signed(bounds)?.into_pyarray(py),
        rows.into_pyarray(py),
        distances.into_pyarray(py),
    ))
}

fn signed(sizes: Vec<usize>) -> PyResult<Vec<i64>> {
    let large = |_| PyValueError::new_err("a size is too large");
    sizes
        .into_iter()
        .map(|size| i64::try_from(size).map_err(large))
        .collect()
}

fn finished() -> PyErr {
    PyValueError::new_err("the graph is finished")
}

/// The values of a contiguous array.
fn values<'a, T: Element, D: Dimension>(array: &'a PyReadonlyArray<'_, T, D>) -> PyResult<&'a [T]> {
    array
        .as_slice()
        .map_err(|_| PyValueError::new_err("the array is not contiguous"))
}

/// The number of values per row.
fn width<T: Element>(array: &PyReadonlyArray2<'_, T>) -> usize {
    array.shape().last().copied().unwrap_or_default()
}
