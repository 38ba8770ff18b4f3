//! Archives with a fixed time, owner and order of files.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

use crate::libraries::{Content, File};

/// An archive whose files lie in the directory `stem`.
pub fn write(path: &Path, stem: &str, files: &[File], time: u32) -> anyhow::Result<()> {
    let bytes = compress(&archive(&format!("{stem}/"), files, time)?)?;
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

/// One archive with packages and all that installs them without a network.
pub fn bundle(out: &Path, stem: &str, packages: &[PathBuf], time: u32) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for path in packages {
        let name = path.file_name().context("a file's name")?.display().to_string();
        files.push(File::new(name, 0o644, fs::read(path)?));
    }
    // Packages are compressed.
    let bytes = archive(&format!("{stem}/"), &files, time)?;
    Ok(fs::write(out.join(format!("{stem}.tar")), bytes)?)
}

/// A tar archive; each name begins with `prefix`.
pub fn archive(prefix: &str, files: &[File], time: u32) -> anyhow::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut directories = BTreeMap::new();
    let mut sorted = BTreeMap::new();
    for file in files {
        let path = format!("{prefix}{}", file.path);
        for (at, _) in path.match_indices('/') {
            directories.insert(path[..=at].to_owned(), ());
        }
        sorted.insert(path, &file.content);
    }
    for directory in directories.keys() {
        let mut header = header(tar::EntryType::Directory, 0o755, time);
        builder.append_data(&mut header, directory, std::io::empty())?;
    }
    for (path, content) in sorted {
        match content {
            Content::Bytes { mode, bytes } => {
                let mut header = header(tar::EntryType::Regular, *mode, time);
                header.set_size(bytes.len() as u64);
                builder.append_data(&mut header, path, bytes.as_slice())?;
            }
            Content::Link(target) => {
                let mut header = header(tar::EntryType::Symlink, 0o777, time);
                builder.append_link(&mut header, path, target)?;
            }
        }
    }
    Ok(builder.into_inner()?)
}

fn header(kind: tar::EntryType, mode: u32, time: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(time.into());
    header.set_size(0);
    // Ignored: the names fit.
    let _ = header.set_username("root").and(header.set_groupname("root"));
    header
}

/// Compresses with gzip, without a name or a time.
pub fn compress(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut encoder: GzEncoder<Vec<u8>> = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}
