//! Finds libraries like the dynamic loader (LD_LIBRARY_PATH, cache, default directories), and those that
//! Python packages load by path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::read;
use crate::model::{Fact, Found, Note, Why};
use crate::world::{Files, MOST};

const CACHE: &str = "/etc/ld.so.cache";
/// Limits of LD_LIBRARY_PATH's directories and of the cache.
const MAX_DIRECTORIES: usize = 256;
const MAX_CACHED: usize = 1_024;

/// Default directories on the architectures that NVIDIA supports.
const OWN: [&str; 4] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// Where the packages of DOCA have a library, which the loader need not find there.
const DOCA: (&str, [&str; 3]) = (
    "libdoca_gpunetio.so.2",
    [
        "/opt/mellanox/doca/lib/x86_64-linux-gnu",
        "/opt/mellanox/doca/lib/aarch64-linux-gnu",
        "/opt/mellanox/doca/lib64",
    ],
);

/// System-wide Python packages.
const PYTHON: [&str; 4] = ["/usr/local/lib", "/usr/lib", "/opt/conda/lib", "/opt/venv/lib"];

/// Libraries in Python packages: name, path in the package, prefix of the package's name.
const BROUGHT: [(&str, &str, &str); 3] = [
    ("libnccl.so.2", "nvidia/nccl/lib", "nvidia_nccl_cu"),
    ("libnvshmem_host.so.3", "nvidia/nvshmem/lib", "nvidia_nvshmem_cu"),
    // github.com/rapidsai/ucx-wheels
    ("libucp.so.0", "libucx/lib", "libucx_cu"),
];

pub struct LibraryFile {
    pub name: String,
    pub path: PathBuf,
    pub found: Found,
}

/// The paths of these libraries, in the loader's order. `unread` gets those that may also be in a directory of a package that
/// cannot be read.
pub fn find(
    files: &dyn Files,
    library_path: &str,
    names: &[&str],
    unread: &mut BTreeMap<String, Why>,
    notes: &mut Vec<Note>,
) -> Fact<Vec<LibraryFile>> {
    let mut places = Vec::new();
    let listed = |directory: &str, found: Found, places: &mut Vec<LibraryFile>| {
        let there = match files.list_kept(Path::new(directory), &|name| names.contains(&name)) {
            Ok(names) => names,
            Err(error) if error.is_absent() => Vec::new(),
            Err(error) => return Fact::Unknown(error.why()),
        };
        places.extend(there.into_iter().map(|name| LibraryFile {
            path: Path::new(directory).join(&name),
            name,
            found,
        }));
        Fact::Known(())
    };
    let directories = library_path.split(':').filter(|directory| directory.starts_with('/'));
    for directory in directories.take(MAX_DIRECTORIES) {
        if let Fact::Unknown(why) = listed(directory, Found::LibraryPath, &mut places) {
            return Fact::Unknown(why);
        }
    }
    match cache(files, names, notes) {
        Fact::Known(Some(cached)) => {
            let new = |(name, path): (String, String)| LibraryFile {
                name,
                path: PathBuf::from(path),
                found: Found::Cache,
            };
            places.extend(cached.into_iter().map(new));
        }
        Fact::Known(None) => {
            for directory in OWN {
                if let Fact::Unknown(why) = listed(directory, Found::Directory, &mut places) {
                    return Fact::Unknown(why);
                }
            }
        }
        Fact::Unknown(why) => return Fact::Unknown(why),
    }
    let (name, directories) = DOCA;
    for path in directories.map(|directory| Path::new(directory).join(name)) {
        add_if_there(files, name, path, Found::Unlisted, &mut places, unread);
    }
    in_packages(files, &mut places, unread);
    let mut seen = std::collections::BTreeSet::new();
    places.retain(|place| seen.insert(place.path.clone()));
    Fact::Known(places)
}

/// The loader cache's entries for these names; `None` without a cache.
fn cache(
    files: &dyn Files,
    names: &[&str],
    notes: &mut Vec<Note>,
) -> Fact<Option<Vec<(String, String)>>> {
    let keep = |bytes: Vec<u8>| match parse(&bytes, names) {
        Some(lines) => lines.into_bytes(),
        // Already reduced, or not a cache.
        None => kept_before(&bytes, names).into_bytes(),
    };
    match files.reduced(Path::new(CACHE), MOST, &keep) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let line = |line: &str| {
                let (name, path) = line.split_once(' ')?;
                (names.contains(&name) && path.starts_with('/'))
                    .then(|| (name.to_owned(), path.to_owned()))
            };
            Fact::Known(Some(text.lines().filter_map(line).take(MAX_CACHED).collect()))
        }
        Err(error) if error.is_absent() => read::absent(files, CACHE),
        Err(error) => read::unread(notes, &error),
    }
}

fn kept_before(bytes: &[u8], names: &[&str]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let is_relevant = |line: &&str| {
        line.split_once(' ')
            .is_some_and(|(name, path)| names.contains(&name) && path.starts_with('/'))
    };
    text.lines().filter(is_relevant).map(|line| format!("{line}\n")).collect()
}

/// Parses glibc's cache (`glibc-ld.so.cache1.1`, sysdeps/generic/dl-cache.h): a header of 48 bytes, entries
/// of 24 bytes with offsets of name and path from the header, strings. An older header may precede it.
fn parse(bytes: &[u8], names: &[&str]) -> Option<String> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER: usize = 48;
    const ENTRY: usize = 24;
    const MAX_ENTRIES: usize = 1 << 17;
    let start = if bytes.starts_with(MAGIC) {
        0
    } else if bytes.starts_with(b"ld.so-1.7.0") {
        bytes.windows(MAGIC.len()).position(|part| part == MAGIC)?
    } else {
        return None;
    };
    let cache = bytes.get(start..)?;
    let number = |at: usize| -> Option<u32> {
        let four: [u8; 4] = cache.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(u32::from_ne_bytes(four))
    };
    let text = |at: usize| -> Option<&str> {
        let rest = cache.get(at..)?;
        let end = rest.iter().take(4096).position(|byte| *byte == 0)?;
        std::str::from_utf8(rest.get(..end)?).ok()
    };
    let count = usize::try_from(number(20)?).ok()?.min(MAX_ENTRIES);
    let mut lines = String::new();
    for entry in 0..count {
        let at = HEADER + entry * ENTRY;
        let (Some(flags), Some(name), Some(path)) = (number(at), number(at + 4), number(at + 8))
        else {
            break;
        };
        // 32-bit libraries have no further flag, or that of x32.
        if matches!(flags & 0xff00, 0 | 0x0800) {
            continue;
        }
        let (Some(name), Some(path)) = (text(name as usize), text(path as usize)) else {
            continue;
        };
        if names.contains(&name) && !path.contains('\n') {
            lines.push_str(&format!("{name} {path}\n"));
        }
    }
    Some(lines)
}

fn in_packages(
    files: &dyn Files,
    places: &mut Vec<LibraryFile>,
    unread: &mut BTreeMap<String, Why>,
) {
    let is_python = |name: &str| name.strip_prefix("python3").is_some_and(|rest| rest.len() <= 3);
    for home in PYTHON {
        let versions = match files.list_kept(Path::new(home), &is_python) {
            Ok(versions) => versions,
            Err(error) if error.is_absent() => continue,
            Err(error) => {
                unread.extend(BROUGHT.map(|(name, ..)| (name.to_owned(), error.why())));
                continue;
            }
        };
        for version in versions.iter().take(8) {
            for packages in ["site-packages", "dist-packages"] {
                let packages = Path::new(home).join(version).join(packages);
                for (name, directory, _) in BROUGHT {
                    let path = packages.join(directory).join(name);
                    add_if_there(files, name, path, Found::PythonPackage, places, unread);
                }
            }
        }
    }
}

fn add_if_there(
    files: &dyn Files,
    name: &str,
    path: PathBuf,
    found: Found,
    places: &mut Vec<LibraryFile>,
    unread: &mut BTreeMap<String, Why>,
) {
    match files.exists(&path) {
        Ok(true) => places.push(LibraryFile { name: name.to_owned(), path, found }),
        Ok(false) => {}
        Err(error) => {
            unread.insert(name.to_owned(), error.why());
        }
    }
}

/// The version of the library's package, from `nvidia_nccl_cu12-2.21.5.dist-info` beside it.
pub fn package_version(files: &dyn Files, library: &Path) -> Option<String> {
    let (packages, package) = BROUGHT.iter().find_map(|(name, directory, package)| {
        let ends = Path::new(directory).join(name);
        let above = library.ancestors().nth(ends.components().count())?;
        library.ends_with(&ends).then_some((above, package))
    })?;
    let names = files
        .list_kept(packages, &|name| name.starts_with(package) && name.ends_with(".dist-info"));
    let name = names.ok()?.into_iter().next_back()?;
    let (_, version) = name.strip_suffix(".dist-info")?.split_once('-')?;
    Some(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hand-written cache (dl-cache.h).
    fn cache_of(entries: &[(u32, &str, &str)]) -> Vec<u8> {
        let strings = 48 + 24 * entries.len();
        let (mut head, mut table, mut text) =
            (b"glibc-ld.so.cache1.1".to_vec(), Vec::new(), Vec::new());
        for (flags, name, path) in entries {
            let mut put = |word: &str| {
                let at = (strings + text.len()) as u32;
                text.extend_from_slice(word.as_bytes());
                text.push(0);
                at
            };
            let (name, path) = (put(name), put(path));
            for number in [*flags, name, path, 0, 0, 0] {
                table.extend_from_slice(&number.to_ne_bytes());
            }
        }
        head.extend_from_slice(&(entries.len() as u32).to_ne_bytes());
        head.extend_from_slice(&(text.len() as u32).to_ne_bytes());
        head.resize(48, 0);
        [head, table, text].concat()
    }

    #[test]
    fn reads_cache_and_reduces_it_idempotently() {
        let names = ["libcuda.so.1", "libnccl.so.2"];
        let bytes = cache_of(&[
            (0x0303, "libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"),
            (0x0003, "libcuda.so.1", "/usr/lib/i386-linux-gnu/libcuda.so.1"),
            (0x0303, "libz.so.1", "/usr/lib/x86_64-linux-gnu/libz.so.1"),
        ]);
        let lines = parse(&bytes, &names).expect("a cache");
        assert_eq!(lines, "libcuda.so.1 /usr/lib/x86_64-linux-gnu/libcuda.so.1\n");
        assert_eq!(parse(lines.as_bytes(), &names), None);
        assert_eq!(kept_before(lines.as_bytes(), &names), lines);
        assert_eq!(kept_before(b"something else\n", &names), "");
        let mut old = b"ld.so-1.7.0\0\0\0\0\0".to_vec();
        old.extend_from_slice(&bytes);
        assert_eq!(parse(&old, &names), Some(lines));
    }

    #[test]
    fn invalid_cache_does_not_panic() {
        let bytes = cache_of(&[(0x0303, "libcuda.so.1", "/x")]);
        for end in 0..bytes.len() {
            parse(&bytes[..end], &["libcuda.so.1"]);
        }
        let mut wild = bytes.clone();
        wild[20..24].fill(0xff);
        wild[52..60].fill(0xff);
        assert_eq!(parse(&wild, &["libcuda.so.1"]), Some(String::new()));
    }
}
