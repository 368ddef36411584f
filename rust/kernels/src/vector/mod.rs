//! Nearest vectors: kernels of vector indices.

pub mod hnsw;
