//! Loops over the values of Lance pages: pure functions from buffers to buffers.
//! The kernels contain no policy. Python chooses encodings and the chunks to read; one kernel call
//! then processes the chunks of a page. Every length is checked before it is used, and bytes that
//! contradict the format cause an [`error::Corrupt`], never a panic.

pub mod adjusted;
pub mod analysis;
pub mod bitmap;
pub mod bitpacking;
pub mod block;
pub mod bloom;
pub mod byte_stream_split;
pub mod chunks;
pub mod coalesce;
pub mod compression;
pub mod dictionary;
pub mod distinct;
pub mod error;
pub mod even_keys;
pub mod fsst;
pub mod full_zip;
pub mod inverted;
pub mod joined_pages;
pub mod json_path;
pub mod json_select;
pub mod jsonb;
pub mod kept;
pub mod key_rows;
pub mod levels;
pub mod linear;
pub mod list_offsets;
pub mod mask;
pub mod min_hash;
pub mod mini_block;
pub mod mini_block_writer;
pub mod offsets;
pub mod order;
pub mod packed;
pub mod ranges;
pub mod ravel;
pub mod record_description;
pub mod rle;
pub mod row_maps;
pub mod row_marks;
pub mod row_run;
pub mod row_set_writer;
pub mod slots;
pub mod statistics;
pub mod tagged_records;
pub mod tagged_values;
pub mod text_ends;
pub mod token_set;
pub mod trigrams;
pub mod unravel;
pub mod values;
pub mod vector;
pub mod word_table;
pub mod zone_bounds;
