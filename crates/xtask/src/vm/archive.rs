//! Writes initramfs archives ("newc" cpio) without root and without the cpio program.
//!
//! The kernel unpacks concatenated archives, so a run appends its files to the cached image.
//! Format: Documentation/driver-api/early-userspace/buffer-format.rst in the kernel.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

/// An archive being written; paths are relative to the guest's root, and parents are created as needed.
pub struct Archive<W: Write> {
    out: W,
    inode: u32,
    present: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    pub fn new(out: W) -> Self {
        Self { out, inode: 0, present: BTreeSet::new() }
    }

    /// Adds a file with this content.
    pub fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        self.entry(path, FILE | mode, bytes)
    }

    pub fn symlink(&mut self, path: &str, target: &str) -> Result<()> {
        self.entry(path, SYMLINK | 0o777, target.as_bytes())
    }

    pub fn directory(&mut self, path: &str) -> Result<()> {
        self.entry(path, DIRECTORY | 0o755, &[])
    }

    /// Adds a copy of a host file or link with its permissions.
    pub fn copy(&mut self, path: &str, from: &Path) -> Result<()> {
        let what = || format!("cannot read {} for the guest", from.display());
        let meta = fs::symlink_metadata(from).with_context(what)?;
        if meta.is_symlink() {
            let target = fs::read_link(from).with_context(what)?;
            return self.symlink(path, &target.to_string_lossy());
        }
        let bytes = fs::read(from).with_context(what)?;
        self.file(path, meta.permissions().mode() & 0o777, &bytes)
    }

    /// True if this path was added.
    pub fn has(&self, path: &str) -> bool {
        self.present.contains(path)
    }

    /// Writes the trailer and returns the writer.
    pub fn finish(mut self) -> Result<W> {
        self.record("TRAILER!!!", 0, &[])?;
        self.out.flush().context("cannot write the archive")?;
        Ok(self.out)
    }

    fn entry(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        ensure!(
            !path.starts_with('/') && !path.is_empty(),
            "{path:?} is not a path relative to the guest's root"
        );
        for (at, _) in path.match_indices('/') {
            let parent = &path[..at];
            if self.present.insert(parent.to_owned()) {
                self.record(parent, DIRECTORY | 0o755, &[])?;
            }
        }
        // The kernel keeps the first of two equal directories, but the last of two equal files.
        if !self.present.insert(path.to_owned()) && mode & DIRECTORY != 0 && mode & FILE == 0 {
            return Ok(());
        }
        self.record(path, mode, bytes)
    }

    fn record(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        self.inode += 1;
        let size = u32::try_from(bytes.len())
            .with_context(|| format!("{path} is too large for an initramfs"))?;
        let name = u32::try_from(path.len() + 1)?;
        let links = 1;
        let fields = [self.inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name, 0];
        let mut header = String::from("070701");
        for field in fields {
            header.push_str(&format!("{field:08x}"));
        }
        let mut record = header.into_bytes();
        record.extend_from_slice(path.as_bytes());
        record.push(0);
        pad(&mut record);
        record.extend_from_slice(bytes);
        pad(&mut record);
        self.out.write_all(&record).with_context(|| format!("cannot write {path} into the archive"))
    }
}

/// Names and contents are padded to multiples of four.
fn pad(record: &mut Vec<u8>) {
    record.resize(record.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::Archive;

    #[test]
    fn parents_precede_files_once() {
        let mut archive = Archive::new(Vec::new());
        archive.file("a/b/c", 0o644, b"xyz").unwrap();
        archive.file("a/b/d", 0o644, b"").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let at = |name: &str| text.match_indices(name).map(|(at, _)| at).collect::<Vec<_>>();
        assert_eq!(at("a\0").len(), 1);
        assert_eq!(at("a/b\0").len(), 1);
        assert!(at("a/b\0")[0] < at("a/b/c\0")[0]);
        assert_eq!(text.matches("070701").count(), 5);
    }
}
