//! Programs and libraries around GPUDirect, from files only: where the loader finds them, and strings in them
//! that show how they were built. Nothing is run.

mod loader;
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::read;
use crate::model::{Fact, Library, Note, Program, Software};
use crate::world::{Files, World};
use loader::LibraryFile;

/// The libraries, by the names that programs load.
const LIBRARIES: [&str; 13] = [
    "libcuda.so.1",
    "libcudart.so.11.0",
    "libcudart.so.12",
    "libcudart.so.13",
    "libnccl.so.2",
    "libnccl-net.so",
    "libnvshmem_host.so.3",
    "libfabric.so.1",
    "libucp.so.0",
    "libmpi.so.40",
    "libmpi.so.12",
    "libgdrapi.so.2",
    "libdoca_gpunetio.so.2",
];

/// Strings in an ib_write_bw built for CUDA.
const PERFTEST: [&str; 2] = ["use_cuda_dmabuf", "use_cuda"];
/// NCCL's network plug-in interfaces.
const PLUGIN: [&str; 9] = [
    "ncclNetPlugin_v12",
    "ncclNetPlugin_v11",
    "ncclNetPlugin_v10",
    "ncclNetPlugin_v4",
    "ncclNetPlugin_v5",
    "ncclNetPlugin_v6",
    "ncclNetPlugin_v7",
    "ncclNetPlugin_v8",
    "ncclNetPlugin_v9",
];
/// What aws-ofi-nccl logs at its start, with its version (PACKAGE_STRING in src/nccl_ofi_net.cpp).
const AWS_OFI_NCCL: &str = r"aws-ofi-nccl [0-9]+(?:\.[0-9]+)*";
/// UCX's version in libucp (src/ucp/core/ucp_version.c.in).
const UCX_VERSION: &str = r"(?-u:\b)1\.[0-9]{1,2}\.[0-9](?-u:\b)";
/// The newest libfabric interface version searched for.
const LAST_FABRIC: u32 = 19;
/// Strings of libmpi.so.12: MVAPICH2's, MPICH's, Intel's.
const MPICH: [&str; 4] = ["MV2_USE_CUDA", "MVAPICH2", "yaksuri_cuda", "I_MPI_OFFLOAD"];
/// In Open MPI's libraries if its components are built in.
const OPEN_MPI: [&str; 2] = ["mca_accelerator_cuda_component", "mca_btl_smcuda_component"];

pub fn software(
    world: &World,
    environment: &Fact<BTreeMap<String, String>>,
    notes: &mut Vec<Note>,
) -> Software {
    let files = world.files.as_ref();
    let library_path = environment.known().and_then(|variables| variables.get("LD_LIBRARY_PATH"));
    let library_path = library_path.map_or("", String::as_str);
    let mut unread = BTreeMap::new();
    let places = loader::find(files, library_path, &LIBRARIES, &mut unread, notes);
    Software {
        unread,
        libraries: places
            .map(|places| places.into_iter().map(|place| library(files, place)).collect()),
        perftest: world.tools.locate(files, "ib_write_bw").map(|path| {
            path.map(|path| Program {
                words: words::among(files, &path, &PERFTEST),
                path: path.display().to_string(),
            })
        }),
    }
}

fn library(files: &dyn Files, place: LibraryFile) -> Library {
    let LibraryFile { name, path, found } = place;
    let file = resolved(files, &path);
    let stem = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // LD_LIBRARY_PATH may name the directory of a Python package.
    let version = loader::package_version(files, &path).or_else(|| version_in(stem, &name));
    let home = file.parent().unwrap_or(Path::new("/")).to_owned();
    let plugins = match name.as_str() {
        "libucp.so.0" => plugins(files, &[home.join("ucx")]),
        "libmpi.so.40" => plugins(files, &[home.join("openmpi"), home.join("openmpi3")]),
        _ => None,
    };
    let no_plugin = plugins.as_ref().is_none_or(Vec::is_empty);
    let words = match name.as_str() {
        "libnccl-net.so" => {
            let fabric = fabric();
            let words: Vec<&str> =
                PLUGIN.into_iter().chain(fabric.iter().map(String::as_str)).collect();
            let pattern = format!("{AWS_OFI_NCCL}|{}", words::alternatives(&words));
            words::matching(files, &file, &pattern)
        }
        "libucp.so.0" => words::matching(files, &file, UCX_VERSION),
        "libfabric.so.1" => {
            let fabric = fabric();
            let words: Vec<&str> = fabric.iter().map(String::as_str).collect();
            words::among(files, &file, &words)
        }
        "libmpi.so.12" => words::among(files, &file, &MPICH),
        // Since Open MPI 5 most components are built in.
        "libmpi.so.40" if no_plugin => {
            let inner = home.join("libopen-pal.so.80");
            match files.exists(&inner) {
                Ok(true) => words::among(files, &inner, &OPEN_MPI),
                _ => Fact::Known(Vec::new()),
            }
        }
        _ => Fact::Known(Vec::new()),
    };
    let version = match name.as_str() {
        // The file of every release is libucp.so.0.0.0.
        "libucp.so.0" if version.as_deref().is_none_or(|version| version == "0.0.0") => {
            match words.known().map(Vec::as_slice) {
                Some([only]) => Some(only.clone()),
                _ => None,
            }
        }
        _ => version,
    };
    Library { name, path: path.display().to_string(), version, found, plugins, words }
}

/// libfabric's interface versions (libfabric.map.in), longer names first.
fn fabric() -> Vec<String> {
    (0..=LAST_FABRIC).rev().map(|minor| format!("FABRIC_1.{minor}")).collect()
}

/// Follows a chain of links.
fn resolved(files: &dyn Files, path: &Path) -> PathBuf {
    const MOST: usize = 8;
    let mut at = path.to_owned();
    for _ in 0..MOST {
        let Ok(target) = files.read_link(&at) else {
            break;
        };
        at = match at.parent() {
            Some(parent) => plain(&parent.join(target)),
            None => target,
        };
    }
    at
}

/// Removes `..` from a path, for reading only.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            std::path::Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// The version in a file name such as `libnccl.so.2.18.3`.
fn version_in(file: &str, name: &str) -> Option<String> {
    let (_, version) = file.split_once(".so.")?;
    let numbers = version
        .split('.')
        .all(|part| part.bytes().all(|byte| byte.is_ascii_digit()) && !part.is_empty());
    (file != name && numbers).then(|| version.to_owned())
}

/// The plug-ins for GPUs in the first directory that exists.
fn plugins(files: &dyn Files, directories: &[PathBuf]) -> Option<Vec<String>> {
    let is_relevant = |name: &str| {
        name.ends_with(".so") && ["cuda", "gdrcopy", "_gda"].iter().any(|word| name.contains(word))
    };
    directories.iter().find_map(|directory| files.list_kept(directory, &is_relevant).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_gives_version() {
        for (file, name, version) in [
            ("libnccl.so.2.18.3", "libnccl.so.2", Some("2.18.3")),
            ("libnccl.so.2", "libnccl.so.2", None),
            ("libcuda.so.580.159.04", "libcuda.so.1", Some("580.159.04")),
            ("libnccl-net.so", "libnccl-net.so", None),
            ("libx.so.1.hash", "libx.so.1", None),
        ] {
            assert_eq!(version_in(file, name).as_deref(), version, "{file}");
        }
        assert_eq!(plain(Path::new("/a/b/../c/./d")), Path::new("/a/c/d"));
    }
}
