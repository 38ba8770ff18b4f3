//! rdma-modules on a machine in a directory, with stand-ins for modprobe and rmmod that change sysfs like the modules.

use crate::support::{Bench, Machine, scratch};
use serde_json::{Value, json};

fn bench(patch: &Value) -> Bench {
    let bench = Bench::of("sound", patch);
    bench.have_kmod();
    bench
}

/// A ConnectX-7 with mlx5_core bound but no RDMA device.
fn no_rdma() -> Value {
    json!({
        "with": ["driver-580", "sound-around"],
        "roots": {"0000:00": {"below": {"00:01.0": {"below": {"01:00.0": {"below": {"02:01.0": {"below": {
            "04:00.0": {"is": "cx7-ib", "rdma": null}}}}}}}}}},
        "files": {
            "proc/modules": ["nvidia 14299136 0 - Live 0x0000000000000000 (OE)", "mlx5_core 2514944 0 - Live 0x0000000000000000"],
            "lib/modules/6.8.0-60-generic/modules.dep": [
                "kernel/drivers/infiniband/core/ib_core.ko.zst:",
                "kernel/drivers/infiniband/core/ib_uverbs.ko.zst: kernel/drivers/infiniband/core/ib_core.ko.zst",
                "kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko.zst: kernel/drivers/infiniband/core/ib_uverbs.ko.zst kernel/drivers/infiniband/core/ib_core.ko.zst kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko.zst",
                "kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko.zst:"
            ]
        },
        "empty_dirs": ["sys/class/infiniband_verbs"]
    })
}

#[test]
#[ignore = "needs root, systemd, a mount namespace"]
fn makes_nic_an_rdma_device() {
    let bench = bench(&no_rdma());
    // What mlx5_ib adds: the difference to the complete machine below these directories.
    let whole = scratch();
    Machine::load("sound").lay_out(whole.path());
    bench.keep_beside("rdma", whole.path(), "/infiniband");
    let before = bench.tree();
    assert_eq!(bench.rdma_outcome("rdma.modules", "machine"), "fail");

    let run = bench.repair(&["fix", "rdma-modules", "--yes"]);
    run.assert_code(0);
    run.assert_stdout("rdma.modules: fixed.");
    assert_eq!(bench.calls(), ["modprobe ib_core", "modprobe ib_uverbs", "modprobe mlx5_ib"]);
    assert_eq!(bench.rdma_outcome("rdma.modules", "machine"), "pass");
    let modules = bench.asked_for_at_boot();
    assert_eq!(modules[..2], ["ib_uverbs", "mlx5_ib"]);
    bench.assert_nothing_to_change(&["fix", "rdma-modules", "--yes"]);

    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(
        bench.calls(),
        ["rmmod mlx5_ib", "rmmod ib_uverbs", "rmmod ib_core"],
        "mlx5_core carries the network"
    );
    assert_eq!(bench.tree(), before);
    assert_eq!(bench.rdma_outcome("rdma.modules", "machine"), "fail");
}

#[test]
fn names_package_of_missing_module() {
    let mut patch = no_rdma();
    crate::support::merge(
        &mut patch,
        &json!({"files": {"lib/modules/6.8.0-60-generic/modules.dep": ["kernel/drivers/infiniband/core/ib_core.ko.zst:"]}}),
    );
    let bench = bench(&patch);
    let run = bench.repair(&["fix", "rdma-modules", "--yes"]);
    run.assert_code(1);
    let output = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        output.contains("There is no ib_uverbs.ko for kernel 6.8.0-60-generic: install"),
        "{output}"
    );
    assert!(output.contains("linux-modules-extra"), "{output}");
}
