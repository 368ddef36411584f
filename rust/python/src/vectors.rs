//! Vectors: distances, searches for the nearest ones, scalar and product codes, steps of k-means.

use std::cell::RefCell;

use numpy::{
    IntoPyArray, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3,
};
use pilum_kernels::error::Result as KernelResult;
use pilum_kernels::vector::distance::{self, Metric};
use pilum_kernels::vector::element::{Element, Wide};
use pilum_kernels::vector::product_scan::Codes;
use pilum_kernels::vector::search::{Answer, Earlier, Part, Store, nearest};
use pilum_kernels::vector::sieve::Sieve;
use pilum_kernels::vector::top::{References, Wanted};
use pilum_kernels::vector::{centroids, clusters, flat, product, scalar};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Made, first_that_fits, impossible, slice};

type Array<'py, T> = PyReadonlyArray1<'py, T>;
type Matrix<'py, T> = PyReadonlyArray2<'py, T>;
type Answered<'py> = (Made<'py, i64>, Made<'py, u64>, Made<'py, f32>);
type EarlierArg<'py> = (Array<'py, i64>, Array<'py, u64>, Array<'py, f32>);

/// Data, references, allowed rows and queries of a part.
type PartArg<'py, D> = (
    D,
    RowsArg<'py>,
    Option<Array<'py, bool>>,
    Option<Array<'py, u32>>,
);

/// Codes, and what is subtracted from the queries.
type ProductData<'py> = (Matrix<'py, u8>, Option<Array<'py, f32>>);

/// References of rows: one for each, or the first of consecutive ones.
pub enum RowsArg<'py> {
    Listed(Array<'py, u64>),
    From(u64),
}

first_that_fits!(RowsArg<'py>: Listed, From);

impl RowsArg<'_> {
    fn view(&self) -> PyResult<References<'_>> {
        Ok(match self {
            Self::Listed(array) => References::Listed(slice(array)?),
            Self::From(first) => References::From(*first),
        })
    }
}

/// A matrix of one of the types of elements.
pub enum VectorsArg<'py> {
    F16(Matrix<'py, u16>),
    F32(Matrix<'py, f32>),
    F64(Matrix<'py, f64>),
    U8(Matrix<'py, u8>),
    I8(Matrix<'py, i8>),
}

impl<'py> FromPyObject<'_, 'py> for VectorsArg<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = object.extract() {
            return Ok(Self::F32(array));
        }
        let dtype: String = object.getattr("dtype")?.str()?.extract()?;
        match dtype.as_str() {
            "float16" => {
                let bits = object.call_method1("view", ("uint16",))?;
                Ok(Self::F16(bits.extract()?))
            }
            "float64" => Ok(Self::F64(object.extract()?)),
            "uint8" => Ok(Self::U8(object.extract()?)),
            "int8" => Ok(Self::I8(object.extract()?)),
            _ => Err(PyValueError::new_err(format!(
                "vectors: expected float16, float32, float64, uint8 or int8, found {dtype}"
            ))),
        }
    }
}

/// Runs code for the type of the elements of some vectors.
macro_rules! for_elements {
    ($vectors:expr, $matrix:ident => $code:expr) => {
        match $vectors {
            VectorsArg::F16($matrix) => $code,
            VectorsArg::F32($matrix) => $code,
            VectorsArg::F64($matrix) => $code,
            VectorsArg::U8($matrix) => $code,
            VectorsArg::I8($matrix) => $code,
        }
    };
}

impl VectorsArg<'_> {
    fn shape(&self) -> [usize; 2] {
        for_elements!(self, matrix => shape_of(matrix))
    }

    /// The queries as floats of a type, prepared for a metric.
    #[allow(clippy::useless_conversion)] // for float64 only
    fn prepared<W: Wide>(&self, metric: Metric) -> PyResult<Vec<Vec<W>>> {
        let [_, width] = self.shape();
        for_elements!(self, matrix => {
            let rows = flat_slice(matrix)?.chunks(width.max(1));
            Ok(rows
                .map(|row| distance::prepared(metric, row.iter().map(|x| x.widen().into())))
                .collect())
        })
    }

    fn bytes(&self) -> PyResult<&[u8]> {
        match self {
            Self::U8(matrix) => flat_slice(matrix),
            _ => Err(PyValueError::new_err("hamming: expected vectors of uint8")),
        }
    }
}

/// The vectors of an array whose elements have the type of these.
trait Elements: Element {
    fn matrix<'a>(vectors: &'a VectorsArg<'_>) -> Option<PyResult<&'a [Self]>>;
}

macro_rules! elements {
    ($($kind:ident $element:ty),*) => {
        $(impl Elements for $element {
            fn matrix<'a>(vectors: &'a VectorsArg<'_>) -> Option<PyResult<&'a [Self]>> {
                match vectors {
                    VectorsArg::$kind(matrix) => Some(flat_slice(matrix)),
                    _ => None,
                }
            }
        })*
    };
}

elements!(F16 u16, F32 f32, F64 f64, U8 u8, I8 i8);

fn shape_of<T: numpy::Element>(matrix: &Matrix<'_, T>) -> [usize; 2] {
    matrix.as_array().dim().into()
}

fn flat_slice<'a, T: numpy::Element>(matrix: &'a Matrix<'_, T>) -> PyResult<&'a [T]> {
    matrix.as_slice().map_err(not_contiguous)
}

fn not_contiguous<E>(_: E) -> PyErr {
    PyValueError::new_err("the array is not contiguous")
}

fn metric_named(name: &str) -> PyResult<Metric> {
    Metric::named(name).map_err(impossible)
}

fn wanted(k: usize, lower: Option<f32>, upper: Option<f32>) -> Wanted {
    Wanted {
        k,
        lower: lower.unwrap_or(f32::NEG_INFINITY),
        upper,
    }
}

/// The parts of a search; `store_of` returns the vectors of a part and the number of its rows.
fn parts_of<'a, D, S: Store + 'a>(
    parts: &'a [PartArg<'_, D>],
    store_of: impl Fn(&'a D) -> PyResult<(S, usize)>,
) -> PyResult<Vec<Part<'a>>> {
    let each = parts.iter().map(|(data, rows, allowed, queries)| {
        let (store, num_rows) = store_of(data)?;
        part_of(store, num_rows, rows, allowed.as_ref(), queries.as_ref())
    });
    each.collect()
}

fn part_of<'a>(
    store: impl Store + 'a,
    num_rows: usize,
    rows: &'a RowsArg<'_>,
    allowed: Option<&'a Array<'_, bool>>,
    queries: Option<&'a Array<'_, u32>>,
) -> PyResult<Part<'a>> {
    Ok(Part {
        store: Box::new(store),
        num_rows,
        references: rows.view()?,
        allowed: allowed.map(slice).transpose()?,
        queries: queries.map(slice).transpose()?,
    })
}

fn answer<'py>(
    py: Python<'py>,
    parts: Vec<Part<'_>>,
    num_queries: usize,
    wanted: Wanted,
    earlier: Option<&EarlierArg<'_>>,
    num_threads: usize,
) -> PyResult<Answered<'py>> {
    let earlier = match earlier {
        None => None,
        Some((bounds, references, distances)) => Some(Earlier {
            bounds: slice(bounds)?,
            references: slice(references)?,
            distances: slice(distances)?,
        }),
    };
    let made: KernelResult<Answer> =
        py.detach(|| nearest(parts, num_queries, wanted, earlier, num_threads));
    let made = made.map_err(impossible)?;
    Ok((
        made.bounds.into_pyarray(py),
        made.references.into_pyarray(py),
        made.distances.into_pyarray(py),
    ))
}

fn flat_parts<'a, T: Elements + 'a>(
    parts: &'a [PartArg<'_, VectorsArg<'_>>],
    sieves: &'a [Option<Bound<'_, VectorSieve>>],
    metric: Metric,
    queries: &'a [Vec<T::Wide>],
) -> PyResult<Vec<Part<'a>>> {
    let sieves = RefCell::new(sieves.iter());
    parts_of(parts, |vectors| {
        let [num_rows, dimension] = vectors.shape();
        let data = T::matrix(vectors)
            .ok_or_else(|| PyValueError::new_err("the parts have elements of several types"))??;
        let store = flat::Flat::new(metric, data, dimension, queries);
        let store = match sieves.borrow_mut().next() {
            Some(Some(sieve)) => store.and_then(|store| store.sieved(&sieve.get().0)),
            Some(None) | None => store,
        };
        Ok((store.map_err(impossible)?, num_rows))
    })
}

/// Sieves in the order of the parts; none if there are none at all.
fn sieves_of<'a, 'py>(
    sieves: Option<&'a Vec<Option<Bound<'py, VectorSieve>>>>,
    num_parts: usize,
) -> PyResult<&'a [Option<Bound<'py, VectorSieve>>]> {
    match sieves {
        None => Ok(&[]),
        Some(sieves) if sieves.len() == num_parts => Ok(sieves),
        Some(_) => Err(PyValueError::new_err("as many sieves as parts")),
    }
}

/// Codes in place of vectors, which show that most of them are too far from a query.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct VectorSieve(Sieve);

#[pymethods]
impl VectorSieve {
    #[new]
    #[allow(clippy::needless_pass_by_value)]
    fn new(py: Python<'_>, vectors: VectorsArg<'_>, metric: &str) -> PyResult<Self> {
        let ([_, width], metric) = (vectors.shape(), metric_named(metric)?);
        let made = for_elements!(&vectors, matrix => {
            let vectors = flat_slice(matrix)?;
            py.detach(|| Sieve::new(metric, vectors, width))
        });
        Ok(Self(made.map_err(impossible)?))
    }

    /// The memory that it uses.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes()
    }
}

/// The nearest of vectors that are stored as they are, of each part with its sieve.
#[pyfunction]
#[pyo3(signature = (
    parts, queries, metric, k, *, lower=None, upper=None, earlier=None, sieves=None,
    num_threads=1
))]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
pub fn nearest_flat<'py>(
    py: Python<'py>,
    parts: Vec<PartArg<'py, VectorsArg<'py>>>,
    queries: VectorsArg<'py>,
    metric: &str,
    k: usize,
    lower: Option<f32>,
    upper: Option<f32>,
    earlier: Option<EarlierArg<'py>>,
    sieves: Option<Vec<Option<Bound<'py, VectorSieve>>>>,
    num_threads: usize,
) -> PyResult<Answered<'py>> {
    let metric = metric_named(metric)?;
    let ([num_queries, width], wanted) = (queries.shape(), wanted(k, lower, upper));
    let sieves = sieves_of(sieves.as_ref(), parts.len())?;
    if metric == Metric::Hamming {
        let made = parts_of(&parts, |vectors| {
            let [num_rows, found] = vectors.shape();
            same_dimension(found, width)?;
            let store = flat::Bits::new(vectors.bytes()?, width, queries.bytes()?);
            Ok((store.map_err(impossible)?, num_rows))
        })?;
        return answer(py, made, num_queries, wanted, earlier.as_ref(), num_threads);
    }
    macro_rules! search {
        ($element:ty) => {{
            let queries = queries.prepared(metric)?;
            let made = flat_parts::<$element>(&parts, sieves, metric, &queries)?;
            answer(py, made, num_queries, wanted, earlier.as_ref(), num_threads)
        }};
    }
    match parts.first().map(|(vectors, ..)| vectors) {
        Some(VectorsArg::F16(_)) => search!(u16),
        Some(VectorsArg::F64(_)) => search!(f64),
        Some(VectorsArg::U8(_)) => search!(u8),
        Some(VectorsArg::I8(_)) => search!(i8),
        Some(VectorsArg::F32(_)) | None => search!(f32),
    }
}

fn same_dimension(found: usize, expected: usize) -> PyResult<()> {
    if found == expected {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "dimension: expected {expected}, found {found}"
    )))
}

/// The distance of each vector from each query.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn distances<'py>(
    py: Python<'py>,
    vectors: VectorsArg<'py>,
    queries: VectorsArg<'py>,
    metric: &str,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let metric = metric_named(metric)?;
    let ([rows, width], [num_queries, found]) = (vectors.shape(), queries.shape());
    same_dimension(found, width)?;
    let mut out = vec![0f32; rows * num_queries];
    let lines = out.chunks_mut(rows.max(1));
    if metric == Metric::Hamming {
        let (vectors, queries) = (vectors.bytes()?, queries.bytes()?);
        py.detach(|| {
            let each = queries.chunks(width.max(1)).zip(lines);
            each.for_each(|(query, out)| distance::hamming(query, vectors, out));
        });
    } else {
        for_elements!(&vectors, matrix => {
            let (vectors, queries) = (flat_slice(matrix)?, queries.prepared(metric)?);
            py.detach(|| {
                let each = queries.iter().zip(lines);
                each.for_each(|(query, out)| distance::measure(metric, query, vectors, out));
            });
        });
    }
    out.into_pyarray(py).reshape([num_queries, rows])
}

/// The scalar code of each component.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn encode_scalar_codes<'py>(
    py: Python<'py>,
    vectors: Matrix<'py, f32>,
    start: f64,
    end: f64,
) -> PyResult<Bound<'py, PyArray2<u8>>> {
    let (shape, vectors) = (shape_of(&vectors), flat_slice(&vectors)?);
    let mut codes = vec![0; vectors.len()];
    py.detach(|| scalar::Bounds { start, end }.encode(vectors, &mut codes));
    codes.into_pyarray(py).reshape(shape)
}

/// The nearest of vectors that are stored as scalar codes, of each part with its sieve.
#[pyfunction]
#[pyo3(signature = (
    parts, queries, start, end, metric, k, *, lower=None, upper=None, earlier=None, sieves=None,
    num_threads=1
))]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
pub fn nearest_scalar_codes<'py>(
    py: Python<'py>,
    parts: Vec<PartArg<'py, Matrix<'py, u8>>>,
    queries: Matrix<'py, f32>,
    start: f64,
    end: f64,
    metric: &str,
    k: usize,
    lower: Option<f32>,
    upper: Option<f32>,
    earlier: Option<EarlierArg<'py>>,
    sieves: Option<Vec<Option<Bound<'py, VectorSieve>>>>,
    num_threads: usize,
) -> PyResult<Answered<'py>> {
    let [num_queries, width] = shape_of(&queries);
    let sieves = RefCell::new(sieves_of(sieves.as_ref(), parts.len())?.iter());
    let (metric, bounds) = (metric_named(metric)?, scalar::Bounds { start, end });
    let queries = scalar::Queries::new(metric, flat_slice(&queries)?, width, bounds);
    let queries = queries.map_err(impossible)?;
    let made = parts_of(&parts, |codes| {
        let [num_rows, found] = shape_of(codes);
        same_dimension(found, width)?;
        let store = scalar::Codes::new(flat_slice(codes)?, &queries);
        let store = match sieves.borrow_mut().next() {
            Some(Some(sieve)) => store.sieved(&sieve.get().0).map_err(impossible)?,
            Some(None) | None => store,
        };
        Ok((store, num_rows))
    })?;
    let wanted = wanted(k, lower, upper);
    answer(py, made, num_queries, wanted, earlier.as_ref(), num_threads)
}

/// Codewords of product quantization.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct ProductCodebook(product::Codebook);

#[pymethods]
impl ProductCodebook {
    #[new]
    #[allow(clippy::needless_pass_by_value)]
    fn new(codewords: PyReadonlyArray3<'_, f32>) -> PyResult<Self> {
        let shape = codewords.as_array().dim().into();
        let codewords = codewords.as_slice().map_err(not_contiguous)?;
        let book = product::Codebook::new(codewords, shape);
        book.map(Self).map_err(impossible)
    }

    /// Returns the number of the nearest codeword of each sub-vector.
    #[allow(clippy::needless_pass_by_value)]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        vectors: Matrix<'py, f32>,
    ) -> PyResult<Bound<'py, PyArray2<u8>>> {
        let [rows, width] = shape_of(&vectors);
        same_dimension(width, self.0.dimension())?;
        let vectors = flat_slice(&vectors)?;
        let codes = py.detach(|| self.0.encode(vectors)).map_err(impossible)?;
        codes
            .into_pyarray(py)
            .reshape([rows, self.0.num_sub_vectors()])
    }

    /// Searches product codes for the nearest rows.
    #[pyo3(signature = (
        parts, queries, metric, k, *, transposed=true, lower=None, upper=None, earlier=None,
        num_threads=1
    ))]
    #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
    fn nearest<'py>(
        &self,
        py: Python<'py>,
        parts: Vec<PartArg<'py, ProductData<'py>>>,
        queries: Matrix<'py, f32>,
        metric: &str,
        k: usize,
        transposed: bool,
        lower: Option<f32>,
        upper: Option<f32>,
        earlier: Option<EarlierArg<'py>>,
        num_threads: usize,
    ) -> PyResult<Answered<'py>> {
        let (metric, [num_queries, width]) = (metric_named(metric)?, shape_of(&queries));
        same_dimension(width, self.0.dimension())?;
        let queries = flat_slice(&queries)?;
        let data = parts.iter().map(|((codes, centroid), ..)| {
            let centroid = centroid.as_ref().map(slice).transpose()?;
            Ok((flat_slice(codes)?, centroid))
        });
        let data = data.collect::<PyResult<Vec<_>>>()?;
        let codes = Codes::of_parts(&self.0, metric, transposed, queries, &data);
        let made = codes.map_err(impossible)?.into_iter().zip(&parts);
        let made = made.map(|(codes, (_, rows, allowed, queries))| {
            let num_rows = codes.num_rows();
            part_of(codes, num_rows, rows, allowed.as_ref(), queries.as_ref())
        });
        let made = made.collect::<PyResult<_>>()?;
        let wanted = wanted(k, lower, upper);
        answer(py, made, num_queries, wanted, earlier.as_ref(), num_threads)
    }
}

/// The sum of the vectors of each cluster, and how many they are.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn cluster_sums<'py>(
    py: Python<'py>,
    vectors: VectorsArg<'py>,
    clusters: Array<'py, u32>,
    num_clusters: usize,
) -> PyResult<(Bound<'py, PyArray2<f64>>, Made<'py, i64>)> {
    let ([_, width], clusters) = (vectors.shape(), slice(&clusters)?);
    let made = for_elements!(&vectors, matrix => {
        let vectors = flat_slice(matrix)?;
        py.detach(|| clusters::sums(vectors, width, clusters, num_clusters))
    });
    let (sums, counts) = made.map_err(impossible)?;
    let sums = sums.into_pyarray(py).reshape([num_clusters, width])?;
    Ok((sums, counts.into_pyarray(py)))
}

/// The centroid of each vector where its offset - factor * (vector . centroid) is least.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn nearest_centroids<'py>(
    py: Python<'py>,
    vectors: Matrix<'py, f32>,
    centroids: Matrix<'py, f32>,
    offsets: Array<'py, f32>,
    factor: f32,
) -> PyResult<(Made<'py, u32>, Made<'py, f32>)> {
    let [_, dimension] = shape_of(&vectors);
    same_dimension(shape_of(&centroids)[1], dimension)?;
    let vectors = flat_slice(&vectors)?;
    let centroids = centroids::Centroids {
        components: flat_slice(&centroids)?,
        offsets: slice(&offsets)?,
        factor,
    };
    let made = py.detach(|| centroids::nearest(vectors, dimension, centroids));
    let (numbers, values) = made.map_err(impossible)?;
    Ok((numbers.into_pyarray(py), values.into_pyarray(py)))
}
