//! Scores of BM25, with k1 = 1.2 and b = 0.75, all in 32-bit floats.
//!
//!     idf    = ln((N - df + 0.5) / (df + 0.5) + 1)
//!     norm   = k1 * (1 - b + b * length / average)
//!     score  = idf * ((k1 + 1) * f / (f + norm))
//!
//! The order of operations is part of the format: scores are compared bit by bit.

const K1: f32 = 1.2;
const B: f32 = 0.75;

/// No weight is greater.
pub const MOST_WEIGHT: f32 = K1 + 1.0;

/// The weight of a token that `documents_with_it` of `documents` contain.
pub fn idf(documents: f32, documents_with_it: f32) -> f32 {
    ((documents - documents_with_it + 0.5) / (documents_with_it + 0.5) + 1.0).ln()
}

/// The average length of documents.
pub fn average(num_tokens: u64, num_documents: u64) -> f32 {
    float(num_tokens) / float(num_documents)
}

/// What the length of a document adds to the denominator.
#[inline]
pub fn norm(length: f32, average: f32) -> f32 {
    K1 * (1.0 - B + B * length / average)
}

/// The part of a score that depends on the document.
#[inline]
pub fn weight(frequency: f32, norm: f32) -> f32 {
    MOST_WEIGHT * frequency / (frequency + norm)
}

/// The nearest 32-bit float.
#[inline]
#[allow(clippy::cast_precision_loss)]
pub fn float(number: u64) -> f32 {
    number as f32
}

/// The nearest 32-bit float of a small number.
#[inline]
#[allow(clippy::cast_precision_loss)]
pub fn float32(number: u32) -> f32 {
    number as f32
}
