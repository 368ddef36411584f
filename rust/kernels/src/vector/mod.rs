//! Vectors: distances, the search for the nearest ones, and their codes.
//!
//!     vectors ──▶ `sieve` ──▶ `distance` ──▶ `flat` ─────────────┐
//!     scalar codes ──▶ `sieve` ──▶ `byte_sums` ──▶ `scalar` ─────┼──▶ `search` ──▶ `top`
//!     product codes ──▶ `product` ───────────────────────────────┘       the k nearest rows
//!
//! Loops are written for lanes of 16 values, which the compiler turns into vector instructions,
//! and are compiled twice: for the oldest processor, and for one with AVX2 where the running one
//! has it (`pulp`). Both add the same values in the same order, so that distances do not depend on
//! the machine; fused multiplications, which would round otherwise, are not used. Only the
//! assignment of vectors to `centroids` and walks over graphs of float32 use them.

pub mod allowed;
pub mod bounds;
pub mod byte_sums;
pub mod centroids;
pub mod clusters;
pub mod distance;
pub mod element;
pub mod flat;
pub mod halves;
pub mod hnsw;
pub mod near;
pub mod nibble_sums;
pub mod product;
pub mod product_filter;
pub mod product_scan;
pub mod product_tables;
pub mod product_thinning;
pub mod rabitq;
pub mod rounded;
pub mod scalar;
pub mod search;
pub mod sieve;
pub mod threads;
pub mod top;

/// How many sums a loop keeps.
pub const LANES: usize = 16;
