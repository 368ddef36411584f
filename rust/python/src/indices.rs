//! Kernels of indices: Bloom filters, sets of rows, trigrams, bounds of zones and sorted keys.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pilum_kernels::error::signed;
use pilum_kernels::key_rows::KeyRows;
use pilum_kernels::row_set_writer::Packed;
use pilum_kernels::zone_bounds::{Order, zone_bounds as bounds_of_zones};
use pilum_kernels::{bloom, order, row_maps, row_marks, trigrams};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{OffsetsArg, corrupt, impossible, sizes, slice};

type Bytes<'py> = PyReadonlyArray1<'py, u8>;
type Made<'py, T> = Bound<'py, PyArray1<T>>;

/// The hash of each value of `width` bytes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn hash_fixed<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    width: usize,
) -> PyResult<Made<'py, u64>> {
    let data = slice(&data)?;
    let made = py.detach(|| bloom::hash_fixed(data, width));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// The hash of each string.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn hash_strings<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
) -> PyResult<Made<'py, u64>> {
    let (offsets, data) = (offsets.view()?, slice(&data)?);
    let made = py.detach(|| bloom::hash_strings(offsets, data));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// One Bloom filter of `size` bytes for each range of hashes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn bloom_filters<'py>(
    py: Python<'py>,
    hashes: PyReadonlyArray1<'py, u64>,
    bounds: PyReadonlyArray1<'py, i64>,
    size: usize,
) -> PyResult<Made<'py, u8>> {
    let (hashes, bounds) = (slice(&hashes)?, sizes(&bounds)?);
    let made = py.detach(|| bloom::build(hashes, &bounds, size));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// Whether each Bloom filter may contain one of some hashes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn bloom_matches<'py>(
    py: Python<'py>,
    filters: Bytes<'py>,
    bounds: PyReadonlyArray1<'py, i64>,
    hashes: PyReadonlyArray1<'py, u64>,
) -> PyResult<Made<'py, bool>> {
    let (filters, bounds, hashes) = (slice(&filters)?, sizes(&bounds)?, slice(&hashes)?);
    let made = py.detach(|| bloom::may_contain(filters, &bounds, hashes));
    Ok(made.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
}

/// A set of rows in memory.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct RowBitmap(row_maps::RowBitmap);

#[pymethods]
impl RowBitmap {
    /// Reads a serialized set.
    #[new]
    #[allow(clippy::needless_pass_by_value)]
    fn new(py: Python<'_>, data: Bytes<'_>) -> PyResult<Self> {
        let data = slice(&data)?;
        let made = py.detach(|| row_maps::RowBitmap::read(data));
        Ok(Self(made.map_err(|error| corrupt(py, &error))?))
    }

    /// Bytes of its serialized form, which are about those in memory.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes
    }
}

/// The rows that all of some sets contain, in ascending order.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn intersect_rows(py: Python<'_>, sets: Vec<Py<RowBitmap>>) -> PyResult<Made<'_, u64>> {
    let made = py.detach(|| {
        let sets: Vec<_> = sets.iter().map(|set| &set.get().0).collect();
        row_maps::intersection(&sets)
    });
    Ok(made.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
}

/// The rows of several serialized sets, and the ends of each.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn unpack_row_sets<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    bounds: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Made<'py, u64>, Made<'py, i64>)> {
    let (data, bounds) = (slice(&data)?, sizes(&bounds)?);
    let made = py.detach(|| row_maps::unpack(data, &bounds));
    let (rows, ends) = made.map_err(|error| corrupt(py, &error))?;
    Ok((rows.into_pyarray(py), ends.into_pyarray(py)))
}

/// Serialized sets of rows, and the ends of each.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn pack_row_sets<'py>(
    py: Python<'py>,
    rows: PyReadonlyArray1<'py, u64>,
    bounds: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Made<'py, u8>, Made<'py, i64>)> {
    let (rows, bounds) = (slice(&rows)?, sizes(&bounds)?);
    let made = py.detach(|| row_maps::pack(rows, &bounds));
    let (data, ends) = made.map_err(impossible)?;
    Ok((data.into_pyarray(py), ends.into_pyarray(py)))
}

/// The distinct trigrams of a text, in ascending order.
#[pyfunction]
pub fn trigrams_of<'py>(py: Python<'py>, text: &str) -> Made<'py, u32> {
    trigrams::of(text).into_pyarray(py)
}

/// Collects the rows of each trigram of texts.
#[pyclass(module = "pilum._kernels")]
#[derive(Default)]
pub struct TrigramPostings(trigrams::Postings);

#[pymethods]
impl TrigramPostings {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds texts, each with its row.
    #[allow(clippy::needless_pass_by_value)]
    fn add(
        &mut self,
        py: Python<'_>,
        offsets: OffsetsArg<'_>,
        data: Bytes<'_>,
        rows: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<()> {
        let (offsets, data, rows) = (offsets.view()?, slice(&data)?, slice(&rows)?);
        py.detach(|| self.0.add(offsets, data, rows))
            .map_err(impossible)
    }

    /// Adds rows without a text.
    #[allow(clippy::needless_pass_by_value)]
    fn add_nulls(&mut self, py: Python<'_>, rows: PyReadonlyArray1<'_, u64>) -> PyResult<()> {
        let rows = slice(&rows)?;
        py.detach(|| self.0.add_nulls(rows));
        Ok(())
    }

    /// Returns the next trigrams, their serialized sets of rows and the ends of these.
    fn take<'py>(
        &mut self,
        py: Python<'py>,
        wanted_bytes: usize,
    ) -> PyResult<(Made<'py, u32>, Made<'py, u8>, Made<'py, i64>)> {
        let taken = py.detach(|| self.0.take(wanted_bytes));
        let (keys, packed) = taken.map_err(impossible)?;
        Ok((
            keys.into_pyarray(py),
            packed.data.into_pyarray(py),
            packed.ends.into_pyarray(py),
        ))
    }
}

/// As `pack_row_sets`, with a length before each bitmap of 32 bits.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn pack_row_maps<'py>(
    py: Python<'py>,
    rows: PyReadonlyArray1<'py, u64>,
    bounds: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Made<'py, u8>, Made<'py, i64>)> {
    let (rows, bounds) = (slice(&rows)?, sizes(&bounds)?);
    let made = py.detach(|| row_maps::pack_maps(rows, &bounds));
    let (data, ends) = made.map_err(impossible)?;
    Ok((data.into_pyarray(py), ends.into_pyarray(py)))
}

/// A set of rows as a bit for each row; see `row_marks`.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct RowMarks(row_marks::RowMarks);

#[pymethods]
impl RowMarks {
    /// Marks rows in ascending order; none if that takes more fragments or bytes.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn made(
        py: Python<'_>,
        rows: PyReadonlyArray1<'_, u64>,
        value: bool,
        most_fragments: usize,
        most_bytes: usize,
    ) -> PyResult<Option<Self>> {
        let rows = slice(&rows)?;
        let made = py.detach(|| row_marks::RowMarks::new(rows, value, most_fragments, most_bytes));
        Ok(made.map_err(impossible)?.map(Self))
    }

    /// Marks the rows whose bits are set, given the first row of each part, its bits, the number of
    /// the first one and how many they are; none if that takes more fragments or bytes.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn of_bits(
        parts: Vec<(u64, PyReadonlyArray1<'_, u8>, usize, usize)>,
        most_fragments: usize,
        most_bytes: usize,
    ) -> PyResult<Option<Self>> {
        let parts = parts.iter().map(|(first, bitmap, start, count)| {
            Ok(row_marks::RowBits {
                first: *first,
                bitmap: slice(bitmap)?,
                start: *start,
                count: *count,
            })
        });
        let parts = parts.collect::<PyResult<Vec<_>>>()?;
        let made = row_marks::RowMarks::of_bits(&parts, most_fragments, most_bytes);
        Ok(made.map_err(impossible)?.map(Self))
    }

    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes()
    }

    /// Whether the bit of each row is set.
    #[allow(clippy::needless_pass_by_value)]
    fn of<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray1<'py, u64>,
    ) -> PyResult<Made<'py, bool>> {
        let rows = slice(&rows)?;
        Ok(py.detach(|| self.0.of(rows)).into_pyarray(py))
    }

    /// The same of some parts; none for parts without any bit that is set.
    #[allow(clippy::needless_pass_by_value)]
    fn of_each<'py>(
        &self,
        py: Python<'py>,
        parts: Vec<PyReadonlyArray1<'py, u64>>,
    ) -> PyResult<Vec<Option<Made<'py, bool>>>> {
        let parts = parts.iter().map(slice).collect::<PyResult<Vec<_>>>()?;
        let made = py.detach(|| self.0.of_each(&parts)).into_iter();
        Ok(made.map(|marks| Some(marks?.into_pyarray(py))).collect())
    }
}

/// The places of keys in ascending order; equal keys keep theirs.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn stable_order<'py>(
    py: Python<'py>,
    keys: PyReadonlyArray1<'py, u64>,
) -> PyResult<Made<'py, i64>> {
    let keys = slice(&keys)?;
    let made = py.detach(|| order::stable_order(keys));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// How many of some ascending strings are less than each wanted one; or equal, too, if `after`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn places_of_strings<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
    wanted_offsets: OffsetsArg<'py>,
    wanted: Bytes<'py>,
    after: bool,
) -> PyResult<Made<'py, i64>> {
    let strings = order::Strings {
        offsets: offsets.view()?,
        data: slice(&data)?,
    };
    let wanted = order::Strings {
        offsets: wanted_offsets.view()?,
        data: slice(&wanted)?,
    };
    let made = py.detach(|| order::places(strings, wanted, after));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// The rows of several sets of `pack_row_maps`, and the ends of each.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn unpack_row_maps<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    bounds: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Made<'py, u64>, Made<'py, i64>)> {
    let (data, bounds) = (slice(&data)?, sizes(&bounds)?);
    let made = py.detach(|| row_maps::unpack_maps(data, &bounds));
    let (rows, ends) = made.map_err(|error| corrupt(py, &error))?;
    Ok((rows.into_pyarray(py), ends.into_pyarray(py)))
}

/// The rows of all of some sets of `pack_row_maps`, as one set of `pack_row_sets`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn unite_row_maps<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    bounds: PyReadonlyArray1<'py, i64>,
) -> PyResult<Made<'py, u8>> {
    let (data, bounds) = (slice(&data)?, sizes(&bounds)?);
    let made = py.detach(|| row_maps::unite_maps(data, &bounds));
    Ok(made.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
}

/// The sets of `pack_row_maps` of each group united, and the ends of each.
///
/// `order` are places of sets, `groups` the ends of the groups in it.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn unite_grouped_row_maps<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    bounds: PyReadonlyArray1<'py, i64>,
    order: PyReadonlyArray1<'py, i64>,
    groups: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Made<'py, u8>, Made<'py, i64>)> {
    let (data, bounds) = (slice(&data)?, sizes(&bounds)?);
    let (order, groups) = (sizes(&order)?, sizes(&groups)?);
    let made = py.detach(|| row_maps::unite_groups(data, &bounds, &order, &groups));
    let (data, ends) = made.map_err(|error| corrupt(py, &error))?;
    Ok((data.into_pyarray(py), ends.into_pyarray(py)))
}

/// Keys in ascending order, each with its value; values of equal keys keep their order.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn sort_pairs<'py>(
    py: Python<'py>,
    keys: PyReadonlyArray1<'py, u64>,
    values: PyReadonlyArray1<'py, u64>,
) -> PyResult<(Made<'py, u64>, Made<'py, u64>)> {
    let (keys, values) = (slice(&keys)?, slice(&values)?);
    let made = py.detach(|| order::sort_pairs(keys, values));
    let (keys, values) = made.map_err(impossible)?;
    Ok((keys.into_pyarray(py), values.into_pyarray(py)))
}

/// Ascending integers.
#[derive(FromPyObject)]
pub enum Integers<'py> {
    Int64(PyReadonlyArray1<'py, i64>),
    UInt64(PyReadonlyArray1<'py, u64>),
    Int32(PyReadonlyArray1<'py, i32>),
    UInt32(PyReadonlyArray1<'py, u32>),
}

/// The pairs of equal items of two ascending arrays of one type: the places in both.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn equal_pairs<'py>(
    py: Python<'py>,
    wanted: Integers<'py>,
    keys: Integers<'py>,
) -> PyResult<(Made<'py, i64>, Made<'py, i64>)> {
    let made = match (&wanted, &keys) {
        (Integers::Int64(wanted), Integers::Int64(keys)) => {
            let (wanted, keys) = (slice(wanted)?, slice(keys)?);
            py.detach(|| order::equal_pairs(wanted, keys))
        }
        (Integers::UInt64(wanted), Integers::UInt64(keys)) => {
            let (wanted, keys) = (slice(wanted)?, slice(keys)?);
            py.detach(|| order::equal_pairs(wanted, keys))
        }
        (Integers::Int32(wanted), Integers::Int32(keys)) => {
            let (wanted, keys) = (slice(wanted)?, slice(keys)?);
            py.detach(|| order::equal_pairs(wanted, keys))
        }
        (Integers::UInt32(wanted), Integers::UInt32(keys)) => {
            let (wanted, keys) = (slice(wanted)?, slice(keys)?);
            py.detach(|| order::equal_pairs(wanted, keys))
        }
        _ => return Err(PyValueError::new_err("keys of two types")),
    };
    let (places, found) = made.map_err(impossible)?;
    Ok((places.into_pyarray(py), found.into_pyarray(py)))
}

/// A page: its ascending keys, the reference of each, and the part of the wanted keys to look up.
type SoughtPage<'py> = (Integers<'py>, PyReadonlyArray1<'py, u64>, usize, usize);

/// The references of the keys of pages that equal one of some ascending keys of the same type.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn equal_rows<'py>(
    py: Python<'py>,
    wanted: Integers<'py>,
    pages: Vec<SoughtPage<'py>>,
) -> PyResult<Made<'py, u64>> {
    macro_rules! search {
        ($kind:ident, $wanted:expr) => {{
            let wanted = slice($wanted)?;
            let mut sought = Vec::with_capacity(pages.len());
            for (keys, references, first, end) in &pages {
                let Integers::$kind(keys) = keys else {
                    return Err(PyValueError::new_err("keys of two types"));
                };
                let part = wanted.get(*first..*end);
                let part = part.ok_or_else(|| PyValueError::new_err("a part of the keys"))?;
                sought.push((slice(keys)?, slice(references)?, part));
            }
            py.detach(|| order::equal_rows(&sought))
        }};
    }
    let made = match &wanted {
        Integers::Int64(wanted) => search!(Int64, wanted),
        Integers::UInt64(wanted) => search!(UInt64, wanted),
        Integers::Int32(wanted) => search!(Int32, wanted),
        Integers::UInt32(wanted) => search!(UInt32, wanted),
    };
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// The bytes of the least and the greatest value of each zone, and the numbers of nulls and NaNs.
///
/// Values are integers, `signed` or not, or floats if `signed` is None.
#[pyfunction]
#[pyo3(signature = (data, width, signed, validity, bounds))]
#[allow(clippy::needless_pass_by_value, clippy::type_complexity)]
pub fn zone_bounds<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    width: usize,
    signed: Option<bool>,
    validity: Option<(Bytes<'py>, usize)>,
    bounds: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Made<'py, u8>, Made<'py, u8>, Made<'py, u32>, Made<'py, u32>)> {
    let order = match signed {
        None => Order::Float,
        Some(true) => Order::Signed,
        Some(false) => Order::Unsigned,
    };
    let (data, bounds) = (slice(&data)?, sizes(&bounds)?);
    let validity = match &validity {
        Some((bitmap, first)) => Some((slice(bitmap)?, *first)),
        None => None,
    };
    let made = py.detach(|| bounds_of_zones(data, width, order, validity, &bounds));
    let zones = made.map_err(impossible)?;
    Ok((
        zones.least.into_pyarray(py),
        zones.most.into_pyarray(py),
        zones.nulls.into_pyarray(py),
        zones.nans.into_pyarray(py),
    ))
}

fn sets_out(py: Python<'_>, packed: Packed) -> (Made<'_, u8>, Made<'_, i64>) {
    (packed.data.into_pyarray(py), packed.ends.into_pyarray(py))
}

/// Collects the rows of each number.
#[pyclass(module = "pilum._kernels")]
#[derive(Default)]
pub struct NumberRows(KeyRows<u64>);

#[pymethods]
impl NumberRows {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// About how much memory it needs.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes()
    }

    /// Adds rows, each with its number.
    #[allow(clippy::needless_pass_by_value)]
    fn add(
        &mut self,
        py: Python<'_>,
        keys: PyReadonlyArray1<'_, u64>,
        rows: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<()> {
        let (keys, rows) = (slice(&keys)?, slice(&rows)?);
        py.detach(|| self.0.add(keys, rows)).map_err(impossible)
    }

    /// Adds rows without a number.
    #[allow(clippy::needless_pass_by_value)]
    fn add_nulls(&mut self, py: Python<'_>, rows: PyReadonlyArray1<'_, u64>) -> PyResult<()> {
        let rows = slice(&rows)?;
        py.detach(|| self.0.add_nulls(rows));
        Ok(())
    }

    /// Sorts the numbers; nothing can be added after it.
    fn sort(&mut self, py: Python<'_>) {
        py.detach(|| self.0.sort());
    }

    /// The set of rows without a number, and its ends; None if there are none, or a second time.
    fn take_nulls<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<Option<(Made<'py, u8>, Made<'py, i64>)>> {
        let taken = py.detach(|| self.0.take_nulls()).map_err(impossible)?;
        Ok(taken.map(|packed| sets_out(py, packed)))
    }

    /// The next numbers, their sets of rows, about `wanted_bytes` in all, and the ends of these.
    #[allow(clippy::type_complexity)]
    fn take<'py>(
        &mut self,
        py: Python<'py>,
        wanted_bytes: usize,
    ) -> PyResult<(Made<'py, u64>, Made<'py, u8>, Made<'py, i64>)> {
        let taken = py.detach(|| self.0.take(wanted_bytes));
        let (keys, packed) = taken.map_err(impossible)?;
        let (data, ends) = sets_out(py, packed);
        Ok((keys.into_pyarray(py), data, ends))
    }
}

/// Collects the rows of each string.
#[pyclass(module = "pilum._kernels")]
#[derive(Default)]
pub struct StringRows(KeyRows<Box<[u8]>>);

#[pymethods]
impl StringRows {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// About how much memory it needs.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes()
    }

    /// Adds rows, each with its string.
    #[allow(clippy::needless_pass_by_value)]
    fn add(
        &mut self,
        py: Python<'_>,
        offsets: OffsetsArg<'_>,
        data: Bytes<'_>,
        rows: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<()> {
        let (offsets, data, rows) = (offsets.view()?, slice(&data)?, slice(&rows)?);
        py.detach(|| self.0.add(offsets, data, rows))
            .map_err(impossible)
    }

    /// Adds rows without a string.
    #[allow(clippy::needless_pass_by_value)]
    fn add_nulls(&mut self, py: Python<'_>, rows: PyReadonlyArray1<'_, u64>) -> PyResult<()> {
        let rows = slice(&rows)?;
        py.detach(|| self.0.add_nulls(rows));
        Ok(())
    }

    /// Sorts the strings; nothing can be added after it.
    fn sort(&mut self, py: Python<'_>) {
        py.detach(|| self.0.sort());
    }

    /// The set of rows without a string, and its ends; None if there are none, or a second time.
    fn take_nulls<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<Option<(Made<'py, u8>, Made<'py, i64>)>> {
        let taken = py.detach(|| self.0.take_nulls()).map_err(impossible)?;
        Ok(taken.map(|packed| sets_out(py, packed)))
    }

    /// The next strings as offsets and bytes, their sets of rows, and the ends of these.
    #[allow(clippy::type_complexity)]
    fn take<'py>(
        &mut self,
        py: Python<'py>,
        wanted_bytes: usize,
    ) -> PyResult<(Made<'py, i64>, Made<'py, u8>, Made<'py, u8>, Made<'py, i64>)> {
        let taken = py.detach(|| self.0.take(wanted_bytes));
        let (keys, packed) = taken.map_err(impossible)?;
        let mut offsets = vec![0_i64];
        for end in keys.iter().scan(0, |end, key| {
            *end += key.len();
            Some(*end)
        }) {
            offsets.push(signed(end, "bytes of keys").map_err(impossible)?);
        }
        let (data, ends) = sets_out(py, packed);
        let bytes = keys.concat();
        Ok((offsets.into_pyarray(py), bytes.into_pyarray(py), data, ends))
    }
}
