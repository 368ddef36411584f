//! Text analysis and sets of tokens.

use std::sync::{Arc, Mutex, PoisonError};

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pilum_kernels::analysis::dictionary::Dictionary;
use pilum_kernels::analysis::{
    Analyzer, Base, Documents, Filters, Form, Lists, Parts, Texts, stemmer,
};
use pilum_kernels::token_set::{Listed, Similar, TokenSet as Tokens, token_at};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Bytes, Made, OffsetsArg, corrupt, impossible, slice};

/// Offsets, bytes, and validity with its first bit.
pub type TextsArg<'py> = (OffsetsArg<'py>, Bytes<'py>, Option<(Bytes<'py>, usize)>);
/// Offsets, and validity with its first bit.
type ListsArg<'py> = (OffsetsArg<'py>, Option<(Bytes<'py>, usize)>);
/// Offsets, bytes and numbers of tokens.
type ListedOut<'py> = (Made<'py, i64>, Made<'py, u8>, Made<'py, u32>);

fn validity<'a>(arg: Option<&'a (Bytes<'_>, usize)>) -> PyResult<Option<(&'a [u8], usize)>> {
    arg.map(|(bitmap, first)| Ok((slice(bitmap)?, *first)))
        .transpose()
}

/// Strings as the kernels take them.
pub fn texts_of<'a>(texts: &'a TextsArg<'_>) -> PyResult<Texts<'a>> {
    let (offsets, data, bitmap) = texts;
    Ok(Texts {
        offsets: offsets.view()?,
        data: slice(data)?,
        validity: validity(bitmap.as_ref())?,
    })
}

fn documents<'a>(
    texts: &'a TextsArg<'_>,
    lists: Option<&'a ListsArg<'_>>,
) -> PyResult<Documents<'a>> {
    let texts = texts_of(texts)?;
    let lists = lists
        .map(|(offsets, bitmap)| {
            Ok::<_, PyErr>(Lists {
                offsets: offsets.view()?,
                validity: validity(bitmap.as_ref())?,
            })
        })
        .transpose()?;
    Ok(Documents { texts, lists })
}

/// How texts become tokens.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct TextAnalyzer(Arc<Analyzer>);

impl TextAnalyzer {
    /// The analysis, for other kernels.
    pub fn shared(&self) -> Arc<Analyzer> {
        Arc::clone(&self.0)
    }
}

#[pymethods]
impl TextAnalyzer {
    #[new]
    #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)]
    #[pyo3(signature = (base, form, *, max_bytes, lower_case, stemmer_of, stop_words, ascii_folding,
        ngrams, prefix_only, operators, parts))]
    fn new(
        base: &str,
        form: &str,
        max_bytes: Option<usize>,
        lower_case: bool,
        stemmer_of: Option<&str>,
        stop_words: Vec<String>,
        ascii_folding: bool,
        ngrams: (usize, usize),
        prefix_only: bool,
        operators: bool,
        parts: Option<(bool, bool)>,
    ) -> PyResult<Self> {
        let unknown =
            |what: &str, name: &str| PyValueError::new_err(format!("{what} {name:?} is unknown"));
        let base = match base {
            "simple" => Base::Simple,
            "whitespace" => Base::Whitespace,
            "raw" => Base::Raw,
            "ngram" => Base::Ngrams {
                min: ngrams.0,
                max: ngrams.1,
                prefix_only,
            },
            "code" => Base::Code {
                operators,
                parts: parts.map(|(on_numerics, preserve_original)| Parts {
                    on_numerics,
                    preserve_original,
                }),
            },
            "icu" => Base::words(false),
            "icu/split" => Base::words(true),
            _ => return Err(unknown("base tokenizer", base)),
        };
        let form = match form {
            "text" => Form::Text,
            "json" => Form::Json,
            "json query" => Form::JsonQuery,
            _ => return Err(unknown("form of documents", form)),
        };
        let stemmer = stemmer_of
            .map(|language| stemmer(language).ok_or_else(|| unknown("language", language)))
            .transpose()?;
        let filters = Filters {
            max_bytes,
            lower_case,
            stemmer,
            stop_words: stop_words.into_iter().collect(),
            ascii_folding,
        };
        Ok(Self(Arc::new(Analyzer {
            base,
            filters,
            form,
        })))
    }

    /// The tokens of one short text and their positions.
    fn words(&self, text: &str) -> PyResult<Vec<(String, u32)>> {
        self.0.words(text).map_err(impossible)
    }

    /// The pieces before any filter: offsets and bytes of their prefixes and of their texts, which
    /// of them no filter changes, and the number of pieces at the end of each document.
    #[allow(clippy::type_complexity, clippy::needless_pass_by_value)]
    fn cut<'py>(
        &self,
        py: Python<'py>,
        texts: TextsArg<'py>,
        lists: Option<ListsArg<'py>>,
    ) -> PyResult<(
        (Made<'py, i64>, Made<'py, u8>),
        (Made<'py, i64>, Made<'py, u8>),
        Made<'py, bool>,
        Made<'py, i64>,
    )> {
        let documents = documents(&texts, lists.as_ref())?;
        let made = py.detach(|| self.0.cut(&documents)).map_err(impossible)?;
        let strings = |(offsets, data): (Vec<i64>, Vec<u8>)| {
            (offsets.into_pyarray(py), data.into_pyarray(py))
        };
        Ok((
            strings(made.prefixes),
            strings(made.texts),
            made.verbatim.into_pyarray(py),
            made.ends.into_pyarray(py),
        ))
    }

    /// Offsets and bytes of the tokens, their positions, and the number of tokens at the end of
    /// each document.
    #[allow(clippy::type_complexity, clippy::needless_pass_by_value)]
    fn tokens<'py>(
        &self,
        py: Python<'py>,
        texts: TextsArg<'py>,
        lists: Option<ListsArg<'py>>,
    ) -> PyResult<(
        Made<'py, i64>,
        Made<'py, u8>,
        Made<'py, u32>,
        Made<'py, i64>,
    )> {
        let documents = documents(&texts, lists.as_ref())?;
        let made = py
            .detach(|| self.0.tokens(&documents))
            .map_err(impossible)?;
        Ok((
            made.offsets.into_pyarray(py),
            made.data.into_pyarray(py),
            made.positions.into_pyarray(py),
            made.ends.into_pyarray(py),
        ))
    }
}

/// The tokens of many documents, numbered in the order of their first appearance.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct TokenDictionary(Mutex<Dictionary>);

#[pymethods]
impl TokenDictionary {
    #[new]
    #[allow(clippy::needless_pass_by_value)]
    fn new(analyzer: Bound<'_, TextAnalyzer>) -> Self {
        let analyzer = analyzer.get().shared();
        Self(Mutex::new(Dictionary::new(analyzer)))
    }

    fn __len__(&self) -> usize {
        self.locked(|dictionary| dictionary.len())
    }

    /// Bytes of memory in use.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.locked(|dictionary| dictionary.size_bytes())
    }

    /// Numbers of the tokens, their positions, and the number of tokens at the end of each document.
    #[allow(clippy::type_complexity, clippy::needless_pass_by_value)]
    fn analyze<'py>(
        &self,
        py: Python<'py>,
        texts: TextsArg<'py>,
        lists: Option<ListsArg<'py>>,
    ) -> PyResult<(Made<'py, u32>, Made<'py, u32>, Made<'py, i64>)> {
        let documents = documents(&texts, lists.as_ref())?;
        let made = py
            .detach(|| self.locked(|dictionary| dictionary.analyze(&documents)))
            .map_err(impossible)?;
        Ok((
            made.tokens.into_pyarray(py),
            made.positions.into_pyarray(py),
            made.ends.into_pyarray(py),
        ))
    }

    /// The numbers of tokens; new ones are added.
    #[allow(clippy::needless_pass_by_value)]
    fn add<'py>(
        &self,
        py: Python<'py>,
        offsets: OffsetsArg<'py>,
        data: Bytes<'py>,
    ) -> PyResult<Made<'py, u32>> {
        let (offsets, data) = (offsets.view()?, slice(&data)?);
        let tokens = (0..offsets.count()).map(|row| token_at(offsets, data, row));
        let made = py
            .detach(|| self.locked(|dictionary| dictionary.add(tokens)))
            .map_err(impossible)?;
        Ok(made.into_pyarray(py))
    }

    /// Offsets, bytes and numbers of all tokens, in the order of their bytes.
    fn sorted<'py>(&self, py: Python<'py>) -> PyResult<ListedOut<'py>> {
        let made = py.detach(|| self.locked(|dictionary| dictionary.sorted()));
        let (offsets, data, numbers) = made.map_err(impossible)?;
        Ok((
            offsets.into_pyarray(py),
            data.into_pyarray(py),
            numbers.into_pyarray(py),
        ))
    }
}

impl TokenDictionary {
    fn locked<T>(&self, work: impl FnOnce(&mut Dictionary) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A sorted set of tokens, each with its number.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct TokenSet(Tokens);

#[pymethods]
impl TokenSet {
    /// Reads a stored transducer.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn read(py: Python<'_>, data: Bytes<'_>) -> PyResult<Self> {
        let data = slice(&data)?.to_vec();
        py.detach(|| Tokens::read(data))
            .map(Self)
            .map_err(|error| corrupt(py, &error))
    }

    /// Makes a set of tokens in the order of their bytes.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn of<'py>(
        py: Python<'py>,
        offsets: OffsetsArg<'py>,
        data: Bytes<'py>,
        numbers: PyReadonlyArray1<'py, u32>,
    ) -> PyResult<Self> {
        let (offsets, data, numbers) = (offsets.view()?, slice(&data)?, slice(&numbers)?);
        py.detach(|| Tokens::of(offsets, data, numbers))
            .map(Self)
            .map_err(|error| corrupt(py, &error))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Bytes of memory in use.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.bytes().len()
    }

    /// The stored form.
    fn bytes<'py>(&self, py: Python<'py>) -> Made<'py, u8> {
        PyArray1::from_slice(py, self.0.bytes())
    }

    /// The numbers of tokens; -1 for those that are not there.
    #[allow(clippy::needless_pass_by_value)]
    fn find<'py>(
        &self,
        py: Python<'py>,
        offsets: OffsetsArg<'py>,
        data: Bytes<'py>,
    ) -> PyResult<Made<'py, i64>> {
        let (offsets, data) = (offsets.view()?, slice(&data)?);
        let found = py.detach(|| self.0.find_all(offsets, data));
        Ok(found.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
    }

    /// The numbers of a few tokens; -1 for those that are not there.
    fn numbers(&self, py: Python<'_>, words: Vec<String>) -> PyResult<Vec<i64>> {
        let number = |word: String| {
            let found = self.0.find(word.as_bytes())?;
            Ok(found.map_or(-1, i64::from))
        };
        let found: Result<Vec<i64>, _> = words.into_iter().map(number).collect();
        found.map_err(|error| corrupt(py, &error))
    }

    /// The tokens that are similar to words, given as (word, distance, prefix bytes), at most
    /// `most` in all: offsets, bytes, numbers, and how many there are at the end of each word.
    #[allow(clippy::type_complexity)]
    fn similar<'py>(
        &self,
        py: Python<'py>,
        words: Vec<(String, u32, usize)>,
        most: usize,
    ) -> PyResult<(ListedOut<'py>, Vec<usize>)> {
        let made = py.detach(|| {
            let mut found = Listed::default();
            let mut ends = Vec::with_capacity(words.len());
            for (word, distance, prefix) in &words {
                let to = Similar {
                    word,
                    distance: *distance,
                    prefix: *prefix,
                };
                self.0.similar(to, most, &mut found)?;
                ends.push(found.numbers.len());
            }
            Ok((found, ends))
        });
        let (found, ends) = made.map_err(|error| corrupt(py, &error))?;
        Ok((listed_out(py, found), ends))
    }

    /// Offsets, bytes and numbers of all tokens, in the order of their bytes.
    fn list<'py>(&self, py: Python<'py>) -> PyResult<ListedOut<'py>> {
        let listed = py.detach(|| self.0.list());
        Ok(listed_out(py, listed.map_err(|error| corrupt(py, &error))?))
    }
}

fn listed_out(py: Python<'_>, listed: Listed) -> ListedOut<'_> {
    (
        listed.offsets.into_pyarray(py),
        listed.data.into_pyarray(py),
        listed.numbers.into_pyarray(py),
    )
}
