//! How is a call run? In blocks of rows over threads, a tile at a time, in working space that threads keep.
//!
//! A call is a [`TileWork`]; nothing here knows what it computes.

mod memory;
mod planes;
#[cfg(feature = "rayon")]
mod pool;
mod process;
mod scratch;
mod thread_count;
mod threads;
mod tiles;

#[allow(unused_imports, reason = "py asks for it")]
pub(crate) use memory::Zero;
pub(crate) use memory::{push, reserve, zeroed};
pub(crate) use planes::Planes;
pub(crate) use scratch::{Scratch, list_bytes, with_scratch};
pub use thread_count::{available_threads, default_threads, set_default_threads};
pub use threads::Plan;
pub(crate) use threads::{Size, fill, map_blocks, map_only, map_parts};
pub(crate) use tiles::{Reads, TileWork, fill_tiles, for_tiles};
