//! Reads and writes files that describe a machine: whole, within limits, compressed or not.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::Deserialize;
use tempfile::NamedTempFile;

use crate::import;
use crate::input::{self, Lookahead, json_error};
use crate::model::{SNAPSHOT_SCHEMA, Snapshot};
use crate::output;

/// Maximum size of a document: the hexadecimal dump of 5000 functions.
const MAX_BYTES: u64 = 64 << 20;

/// Maximum size of a snapshot: one of 8192 functions takes half of it. A hostile one of this size still fits into 256
/// MiB of memory.
const MAX_SNAPSHOT_BYTES: usize = 8 << 20;

/// Opens a file, or standard input for '-', and passes its decompressed content to `read`.
pub fn open<T>(
    file: &Path,
    read: impl FnOnce(&mut Lookahead<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut file: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(input::open(file)?)
    };
    input::unpacked(file.as_mut(), read)
}

/// Reads a whole document in steps: a buffer that doubles could be twice as large as its content.
pub fn whole(reader: &mut impl Read) -> anyhow::Result<Vec<u8>> {
    const STEP: u64 = 4 << 20;
    let mut bytes = Vec::new();
    loop {
        bytes.reserve_exact(STEP as usize);
        let count = reader.take(STEP).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES {
            bail!("the file is larger than {} MiB", MAX_BYTES >> 20);
        }
        if count == 0 {
            return Ok(bytes);
        }
    }
}

/// Serializes a snapshot; fails if gdr could not read it again.
pub fn text(snapshot: &Snapshot) -> anyhow::Result<Vec<u8>> {
    let mut text = Limited(Vec::new());
    match output::write_compact(&mut text, snapshot) {
        Ok(()) => Ok(text.0),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => bail!(
            "the snapshot of this machine would exceed {} MiB, the most that gdr reads",
            MAX_SNAPSHOT_BYTES >> 20
        ),
        Err(error) => Err(error.into()),
    }
}

/// A buffer limited to the maximum size of a snapshot.
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_SNAPSHOT_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// Parses a snapshot; none if the document is not a JSON object.
pub fn snapshot(bytes: &[u8]) -> anyhow::Result<Option<Snapshot>> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    // `{noformat}` of Jira begins another text.
    let Some(inner) = bytes.trim_ascii_start().strip_prefix(b"{") else {
        return Ok(None);
    };
    if inner.trim_ascii_start().first().is_some_and(u8::is_ascii_alphabetic) {
        return Ok(None);
    }
    if bytes.len() > MAX_SNAPSHOT_BYTES {
        bail!(
            "the JSON is larger than {} MiB, the maximum of a snapshot",
            MAX_SNAPSHOT_BYTES >> 20
        );
    }
    let head: Head = match serde_json::from_slice(bytes) {
        Ok(head) => head,
        // Of another program, and cut or one of several documents; a snapshot is whole.
        Err(_) if !is_snapshots(bytes) && import::shows_something(bytes) => return Ok(None),
        Err(error) => bail!("cannot parse JSON: {}", json_error(&error)),
    };
    match head.schema.as_deref() {
        Some(SNAPSHOT_SCHEMA) => Ok(Some(
            serde_json::from_slice(bytes)
                .map_err(|error| anyhow!("invalid {SNAPSHOT_SCHEMA}: {}", json_error(&error)))?,
        )),
        Some(other) if other.starts_with("gdr.snapshot/") => {
            let version =
                other.strip_prefix("gdr.snapshot/").and_then(|version| version.parse::<u32>().ok());
            let other = version
                .map_or_else(|| "another".to_owned(), |version| format!("gdr.snapshot/{version}"));
            bail!(
                "the schema is {other}, but this gdr reads {SNAPSHOT_SCHEMA}: use the gdr that took it, or a newer one"
            )
        }
        Some(_) => bail!(
            "the schema is not {SNAPSHOT_SCHEMA}; take a snapshot with 'gdr snapshot -o FILE'"
        ),
        // Of a program whose JSON gdr reads as a text.
        None if import::shows_something(bytes) => Ok(None),
        None => {
            bail!("the JSON has no schema; take a snapshot with 'gdr snapshot -o FILE'")
        }
    }
}

/// True for what begins as a snapshot.
fn is_snapshots(bytes: &[u8]) -> bool {
    const START: usize = 256;
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(START)]);
    start.contains("gdr.snapshot/")
}

/// Writes a document atomically, through a temporary file, and returns its size in bytes. A new file is readable by its
/// owner only, unless it is `public`.
pub fn write(
    output: &Path,
    text: &[u8],
    public: bool,
    out: &mut dyn Write,
) -> anyhow::Result<usize> {
    if output == Path::new("-") {
        out.write_all(text)?;
        out.flush()?;
        return Ok(text.len());
    }
    let bytes = if output.extension().is_some_and(|extension| extension == "zst") {
        compress(text)
    } else {
        text.to_vec()
    };
    let place = OutputFile::of(output);
    if !place.is_replaced() {
        // A pipe or a device cannot be replaced.
        fs::write(&place.target, &bytes)?;
        return Ok(bytes.len());
    }
    let mut temporary = place.temporary()?;
    temporary.write_all(&bytes)?;
    let permissions = match place.existing {
        Some(file) => file.permissions(),
        None => Permissions::from_mode(if public { 0o644 } else { 0o600 }),
    };
    temporary.as_file().set_permissions(permissions)?;
    temporary.persist(&place.target).map_err(|error| error.error)?;
    Ok(bytes.len())
}

/// Fails if [`write`] would fail because of the file's name, its directory or the right to write there.
pub fn check_writable(output: &Path) -> io::Result<()> {
    let place = OutputFile::of(output);
    if output == Path::new("-") {
        return Ok(());
    }
    match &place.existing {
        Some(file) if file.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // Opening a pipe waits for its reader.
        Some(file) if !file.is_file() => Ok(()),
        _ => place.temporary().map(drop),
    }
}

/// Where a document goes.
struct OutputFile {
    /// The target of a symbolic link.
    target: PathBuf,
    existing: Option<fs::Metadata>,
}

impl OutputFile {
    fn of(output: &Path) -> Self {
        let target = fs::canonicalize(output).unwrap_or_else(|_| output.to_owned());
        Self { existing: fs::metadata(&target).ok(), target }
    }

    fn is_replaced(&self) -> bool {
        self.existing.as_ref().is_none_or(fs::Metadata::is_file)
    }

    /// The file that replaces the target when it is complete.
    fn temporary(&self) -> io::Result<NamedTempFile> {
        let directory = match self.target.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            _ => Path::new("."),
        };
        tempfile::Builder::new().prefix(".gdr-").tempfile_in(directory)
    }
}
