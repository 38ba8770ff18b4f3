//! Reads the file of `--mask-key`.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;

use crate::input;
use crate::model::MaskKey;

/// More bytes than a key may have.
const MOST: u64 = 1 << 16;

pub fn read(file: Option<&Path>) -> anyhow::Result<Option<MaskKey>> {
    let Some(file) = file else { return Ok(None) };
    let unusable = || format!("--mask-key {}", file.display());
    let mut content = Vec::new();
    input::open(file)
        .with_context(unusable)?
        .take(MOST)
        .read_to_end(&mut content)
        .with_context(unusable)?;
    Ok(Some(MaskKey::new(&content).with_context(unusable)?))
}
