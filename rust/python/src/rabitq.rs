//! RaBitQ codes: rotation, encoding, the order in which they are stored, and searches.

use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pilum_kernels::error::Corrupt;
use pilum_kernels::vector::rabitq::nearest::{self, Hit, Limits};
use pilum_kernels::vector::rabitq::search::{Columns, Estimator, Further};
use pilum_kernels::vector::rabitq::{blocks, codes, packing, rotation};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Made, corrupt, impossible, slice};

type Array<'py, T> = PyReadonlyArray1<'py, T>;
type Matrix<'py, T> = PyReadonlyArray2<'py, T>;

/// Add and scale factors, and the errors of those by signs.
type Factors<'py> = (Made<'py, f32>, Made<'py, f32>);

/// Bounds of the rows of each query, rows and distances.
type Answer<'py> = (Made<'py, i64>, Made<'py, u64>, Made<'py, f32>);

/// Sign codes, add and scale factors.
type SignsArg<'py> = (Matrix<'py, u8>, Array<'py, f32>, Array<'py, f32>);

/// Further bits, errors, and the add and scale factors of all bits.
type FurtherArg<'py> = (
    Matrix<'py, u8>,
    Array<'py, f32>,
    Array<'py, f32>,
    Array<'py, f32>,
);

/// Columns, rows, allowed rows, numbers of queries, and the rotated centroid.
type PartArg<'py> = (
    SignsArg<'py>,
    Option<FurtherArg<'py>>,
    Array<'py, u64>,
    Option<Array<'py, bool>>,
    Option<Array<'py, u32>>,
    Array<'py, f32>,
);

/// The items of a contiguous matrix.
fn items<'a, T: numpy::Element>(matrix: &'a Matrix<'_, T>) -> PyResult<&'a [T]> {
    matrix
        .as_slice()
        .map_err(|_| PyValueError::new_err("the array is not contiguous"))
}

/// The number of columns of a matrix.
fn width<T: numpy::Element>(matrix: &Matrix<'_, T>) -> usize {
    matrix.as_array().ncols()
}

fn matrix<T: numpy::Element>(
    py: Python<'_>,
    items: Vec<T>,
    width: usize,
) -> PyResult<Bound<'_, PyArray2<T>>> {
    let rows = items.len().checked_div(width).unwrap_or_default();
    let made = Array2::from_shape_vec((rows, width), items)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(made.into_pyarray(py))
}

/// How vectors are stored as RaBitQ codes.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct RabitqCodes(codes::Coding);

#[pymethods]
impl RabitqCodes {
    /// Describes codes of so many bits for each component, the sign included.
    #[new]
    fn new(dimension: usize, bits: usize, is_dot: bool) -> Self {
        Self(codes::Coding {
            dimension,
            bits,
            is_dot,
        })
    }

    /// Encodes rotated residuals: signs with factors and errors; further bits with factors.
    #[allow(clippy::needless_pass_by_value, clippy::type_complexity)]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        rotated: Matrix<'_, f32>,
        centroids: Matrix<'_, f32>,
        partitions: Array<'_, u32>,
    ) -> PyResult<(
        (Bound<'py, PyArray2<u8>>, Factors<'py>, Made<'py, f32>),
        (Bound<'py, PyArray2<u8>>, Factors<'py>),
    )> {
        let coding = self.0;
        let (rotated, centroids) = (items(&rotated)?, items(&centroids)?);
        let partitions = slice(&partitions)?;
        let found = py
            .detach(|| codes::encode(coding, rotated, centroids, partitions))
            .map_err(impossible)?;
        let further = blocks::row_bytes(coding.dimension, coding.bits - 1);
        Ok((
            (
                matrix(py, found.signs, coding.dimension / 8)?,
                (found.add.into_pyarray(py), found.scale.into_pyarray(py)),
                found.error.into_pyarray(py),
            ),
            (
                matrix(py, found.further, further)?,
                (
                    found.add_all.into_pyarray(py),
                    found.scale_all.into_pyarray(py),
                ),
            ),
        ))
    }

    /// Decodes plain rows of signs and further bits to centred values.
    #[pyo3(signature = (signs, further=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        signs: Matrix<'_, u8>,
        further: Option<Matrix<'_, u8>>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let coding = self.0;
        let signs = items(&signs)?;
        let further = further.as_ref().map_or(Ok(&[][..]), items)?;
        let found = py
            .detach(|| codes::decode(coding, signs, further))
            .map_err(|error| corrupt(py, &error))?;
        matrix(py, found, coding.dimension)
    }

    /// Searches partitions for the `k` rows nearest to each of the rotated queries.
    #[pyo3(signature = (parts, queries, k, *, by_signs=false, by_residuals=false, packed=true,
                        lower=None, upper=None, earlier=None))]
    #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
    fn nearest<'py>(
        &self,
        py: Python<'py>,
        parts: Vec<PartArg<'_>>,
        queries: Matrix<'_, f32>,
        k: usize,
        by_signs: bool,
        by_residuals: bool,
        packed: bool,
        lower: Option<f32>,
        upper: Option<f32>,
        earlier: Option<(Array<'_, i64>, Array<'_, u64>, Array<'_, f32>)>,
    ) -> PyResult<Answer<'py>> {
        let estimator = Estimator {
            dimension: self.0.dimension,
            bits: self.0.bits,
            is_dot: self.0.is_dot,
            by_signs,
            by_residuals,
            is_packed: packed,
        };
        let limits = Limits {
            k,
            lower: lower.map_or(f32::NEG_INFINITY, |lower| lower),
            upper,
        };
        let earlier = earlier.as_ref().map_or(Ok(Vec::new()), hits)?;
        let views = parts.iter().map(view).collect::<PyResult<Vec<_>>>()?;
        let queries = items(&queries)?;
        let found = py
            .detach(|| nearest::nearest(estimator, &views, queries, limits, earlier))
            .map_err(|error| corrupt(py, &error))?;
        answer(py, &found)
    }
}

fn view<'a>(part: &'a PartArg<'_>) -> PyResult<nearest::Part<'a>> {
    let ((signs, add, scale), further, rows, allowed, queries, centroid) = part;
    let further = match further {
        Some((codes, error, add, scale)) => Some(Further {
            codes: items(codes)?,
            error: slice(error)?,
            add: slice(add)?,
            scale: slice(scale)?,
        }),
        None => None,
    };
    Ok(nearest::Part {
        columns: Columns {
            signs: items(signs)?,
            add: slice(add)?,
            scale: slice(scale)?,
            further,
        },
        rows: slice(rows)?,
        allowed: allowed.as_ref().map(slice).transpose()?,
        queries: queries.as_ref().map(slice).transpose()?,
        centroid: slice(centroid)?,
    })
}

fn hits(earlier: &(Array<'_, i64>, Array<'_, u64>, Array<'_, f32>)) -> PyResult<Vec<Vec<Hit>>> {
    let (bounds, rows, distances) = (slice(&earlier.0)?, slice(&earlier.1)?, slice(&earlier.2)?);
    let wrong = || PyValueError::new_err("earlier rows that do not fit their bounds");
    let pairs = bounds.windows(2).map(|pair| {
        let [start, stop] = pair else {
            return Err(wrong());
        };
        let start = usize::try_from(*start).map_err(|_| wrong())?;
        let stop = usize::try_from(*stop).map_err(|_| wrong())?;
        let rows = rows.get(start..stop).ok_or_else(wrong)?;
        let distances = distances.get(start..stop).ok_or_else(wrong)?;
        let both = rows.iter().zip(distances);
        Ok(both
            .map(|(&row, &distance)| Hit { distance, row })
            .collect())
    });
    pairs.collect()
}

fn answer<'py>(py: Python<'py>, found: &[Vec<Hit>]) -> PyResult<Answer<'py>> {
    let mut bounds = vec![0i64];
    let mut count = 0;
    for hits in found {
        count += hits.len();
        bounds.push(i64::try_from(count)?);
    }
    let rows: Vec<u64> = found.iter().flatten().map(|hit| hit.row).collect();
    let distances: Vec<f32> = found.iter().flatten().map(|hit| hit.distance).collect();
    Ok((
        bounds.into_pyarray(py),
        rows.into_pyarray(py),
        distances.into_pyarray(py),
    ))
}

/// Rotates vectors by the fast rotation with these signs.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn rotate_vectors<'py>(
    py: Python<'py>,
    vectors: Matrix<'_, f32>,
    signs: Array<'_, u8>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let dimension = width(&vectors);
    let signs = slice(&signs)?;
    let mut found = items(&vectors)?.to_vec();
    py.detach(|| rotation::rotate(signs, dimension, &mut found))
        .map_err(impossible)?;
    matrix(py, found, dimension)
}

/// Packs the sign codes of a partition in the order in which 32 rows are looked up at once.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn pack_sign_codes<'py>(
    py: Python<'py>,
    rows: Matrix<'_, u8>,
) -> PyResult<Bound<'py, PyArray2<u8>>> {
    reordered(py, &rows, packing::pack)
}

/// Unpacks the sign codes of a partition to plain rows.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn unpack_sign_codes<'py>(
    py: Python<'py>,
    packed: Matrix<'_, u8>,
) -> PyResult<Bound<'py, PyArray2<u8>>> {
    reordered(py, &packed, packing::unpack)
}

fn reordered<'py>(
    py: Python<'py>,
    codes: &Matrix<'_, u8>,
    order: impl Fn(&[u8], usize) -> Result<Vec<u8>, Corrupt> + Send + Sync,
) -> PyResult<Bound<'py, PyArray2<u8>>> {
    let (bytes, width) = (items(codes)?, width(codes));
    let found = py
        .detach(|| order(bytes, width))
        .map_err(|error| corrupt(py, &error))?;
    matrix(py, found, width)
}
