//! Writes and reads JSON that no person reads. A type has code of its own for each kind of writer and reader, so all of gdr
//! writes to `dyn Write`, and reads slices of bytes.

use std::io::Write;

use serde::Serialize;
use serde::ser::Error as _;
use serde_json::{Result, Value};

/// The value as JSON on one line.
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    let mut text = Vec::new();
    serde_json::to_writer(&mut text as &mut dyn Write, value)?;
    String::from_utf8(text).map_err(serde_json::Error::custom)
}

/// The value as a tree.
pub fn to_tree<T: Serialize + ?Sized>(value: &T) -> Result<Value> {
    serde_json::from_slice(to_json(value)?.as_bytes())
}
