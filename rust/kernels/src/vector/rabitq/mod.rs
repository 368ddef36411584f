//! RaBitQ: the signs of rotated residuals, and further bits of their sizes.
//!
//!     rotated residual   y = R (v - c)      signs           bit i = 1 if y_i is not negative
//!                                           further bits    u_i = floor(t |y_i| / |y|), t per row
//!
//! A row takes D/8 bytes of signs, and `bits - 1` further bits for each component.

pub mod blocks;
pub mod codes;
pub mod nearest;
pub mod packing;
pub mod rotation;
pub mod search;
pub mod tables;
