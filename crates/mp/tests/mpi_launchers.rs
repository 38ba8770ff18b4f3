//! Runs the example under the launchers of Debian's Open MPI and MPICH.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::Command;

use mp::mpi::{Error, Mpi};

/// The example, which Cargo builds with this test.
fn example() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("examples/mpi_gather")
}

fn run(launcher: &str, abi: &str) {
    let output = Command::new(launcher)
        .args(["-n", "3"])
        .arg(example())
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let ranks = text.lines().filter(|line| line.contains(&format!("of 3: {abi}")));
    assert_eq!(ranks.count(), 3, "{text}{errors}");
}

#[test]
#[ignore = "needs Open MPI"]
fn open_mpi() {
    run("mpirun.openmpi", "OpenMpi, Open MPI v");
}

#[test]
#[ignore = "needs MPICH"]
fn mpich() {
    run("mpirun.mpich", "Mpich, MPICH Version:");
}

#[test]
fn names_file_that_cannot_be_loaded() {
    let error = Mpi::open_file("/nowhere/libmpi.so".as_ref()).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("cannot load /nowhere/libmpi.so: "), "{text}");
    let libc = Mpi::open_file("libc.so.6".as_ref()).unwrap_err();
    assert_eq!(libc, Error::Missing("MPI_Get_library_version"));
}

/// This test is linked with none.
#[test]
fn finds_no_mpi() {
    let found = Mpi::find();
    assert!(matches!(found, Err(Error::Absent(_))), "{found:?}");
}
