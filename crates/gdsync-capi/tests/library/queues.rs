//! Runs the C programs of tests/c that create queue pairs, with a SIMULATED CUDA and a SIMULATED libibverbs with two NICs.

use std::path::Path;

use serde_json::{Value, json};

use crate::clib::succeed;
use crate::programs::{Program, compiled_for_mlx5, compiled_with, mlx5_libraries, run_on_mlx5};
use crate::support::{compatible, compile, run, simulated_libraries_and_verbs};

/// The CUDA of an H200, and two InfiniBand NICs.
fn machine() -> Value {
    json!({
        "gpu": {"memory": 1 << 30, "attributes": {"122": 1, "123": 1}}, "gpus": [{}],
        "verbs": {"devices": [
            {"name": "mlx5_0", "guid": "9803:9b03:0000:0001", "ports": [{"lid": 7}]},
            {"name": "mlx5_1", "guid": "9803:9b03:0000:0002", "ports": [{"lid": 9}]},
        ]},
    })
}

/// A GPU before Volta: no NOR, no 64-bit words, but a flush.
fn old_gpu() -> Value {
    let mut machine = machine();
    machine["gpu"]["attributes"] = json!({"98": 1});
    machine
}

/// The simulated NICs have no queues for the GPU.
const PROXY: (&str, &str) = ("GDS_HCA", "proxy");
/// A short timeout for the program whose waits time out.
fn timeout(name: &str) -> Option<(&'static str, &'static str)> {
    (name == "pair_timeout").then_some(("GDS_CPU_WAIT_TIMEOUT_MS", "300"))
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn every_operation_by_stream_and_cpu() {
    for machine in [machine(), old_gpu()] {
        check("pairs", &machine);
    }
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn prepares_posts_and_abandons_requests() {
    for machine in [machine(), old_gpu()] {
        check("requests", &machine);
    }
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn errors_and_destruction_end_waits() {
    check("failures", &machine());
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn cpu_waits_time_out_or_are_cancelled() {
    check("pair_timeout", &machine());
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn rejects_misuse_of_queue_pairs() {
    check("pair_misuse", &machine());
}

/// Without simulated verbs: for rdma-core's libibverbs and libmlx5.
fn without_verbs(mut machine: Value) -> Value {
    machine.as_object_mut().expect("a machine").remove("verbs");
    machine
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev, libmlx5"]
fn mlx5_backend_behaves_the_same() {
    // Not "failures" on a GPU without NOR, where errors end no wait in even passes.
    let cases = [
        ("pairs", vec![machine(), old_gpu()]),
        ("requests", vec![machine(), old_gpu()]),
        ("failures", vec![machine()]),
        ("pair_misuse", vec![machine()]),
        ("pair_timeout", vec![machine(), old_gpu()]),
        ("datagrams", vec![machine(), old_gpu()]),
    ];
    for (name, machines) in cases {
        let program = compiled_for_mlx5(name);
        let variables = Vec::from_iter(timeout(name));
        for machine in machines {
            let output = run_on_mlx5(&program, &without_verbs(machine), &variables);
            succeed(name, &output);
            assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{name}: ok\n"));
        }
    }
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn memory_unmapped_while_registered_is_not_used() {
    check("stale", &machine());
}

/// Over a simulated libibverbs, whose devices send datagrams to themselves.
#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn datagrams_by_proxy() {
    for machine in [machine(), old_gpu()] {
        check("datagrams", &machine);
    }
}

/// With a dma-buf, by which the NIC's firmware reaches GPU memory.
fn exporting(mut machine: Value) -> Value {
    for attribute in ["116", "124"] {
        machine["gpu"]["attributes"][attribute] = json!(1);
    }
    machine
}

/// What a fake kernel with DEVX needs.
const DEVX: (&str, &str) = ("FAKE_UVERBS_DEVX", "1");

/// Runs "locations" with the flags that are obeyed, and returns what it logs.
fn locations(machine: &Value, obeyed: &str, variables: &[(&str, &str)]) -> String {
    let variables = [&[("IN_GPU_MEMORY", obeyed)], variables].concat();
    let is_mlx5 = machine.get("verbs").is_none();
    let output = if is_mlx5 {
        run_on_mlx5(&compiled_for_mlx5("locations"), machine, &variables)
    } else {
        run(&compiled("locations").path, &[], machine, &variables)
    };
    succeed("locations", &output);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "locations: ok\n");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev, libmlx5"]
fn parts_lie_where_the_flags_say() {
    let machine = exporting(machine());
    locations(&without_verbs(machine.clone()), "27", &[DEVX]);
    locations(&machine, "27", &[PROXY]);
    // Without DEVX, and without a dma-buf: a warning, and host memory.
    for (machine, variables, why) in [
        (without_verbs(machine.clone()), &[][..], "queues in GPU memory need DEVX commands"),
        (without_verbs(self::machine()), &[DEVX], "the NIC cannot use queues in this GPU memory"),
    ] {
        let log = locations(&machine, "0", variables);
        let warning = log.lines().find(|line| line.contains("GDS WARN") && line.contains(why));
        let warning = warning.unwrap_or_else(|| panic!("{log}"));
        assert!(
            warning.ends_with("; completion queues and doorbell records are in host memory"),
            "{warning}"
        );
    }
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev, libmlx5"]
fn queues_in_gpu_memory_behave_the_same() {
    // Without NOR errors end no wait in even passes, so "failures" has no other GPU.
    let cases = [
        ("pairs", vec![machine(), old_gpu()]),
        ("requests", vec![machine(), old_gpu()]),
        ("failures", vec![machine()]),
        ("datagrams", vec![machine()]),
        ("pair_timeout", vec![machine()]),
        ("pair_misuse", vec![machine()]),
    ];
    for (name, machines) in cases {
        let program = compiled_for_mlx5(name);
        for (machine, flags) in
            machines.iter().flat_map(|machine| ["6", "27"].map(|flags| (machine, flags)))
        {
            let variables: Vec<_> =
                [DEVX, ("QP_FLAGS", flags)].into_iter().chain(timeout(name)).collect();
            let machine = without_verbs(exporting(machine.clone()));
            let output = run_on_mlx5(&program, &machine, &variables);
            succeed(name, &output);
            assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{name}: ok\n"));
        }
    }
    for name in ["pairs", "failures", "datagrams"] {
        let output =
            run(&compiled(name).path, &[], &exporting(machine()), &[PROXY, ("QP_FLAGS", "27")]);
        succeed(name, &output);
    }
}

/// With the types of libgdsync's releases.
#[test]
#[ignore = "needs a C compiler, a C++ compiler, libibverbs-dev, libmlx5"]
fn programs_for_releases_compile_and_run() {
    let program = compiled_with("release", |cuda| {
        [vec![compatible()], simulated_libraries_and_verbs(cuda)].concat()
    });
    let on_mlx5 =
        compiled_with("release", |cuda| [vec![compatible()], mlx5_libraries(cuda)].concat());
    for flags in ["0", "4", "26"] {
        let machine = exporting(machine());
        let flags = ("QP_FLAGS", flags);
        for output in [
            run(&program.path, &[], &machine, &[PROXY, flags]),
            run_on_mlx5(&on_mlx5, &without_verbs(machine), &[DEVX, flags]),
        ] {
            succeed("release", &output);
            assert_eq!(String::from_utf8_lossy(&output.stdout), "release: ok\n");
        }
    }
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/gdsync.h");
    let flag = compatible();
    let arguments =
        ["-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", &flag];
    compile("c++", &arguments, &[header], &program.path, &[]);
}

fn compiled(name: &str) -> Program {
    compiled_with(name, simulated_libraries_and_verbs)
}

fn check(name: &str, machine: &Value) {
    let program = compiled(name);
    let variables: Vec<_> = [PROXY].into_iter().chain(timeout(name)).collect();
    let output = run(&program.path, &[], machine, &variables);
    succeed(name, &output);
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{name}: ok\n"));
}
