//! Which MPI library a launcher belongs to: the one installed beside it, else the one that the loader finds. Reads /proc; opens no
//! library.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Family of an implementation: its launchers, and the names of its library.
struct Family {
    launchers: &'static [&'static str],
    names: &'static [&'static str],
    /// Libraries of the launcher itself, which lie beside MPI's.
    beside: &'static [&'static str],
    /// Variables that the launcher sets.
    variables: &'static [&'static str],
}

const OPEN_MPI: Family = Family {
    launchers: &["orterun", "orted", "prterun", "prted", "prun"],
    names: &["libmpi.so.40"],
    beside: &["libopen-rte.so", "libopen-pal.so", "libprrte.so"],
    variables: &["OMPI_COMM_WORLD_RANK", "PMIX_RANK"],
};
const MPICH: Family = Family {
    launchers: &[
        "hydra_pmi_proxy",
        "hydra_bstrap_proxy",
        "mpiexec.hydra",
        "mpispawn",
        "mpirun_rsh",
    ],
    // MPICH's ABI initiative, Debian's MPICH, Cray's.
    names: &["libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12"],
    beside: &[],
    variables: &["MV2_COMM_WORLD_RANK", "PMI_RANK", "PMI_FD"],
};
const FAMILIES: [&Family; 2] = [&OPEN_MPI, &MPICH];
/// Directories of libraries, from the directory above the launcher's.
const DIRECTORIES: [&str; 5] =
    ["lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib/release"];
/// Most processes above this one.
const MOST: usize = 16;

/// A file that may be the launcher's library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// A path, or a name for the loader's search.
    pub file: PathBuf,
    /// Why this file.
    pub reason: String,
}

/// A process above this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ancestor {
    pub program: PathBuf,
    /// The shared libraries that it has mapped.
    pub libraries: Vec<PathBuf>,
}

/// The processes above this one, the nearest first.
fn ancestors() -> Vec<Ancestor> {
    let parent = |process: u32| -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        line.trim().parse().ok().filter(|parent| *parent > 1)
    };
    let above = std::iter::successors(parent(std::process::id()), |process| parent(*process));
    let ancestor = |process: u32| {
        let program = fs::read_link(format!("/proc/{process}/exe")).ok()?;
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        let file = |line: &str| line.find('/').map(|at| PathBuf::from(&line[at..]));
        let mut libraries: Vec<PathBuf> = maps.lines().filter_map(file).collect();
        libraries.dedup();
        Some(Ancestor { program, libraries })
    };
    above.take(MOST).filter_map(ancestor).collect()
}

/// The files to try for the launcher of this process, best first.
pub fn found() -> Vec<Candidate> {
    let variable = |name: &str| std::env::var_os(name).is_some();
    candidates(&ancestors(), &variable, &|file| file.exists())
}

/// The files to try, best first. `exists` says whether a file is there.
pub fn candidates(
    ancestors: &[Ancestor],
    variable: &dyn Fn(&str) -> bool,
    exists: &dyn Fn(&Path) -> bool,
) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for ancestor in ancestors {
        let Some(family) = FAMILIES.iter().find(|family| is_of(&ancestor.program, family)) else {
            continue;
        };
        let reason = format!("of the launcher {}", ancestor.program.display());
        let beside = ancestor.libraries.iter().filter(|file| is_beside(file, family));
        let above = ancestor.program.ancestors().nth(2).unwrap_or(Path::new("/"));
        let directories = beside
            .filter_map(|file| file.parent().map(Path::to_owned))
            .chain(DIRECTORIES.map(|directory| above.join(directory)));
        for directory in directories {
            let files = family.names.iter().map(|name| directory.join(name));
            found.extend(
                files
                    .filter(|file| exists(file))
                    .map(|file| Candidate { file, reason: reason.clone() }),
            );
        }
    }
    let first =
        FAMILIES.iter().position(|family| family.variables.iter().any(|name| variable(name)));
    let mut families = FAMILIES;
    families.rotate_left(first.unwrap_or(0));
    let reason = match first {
        Some(_) => "found by the loader, for the launcher's variables",
        None => "found by the loader",
    };
    let names = families.iter().flat_map(|family| family.names);
    found.extend(
        names.map(|name| Candidate { file: PathBuf::from(name), reason: reason.to_owned() }),
    );
    let mut unique: Vec<Candidate> = Vec::new();
    for candidate in found {
        if unique.iter().all(|known| known.file != candidate.file) {
            unique.push(candidate);
        }
    }
    unique
}

fn is_of(program: &Path, family: &Family) -> bool {
    let name = program.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| family.launchers.contains(&name))
}

fn is_beside(file: &Path, family: &Family) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| family.beside.iter().any(|library| name.starts_with(library)))
}
