//! The report of a fleet in its formats. JSON is the report itself.

mod table;

pub use table::table;
