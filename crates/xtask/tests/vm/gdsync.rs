//! GPUDirect Async over the proxy: streams of simulated GPUs in two machines, connected by Soft-RoCE; and messages between ranks.

use std::fs;
use std::path::{Path, PathBuf};

use fakes::{Driver, cuda};
use serde_json::Value;

use crate::{built, compiled, in_machine, json, root};

/// Checks that every figure of gdr probe mp is there for each size, with all messages verified.
pub fn has_exchanged(report: &Value, sizes: &[u64]) {
    let results = report["results"].as_array().expect("results");
    let mut found = results.iter();
    for bytes in sizes {
        for (name, ways) in [
            ("mp.cpu.latency", 2),
            ("mp.stream.latency", 2),
            ("mp.kernel.latency", 2),
            ("mp.cpu.bandwidth", 1),
            ("mp.stream.bandwidth", 1),
            ("mp.put.latency", 1),
            ("mp.put.bandwidth", 1),
            ("mp.get.latency", 1),
            ("mp.get.bandwidth", 1),
        ] {
            let result = found.next().expect("a result");
            assert_eq!(
                (&result["name"], &result["backend"], &result["verdict"]),
                (&name.into(), &"cuda-sim+proxy".into(), &"ok".into())
            );
            assert_eq!(result["verified"], 32 * 5 * ways * bytes, "{result}");
        }
    }
    assert_eq!(found.next(), None);
}

#[test]
#[ignore = "needs qemu-system-x86_64, root"]
fn streams_of_two_machines_send_to_each_other_through_the_proxy() {
    let files =
        in_machine("two-guests", "async-pair", vec![built("examples/proxy_pair"), built("gdr")]);
    // The client reports.
    has_exchanged(&json(&files.join("guest2/mp.json")), &[8, 65536]);
    let output = |guest: u8| {
        let path = files.join(format!("guest{guest}")).join("proxy_pair.txt");
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(text.ends_with("passed\n"), "{text}");
        let done = text.lines().filter_map(|line| line.strip_prefix("ok: "));
        done.map(str::to_owned).collect::<Vec<_>>()
    };
    let (leads, follows) = (output(2), output(1));
    // Twenty messages of 1000 bytes echoed by the other end's stream, then each operation.
    assert_eq!(
        leads[..4],
        [
            "echo, 20000 bytes",
            "read, 65536 bytes",
            "fetch and add, 8 bytes",
            "compare and swap, 8 bytes",
        ]
    );
    assert!(leads[4].contains("REMOTE_ACCESS_ERR, syndrome 0x13"), "{leads:?}");
    assert!(leads[5].contains("WR_FLUSH_ERR, syndrome 0x05"), "{leads:?}");
    assert_eq!(
        follows[..4],
        ["echoed, 20000 bytes", "written, 65536 bytes", "swapped, 8 bytes", "inline, 300 bytes",]
    );
    assert_eq!((leads.len(), follows.len(), &*follows[5]), (6, 6, "untouched, 300 bytes"));
}

/// Flags for a C program that calls a library of `examples/` and the simulated CUDA; `headers` are below `crates/`.
fn simulated(library: &str, headers: &[&str]) -> Vec<String> {
    let cuda = cuda::build(Driver::Current).expect("the simulated CUDA");
    let include =
        |directory: &&str| format!("-I{}", root().join("crates").join(directory).display());
    let mut flags: Vec<String> = headers.iter().map(include).collect();
    for (directory, name) in [(&built("examples"), library), (&cuda, "-l:libcuda.so.1")] {
        let directory = directory.display();
        flags.extend([
            format!("-L{directory}"),
            format!("-Wl,-rpath,{directory}"),
            name.to_owned(),
        ]);
    }
    flags.push("-libverbs".to_owned());
    flags
}

/// libgdsync's own programs, wrong calls among them, whose NIC is simulated elsewhere. Not failures.c: rdma_rxe has other errors.
#[test]
#[ignore = "needs qemu-system-x86_64, root, gcc-12, libibverbs-dev"]
fn queue_pairs_of_the_c_library() {
    let headers = ["gdsync-capi/include", "gdrapi-capi/include", "gdsync-capi/tests/stubs"];
    let flags = simulated("-lgdsync_sim", &headers);
    let sources = root().join("crates/gdsync-capi");
    let programs = ["pairs", "requests", "pair_misuse", "pair_timeout"];
    let binaries = programs.map(|name| {
        let source = format!("tests/c/{name}.c");
        compiled(name, &sources, &[&source], &flags)
    });
    in_machine("rxe", "queue-pairs", binaries.into());
}

/// libmp's own programs, wrong calls among them, after an initialization over the kernel's RDMA stack.
#[test]
#[ignore = "needs qemu-system-x86_64, root, gcc-12, libibverbs-dev, MPICH"]
fn ranks_of_the_c_library() {
    let mut flags = simulated(
        "-lmp_sim",
        &[
            "mp-capi/include",
            "mp-capi/tests/stubs",
            "gdsync-capi/include",
            "gdsync-capi/tests/stubs",
            "gdrapi-capi/include",
        ],
    );
    flags.extend(["-I/usr/include/x86_64-linux-gnu/mpich", "-lmpich"].map(str::to_owned));
    let sources = root().join("crates/mp-capi");
    let programs = ["messages", "windows", "misuse"];
    let mut binaries: Vec<PathBuf> = programs
        .map(|name| compiled(name, &sources, &[&format!("tests/c/{name}.c")], &flags))
        .into();
    binaries
        .extend(["mpiexec.hydra", "hydra_pmi_proxy"].map(|name| Path::new("/usr/bin").join(name)));
    in_machine("rxe", "ranks", binaries);
}
