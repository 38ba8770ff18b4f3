//! Files that describe a machine: read whole, within limits, compressed or not.

use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{anyhow, bail};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::Deserialize;

use crate::input::{self, Lookahead, json_error};
use crate::model::{SNAPSHOT_SCHEMA, Snapshot};
use crate::output;

/// The largest document: the hexadecimal dump of five thousand functions.
const MOST: u64 = 64 << 20;

/// The largest snapshot: a machine of 8192 functions takes half of it. What a hostile one of this size holds still fits
/// into 256 MiB.
const MOST_SNAPSHOT: usize = 8 << 20;

/// Gives the content of a file, or of standard input for '-', decompressed, to `read`.
pub fn open<T>(
    file: &Path,
    read: impl FnOnce(&mut Lookahead<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut file: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(input::open(file)?),
    };
    let mut packed = Lookahead::new(file.as_mut());
    let mut content = input::unpacked(&mut packed)?;
    read(&mut Lookahead::new(content.as_mut()))
}

/// All of a document. Reads step by step: a buffer that doubles could be twice as large as what is in it.
pub fn whole(reader: &mut impl Read) -> anyhow::Result<Vec<u8>> {
    const STEP: u64 = 4 << 20;
    let mut bytes = Vec::new();
    loop {
        bytes.reserve_exact(STEP as usize);
        let count = reader.take(STEP).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MOST {
            bail!(
                "it is larger than {} MiB, which no machine's description is",
                MOST >> 20
            );
        }
        if count == 0 {
            return Ok(bytes);
        }
    }
}

/// The text of a snapshot, where it can be read again.
pub fn text(snapshot: &Snapshot) -> anyhow::Result<Vec<u8>> {
    let mut text = Limited(Vec::new());
    match output::write_compact(&mut text, snapshot) {
        Ok(()) => Ok(text.0),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => bail!(
            "this machine's snapshot would have more than {} MiB, which is all that gdr reads",
            MOST_SNAPSHOT >> 20
        ),
        Err(error) => Err(error.into()),
    }
}

/// Holds no more than a snapshot may have.
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_SNAPSHOT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn compress(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// The snapshot in a document; none where the document is something else than a JSON object.
pub fn snapshot(bytes: &[u8]) -> anyhow::Result<Option<Snapshot>> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Ok(None);
    }
    if bytes.len() > MOST_SNAPSHOT {
        bail!(
            "it is JSON of more than {} MiB, which no snapshot is",
            MOST_SNAPSHOT >> 20
        );
    }
    let head: Head = serde_json::from_slice(bytes).map_err(|error| {
        anyhow!(
            "it begins as JSON and cannot be read: {}",
            json_error(&error)
        )
    })?;
    match head.schema.as_deref() {
        Some(SNAPSHOT_SCHEMA) => Ok(Some(serde_json::from_slice(bytes).map_err(|error| {
            anyhow!(
                "it says {SNAPSHOT_SCHEMA} and is none: {}",
                json_error(&error)
            )
        })?)),
        Some(other) if other.starts_with("gdr.snapshot/") => {
            let other = other
                .strip_prefix("gdr.snapshot/")
                .and_then(|version| version.parse::<u32>().ok());
            let other = other.map_or_else(
                || "another".to_owned(),
                |version| format!("gdr.snapshot/{version}"),
            );
            bail!(
                "its schema is {other}; this gdr reads {SNAPSHOT_SCHEMA}: use the gdr that took it, or a newer one"
            )
        }
        Some(_) => bail!(
            "its schema is not {SNAPSHOT_SCHEMA}; take a snapshot with 'gdr snapshot -o FILE'"
        ),
        None => {
            bail!("it is JSON that names no schema; take a snapshot with 'gdr snapshot -o FILE'")
        }
    }
}
