//! Kernels of indices of near duplicates: signatures, keys of their bands, equal values.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pilum_kernels::min_hash::{self, Hasher};
use pyo3::prelude::*;

use crate::analysis::{TextAnalyzer, TextsArg, texts_of};
use crate::arrays::{Made, impossible, slice};

/// Makes the signatures of texts.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct MinHasher(Hasher);

#[pymethods]
impl MinHasher {
    #[new]
    #[allow(clippy::needless_pass_by_value)]
    fn new(
        analyzer: Bound<'_, TextAnalyzer>,
        num_hashes: usize,
        num_bands: usize,
        shingle_size: usize,
    ) -> PyResult<Self> {
        let analyzer = analyzer.get().shared();
        Hasher::new(analyzer, num_hashes, num_bands, shingle_size)
            .map(Self)
            .map_err(impossible)
    }

    /// The numbers of the texts with tokens, their signatures and the keys of their bands.
    #[allow(clippy::type_complexity, clippy::needless_pass_by_value)]
    fn sign<'py>(
        &self,
        py: Python<'py>,
        texts: TextsArg<'py>,
    ) -> PyResult<(Made<'py, i64>, Made<'py, u16>, Made<'py, u64>)> {
        let texts = texts_of(&texts)?;
        let made = py.detach(|| self.0.sign(texts)).map_err(impossible)?;
        Ok((
            made.rows.into_pyarray(py),
            made.signatures.into_pyarray(py),
            made.keys.into_pyarray(py),
        ))
    }

    /// The signature of one short text and the keys of its bands; empty if it has no tokens.
    #[allow(clippy::type_complexity)]
    fn sign_one<'py>(
        &self,
        py: Python<'py>,
        text: &str,
    ) -> PyResult<(Made<'py, u16>, Made<'py, u64>)> {
        let (signature, keys) = self.0.sign_one(text).map_err(impossible)?;
        Ok((signature.into_pyarray(py), keys.into_pyarray(py)))
    }
}

/// The keys of the bands of signatures, one signature after the other.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn band_keys<'py>(
    py: Python<'py>,
    signatures: PyReadonlyArray1<'py, u16>,
    num_hashes: usize,
    num_bands: usize,
) -> PyResult<Made<'py, u64>> {
    let signatures = slice(&signatures)?;
    let made = py.detach(|| min_hash::band_keys(signatures, num_hashes, num_bands));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// How many values of each signature equal those of one signature.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn equal_values<'py>(
    py: Python<'py>,
    signatures: PyReadonlyArray1<'py, u16>,
    of: PyReadonlyArray1<'py, u16>,
) -> PyResult<Made<'py, u32>> {
    let (signatures, of) = (slice(&signatures)?, slice(&of)?);
    let made = py.detach(|| min_hash::equal_values(signatures, of));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}
