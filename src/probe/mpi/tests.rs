//! Which file belongs to a launcher, what the libraries' messages say, and which ranks are measured.

use std::path::{Path, PathBuf};

use super::library::{Ancestor, candidates};
use super::message::{Hello, RankPair, hosts, pairs};
use super::transports::{Situation, advice, is_verbose, transports};
use crate::model::{MpiTransport, ProbedMpi};

fn files(program: &str, libraries: &[&str], variables: &[&str], existing: &[&str]) -> Vec<String> {
    let ancestors = [
        Ancestor {
            program: PathBuf::from("/usr/bin/bash"),
            libraries: vec![PathBuf::from("/lib/libopen-pal.so.40")],
        },
        Ancestor {
            program: PathBuf::from(program),
            libraries: libraries.iter().map(PathBuf::from).collect(),
        },
    ];
    let found = candidates(&ancestors, &|name| variables.contains(&name), &|file: &Path| {
        existing.iter().any(|known| Path::new(known) == file)
    });
    found.into_iter().map(|candidate| candidate.file.display().to_string()).collect()
}

#[test]
fn library_beside_its_launcher_is_first() {
    let named = ["libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12"];
    // Debian: the launcher's libraries are in a directory of the architecture.
    let debian = files(
        "/usr/bin/orterun",
        &["/usr/lib/x86_64-linux-gnu/libopen-rte.so.40.30.2", "/usr/lib/libc.so.6"],
        &["OMPI_COMM_WORLD_RANK"],
        &["/usr/lib/x86_64-linux-gnu/libmpi.so.40", "/usr/lib/libmpi.so.40"],
    );
    let mut expected = vec!["/usr/lib/x86_64-linux-gnu/libmpi.so.40", "/usr/lib/libmpi.so.40"];
    expected.extend(named);
    assert_eq!(debian, expected);
    let hydra = files(
        "/opt/mpich/bin/hydra_pmi_proxy",
        &[],
        &["PMI_RANK"],
        &["/opt/mpich/lib/libmpi.so.12", "/opt/mpich/lib/libmpi.so.40"],
    );
    assert_eq!(
        hydra,
        [
            "/opt/mpich/lib/libmpi.so.12",
            "libmpi.so.12",
            "libmpich.so.12",
            "libmpi_cray.so.12",
            "libmpi.so.40"
        ]
    );
    // srun belongs to no library.
    assert_eq!(files("/usr/sbin/slurmstepd", &[], &["PMIX_RANK"], &[]), named);
}

const SAME: RankPair = RankPair { rank: 1, same_host: true };
const OTHER: RankPair = RankPair { rank: 2, same_host: false };

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

fn names(found: &[MpiTransport]) -> Vec<(bool, bool, &str, Vec<&str>)> {
    found
        .iter()
        .map(|transport| {
            let names = transport.names.iter().map(String::as_str).collect();
            (transport.same_host, transport.gpu, transport.layer.as_str(), names)
        })
        .collect()
}

/// Lines of Open MPI 4.1.4, MPICH 4.0.2 with UCX 1.13.1.
#[test]
fn transports_of_their_messages() {
    let open_mpi = lines(
        "[host-a:14740] mca: bml: Using self btl for send to [[9288,1],0] on node host-a
[host-a:14740] mca: bml: Using vader btl for send to [[9288,1],1] on node host-a
[host-a:14740] mca: bml: Using tcp btl for send to [[9288,1],2] on node host-b",
    );
    let found = transports(&open_mpi, &[SAME, OTHER]);
    assert_eq!(
        names(&found),
        [(true, false, "ob1", vec!["vader"]), (false, false, "ob1", vec!["tcp"])]
    );
    let ucx = lines(
        "[1795533926.590095] [vm:14658:0]          parser.c:1916 UCX  INFO  UCX_* env variables: UCX_LOG_LEVEL=info
[1795533926.591052] [vm:14658:0]      ucp_worker.c:1763 UCX  INFO    ep_cfg[0]: tag(self/memory0 cma/memory) rma(self/memory0 sysv/memory posix/memory)
[1795533926.591178] [vm:14658:0]      ucp_worker.c:1763 UCX  INFO    ep_cfg[1]: tag(sysv/memory cma/memory) rma(sysv/memory posix/memory)",
    );
    let found = transports(&ucx, &[SAME]);
    assert_eq!(names(&found), [(true, false, "ucx", vec!["cma", "sysv"])]);
    assert!(open_mpi.iter().chain(&ucx).all(|line| is_verbose(line)));
    for line in [
        "MPI_ABORT was invoked on rank 1",
        "Segmentation fault (11)",
        "[vm:1] *** Process received signal ***",
    ] {
        assert!(!is_verbose(line), "{line}");
    }
    assert!(transports(&lines("mca: bml: Using\n tag(\nUCX  INFO  tag()"), &[SAME]).is_empty());
}

/// The table of UCX 1.13.1 as it prints it, with the memory and transport of a GPU in place of the host's.
#[test]
fn protocols_of_gpu_memory() {
    let table = lines(
        "[1795533926.653742] [vm:14668:0]   +--------------------------+---------------------------------------------------------+
[1795533926.653793] [vm:14668:0]   | 0x560edfb6b370 ep_cfg[0] | tagged message by ucp_tag_send*() from cuda memory      |
[1795533926.653850] [vm:14668:0]   +--------------------------+-------------------------------------------+-------------+
[1795533926.653850] [vm:14668:0]   |                    0..92 | eager short                               | gdr_copy/cuda |
[1795533926.653855] [vm:14668:0]   |                7246..inf | (?) rendezvous zero-copy read from remote | cuda_ipc/cuda |
[1795533926.653866] [vm:14668:0]   +--------------------------+-------------------------------------------+-------------+
[1795533926.653816] [vm:14667:0]   | 0x55e2e4278370 ep_cfg[0] | tagged message by ucp_tag_send*() from host memory       |
[1795533926.653816] [vm:14667:0]   |                  0..6321 | eager short                               | self/memory0 |",
    );
    let found = transports(&table, &[SAME]);
    assert_eq!(names(&found), [(true, true, "ucx", vec!["cuda_ipc", "gdr_copy"])]);
    assert!(table.iter().all(|line| is_verbose(line)));
}

#[test]
fn advice_follows_transports() {
    let transport = |same_host, gpu, layer: &str, name: &str| MpiTransport {
        same_host,
        gpu,
        layer: layer.to_owned(),
        names: vec![name.to_owned()],
        message: String::new(),
    };
    let sentences = |transport: MpiTransport, port: Option<&str>| {
        let mpi = ProbedMpi {
            transports: vec![transport],
            takes_gpu: Some(true),
            ..ProbedMpi::default()
        };
        advice(&Situation {
            mpi: &mpi,
            port: port.map(str::to_owned),
            has_gpu: true,
            gpu_share: Some(0.9),
        })
    };
    let one = |found: Vec<String>, word: &str| {
        assert!(found.len() == 1 && found[0].contains(word), "{found:?}");
    };
    one(sentences(transport(false, false, "ob1", "tcp"), Some("mlx5_0:1")), "mlx5_0:1 is up");
    assert!(sentences(transport(false, false, "ob1", "tcp"), None).is_empty());
    assert!(sentences(transport(false, false, "ucx", "rc_mlx5"), Some("mlx5_0:1")).is_empty());
    one(sentences(transport(true, false, "ob1", "tcp"), None), "shared memory");
    assert!(sentences(transport(true, false, "ob1", "vader"), None).is_empty());
    one(sentences(transport(true, true, "ucx", "cuda_copy"), None), "cuda_ipc");
    one(sentences(transport(false, true, "ucx", "cuda_copy"), None), "gdr_copy");
}

#[test]
fn pairs_of_ranks() {
    let hello = |host: &str, boot: &str| Hello {
        host: host.to_owned(),
        boot: boot.to_owned(),
        gpu: None,
        room: 1,
        version: String::new(),
    };
    let a = || hello("a", "1");
    assert_eq!(pairs(&[a()]), []);
    assert_eq!(pairs(&[a(), a()]), [SAME]);
    // Containers of two hosts may have one name.
    let all = [a(), a(), hello("a", "2"), hello("b", "1")];
    assert_eq!(pairs(&all), [SAME, OTHER]);
    assert_eq!(hosts(&all), 3);
}
