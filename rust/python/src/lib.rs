//! The Python bindings of `pilum-kernels`: numpy views in, numpy arrays that own their memory out.
//!
//! Every function checks its arguments, releases the GIL, calls one kernel and hands back the
//! result. Decoders report damage as `pilum.errors.CorruptFileError`; encoders raise `ValueError`
//! for input that cannot be encoded.

mod analysis;
mod arrays;
mod blooms;
mod chunking;
mod coalesce;
mod conditions;
mod decoding;
mod encoding;
mod hnsw;
mod inverted;
mod json;
mod key_order;
mod key_rows;
mod min_hash;
mod packed;
mod page_reads;
mod pages20;
mod picking;
mod plain_rows;
mod plans;
mod posting_lists;
mod rabitq;
mod records;
mod row_marks;
mod row_sets;
mod vectors;
mod zipped_rows;
mod zone_bounds;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pymodule(gil_used = false)]
mod _kernels {
    #[pymodule_export]
    use crate::analysis::{TextAnalyzer, TokenDictionary, TokenSet};
    #[pymodule_export]
    use crate::blooms::{bloom_filters, bloom_matches, hash_fixed, hash_strings};
    #[pymodule_export]
    use crate::chunking::{Coding, MiniBlockWriter, PageValues};
    #[pymodule_export]
    use crate::coalesce::{bytes_within, lay_out_ranges};
    #[pymodule_export]
    use crate::conditions::{Condition, kept_bits, kept_values, places_of_bits};
    #[pymodule_export]
    use crate::decoding::{
        FullZip, decode_block, decompress, look_up_strings, look_up_views, look_up_words, unravel,
        views_of_strings,
    };
    #[pymodule_export]
    use crate::encoding::{
        FullZipWriter, compress, compress_fsst, compress_zstd, count_runs, distinct_strings,
        distinct_words, encode_levels, fixed_costs, fixed_costs_each, most_entries, pack_block,
        ravel, sample_strings, sample_words, sample_words_each, shown_offsets, zero_nulls,
    };
    #[pymodule_export]
    use crate::hnsw::{HnswBuilder, HnswGraph, HnswVectors, nearest_hnsw};
    #[pymodule_export]
    use crate::inverted::{Clause, DocumentSet, Norms, Posting, bm25_idf, bm25_norms};
    #[pymodule_export]
    use crate::json::{
        decode_json, encode_json, json_array_contains, json_array_lengths, json_select, json_values,
    };
    #[pymodule_export]
    use crate::key_order::{equal_pairs, equal_rows, places_of_strings, sort_pairs, stable_order};
    #[pymodule_export]
    use crate::key_rows::{NumberRows, StringRows, TrigramPostings, trigrams_of};
    #[pymodule_export]
    use crate::min_hash::{MinHasher, band_keys, equal_values};
    #[pymodule_export]
    use crate::packed::{join_rows, split_rows};
    #[pymodule_export]
    use crate::page_reads::{ChunkTable, MiniBlock, PageReads};
    #[pymodule_export]
    use crate::pages20::{
        adjusted_entries, decompress_fsst, gather_bits, gather_bytes, text_ends, unpack_linear,
    };
    #[pymodule_export]
    use crate::picking::PickedSlots;
    #[pymodule_export]
    use crate::plain_rows::{gather_rows, plain_offsets};
    #[pymodule_export]
    use crate::plans::{Block, Plan};
    #[pymodule_export]
    use crate::posting_lists::{Entries, GrowingLists, PostingLayout};
    #[pymodule_export]
    use crate::rabitq::{RabitqCodes, pack_sign_codes, rotate_vectors, unpack_sign_codes};
    #[pymodule_export]
    use crate::records::RecordDescription;
    #[pymodule_export]
    use crate::row_marks::RowMarks;
    #[pymodule_export]
    use crate::row_sets::{
        RowBitmap, intersect_rows, pack_row_maps, pack_row_sets, unite_grouped_row_maps,
        unite_row_maps, unpack_row_maps, unpack_row_sets,
    };
    #[pymodule_export]
    use crate::vectors::{
        ProductCodebook, VectorSieve, cluster_sums, distances, encode_scalar_codes,
        nearest_centroids, nearest_flat, nearest_scalar_codes,
    };
    #[pymodule_export]
    use crate::zipped_rows::RowIndex;
    #[pymodule_export]
    use crate::zone_bounds::zone_bounds;
}
