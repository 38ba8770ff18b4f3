//! Which file the library came from: the dynamic loader's search is not repeated, its result is
//! read.

use std::path::{Path, PathBuf};

/// The file mapped for the requested path, or for the default name.
pub(super) fn library(requested: Option<&Path>) -> Option<PathBuf> {
    // This process's own mappings, never the machine's facts: they are the same under every root.
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let real = requested.and_then(|path| path.canonicalize().ok());
    find(&maps, real.as_deref())
}

/// `real` if it is mapped, else the first file whose name starts with `libnvidia-ml.so`.
fn find(maps: &str, real: Option<&Path>) -> Option<PathBuf> {
    let files = || maps.lines().filter_map(file);
    files()
        .find(|path| real == Some(*path))
        .or_else(|| files().find(|path| is_nvml(path)))
        .map(Path::to_path_buf)
}

/// The path is everything from the first slash; the fields before it contain none.
fn file(line: &str) -> Option<&Path> {
    line.find('/')
        .and_then(|start| line.get(start..))
        .map(|path| Path::new(path.trim_end_matches(" (deleted)")))
}

fn is_nvml(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvidia-ml.so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0000000-55d0c0001000 r--p 00000000 fe:01 131 /usr/bin/gdr
7f1000000000-7f1000010000 r--p 00000000 fe:01 777 /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.159.04
7f2000000000-7f2000010000 r--p 00000000 fe:01 778 /tmp/a folder/other.so
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
";

    #[test]
    fn finds_library_by_name_or_path() {
        let driver = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.159.04";
        assert_eq!(find(MAPS, None), Some(PathBuf::from(driver)));
        let other = Path::new("/tmp/a folder/other.so");
        assert_eq!(find(MAPS, Some(other)), Some(other.to_path_buf()));
        assert_eq!(find("", None), None);
    }
}
