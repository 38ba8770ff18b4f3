//! peermem on machines in directories, with stand-ins for modprobe and rmmod that change sysfs like the modules.

use std::fs;
use std::process::Command;

use crate::support::Bench;
use serde_json::{Value, json};

/// Proprietary modules: no dma-buf.
const PROPRIETARY: &str =
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Release Build";

fn bench(patch: &Value) -> Bench {
    let bench = Bench::of("sound", patch);
    bench.have_kmod();
    bench.tool("systemctl", "[ $1 = daemon-reload ] || exec systemctl --root=\"$GDR_ROOT\" \"$@\"");
    bench
}

/// nvidia-peermem is on disk, not loaded, and not configured for boot.
fn unloaded() -> Value {
    json!({
        "with": ["driver-580", "sound-around"],
        "files": {"proc/driver/nvidia/version": [PROPRIETARY], "etc/modules-load.d/nvidia-peermem.conf": ["vfio"]},
        "empty_dirs": ["sys/kernel/mm/memory_peers"]
    })
}

#[test]
#[ignore = "needs root, systemd, a mount namespace"]
fn loads_peermem_now_and_at_boot_and_undoes_it() {
    let bench = bench(&unloaded());
    let before = bench.tree();
    assert_eq!(bench.rdma_outcome("peermem.loaded", "mlx5_0"), "fail");

    // Selected by the findings.
    let run = bench.repair(&["fix", "--yes", "--profile", "rdma"]);
    run.assert_code(0);
    run.assert_stdout("peermem.loaded: fixed.");
    assert_eq!(bench.rdma_outcome("peermem.loaded", "mlx5_0"), "pass");
    assert_eq!(bench.rdma_outcome("peermem.boot", "nvidia-peermem"), "pass");
    assert_eq!(bench.calls(), ["modprobe nvidia_peermem"], "what it needs is loaded already");
    assert_eq!(
        bench.asked_for_at_boot(),
        ["ib_core", "ib_uverbs", "nvidia-peermem", "vfio"],
        "the RDMA stack first"
    );

    let after = bench.tree();
    bench.assert_nothing_to_change(&["fix", "peermem", "--yes"]);
    assert_eq!(bench.tree(), after);

    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(
        bench.calls(),
        ["rmmod nvidia_peermem"],
        "not modprobe -r, which takes along what else is idle"
    );
    assert_eq!(bench.tree(), before);
    assert_eq!(bench.rdma_outcome("peermem.loaded", "mlx5_0"), "fail");
}

#[test]
fn refused_module_stops_repair_and_leaves_nothing() {
    let bench = bench(&unloaded());
    let before = bench.tree();
    bench
        .tool("modprobe", "echo 'modprobe: ERROR: could not insert: Invalid argument' >&2; exit 1");
    let run = bench.repair(&["fix", "peermem", "--yes"]);
    run.assert_code(1);
    assert!(
        run.stderr.contains("stopped, and nothing was changed: ")
            && run.stderr.contains("Invalid argument"),
        "{}",
        run.stderr
    );
    assert_eq!(bench.tree(), before);
}

#[test]
fn undo_after_reboot_leaves_module_loaded() {
    let mut patch = unloaded();
    crate::support::merge(
        &mut patch,
        &json!({"files": {"proc/sys/kernel/random/boot_id": ["11111111-0000-0000-0000-000000000000"]}}),
    );
    let bench = bench(&patch);
    bench.repair(&["fix", "peermem", "--yes"]).assert_code(0);
    let boot = bench.root().join("proc/sys/kernel/random/boot_id");
    fs::write(boot, "22222222-0000-0000-0000-000000000000\n").expect("another boot");
    bench.calls();
    let undo = bench.repair(&["undo"]);
    undo.assert_code(0);
    undo.assert_stdout("already reset by a reboot");
    assert_eq!(bench.calls(), Vec::<String>::new());
    assert!(!bench.root().join("etc/modules-load.d/gdr-peermem.conf").exists());
}

#[test]
fn refuses_unloadable_module_with_fix() {
    let dep = "lib/modules/6.8.0-60-generic/modules.dep";
    let symbols = "lib/modules/6.8.0-60-generic/modules.symbols";
    let alone = "updates/dkms/nvidia-peermem.ko.zst: updates/dkms/nvidia.ko.zst";
    for (files, words) in [
        (json!({dep: [alone]}), ["built without", "Reinstall the NVIDIA driver"]),
        (
            json!({dep: [alone], symbols: ["alias symbol:ib_register_client ib_core"]}),
            ["No peer memory in the RDMA stack", "DOCA-OFED"],
        ),
        (json!({dep: ["updates/dkms/nvidia.ko.zst:"]}), ["no nvidia-peermem.ko", "DOCA-OFED"]),
        (
            json!({"etc/modprobe.d/site.conf": ["install nvidia-peermem /bin/false"]}),
            ["install nvidia_peermem /bin/false", "gdr fix modprobe"],
        ),
        (
            json!({"sys/module/nvidia/version": ["460.91.03"]}),
            ["older than 470", "nv_peer_mem 1.3"],
        ),
    ] {
        let mut patch = unloaded();
        crate::support::merge(&mut patch, &json!({"files": files}));
        let bench = bench(&patch);
        let before = bench.tree();
        let run = bench.repair(&["fix", "peermem", "--yes"]);
        run.assert_code(1);
        let output = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(output.contains(word), "'{word}' in: {output}");
        }
        assert_eq!(bench.tree(), before);
        assert_eq!(bench.calls(), Vec::<String>::new());
    }
}

#[test]
fn notes_that_dma_buf_makes_it_unnecessary() {
    let bench = bench(&json!({"with": ["driver-580", "sound-around"]}));
    let run = bench.gdr(&["fix", "peermem", "--dry-run"]);
    run.assert_code(0);
    let output = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.contains("dma-buf works for every NIC"), "{output}");
}

#[test]
fn other_nics_need_other_modules() {
    let driven_by = |driver: &str| {
        let mut patch = unloaded();
        let more = json!({
            "roots": {"0000:00": {"below": {"00:01.0": {"below": {"01:00.0": {"below": {"02:01.0": {"below": {
                "04:00.0": {"driver": driver}}}}}}}}}},
            "files": {"lib/modules/6.8.0-60-generic/modules.dep": [
                "kernel/drivers/infiniband/core/ib_core.ko.zst:",
                "updates/dkms/nvidia.ko.zst:",
                "updates/dkms/efa_nv_peermem.ko.zst: kernel/drivers/infiniband/core/ib_core.ko.zst updates/dkms/nvidia.ko.zst"
            ]}
        });
        crate::support::merge(&mut patch, &more);
        bench(&patch)
    };
    let bench = driven_by("efa");
    assert_eq!(bench.rdma_outcome("peermem.loaded", "mlx5_0"), "fail");
    bench.repair(&["fix", "peermem", "--yes"]).assert_code(0);
    assert_eq!(bench.calls(), ["modprobe efa_nv_peermem"]);
    assert_eq!(bench.rdma_outcome("peermem.loaded", "mlx5_0"), "pass");
    let list = bench.text("etc/modules-load.d/gdr-peermem.conf");
    assert_eq!(
        list.lines().skip(1).collect::<Vec<_>>(),
        ["ib_core", "ib_uverbs", "efa_nv_peermem"]
    );

    let run = driven_by("irdma").repair(&["fix", "peermem", "--yes"]);
    run.assert_code(1);
    let output = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.contains("has no peer memory support: dma-buf is their only path"), "{output}");
}

#[test]
fn warns_of_blacklist_that_affects_boot() {
    let mut patch = unloaded();
    crate::support::merge(
        &mut patch,
        &json!({"files": {"etc/modprobe.d/site.conf": ["blacklist nvidia-peermem"]}}),
    );
    let run = bench(&patch).gdr(&["fix", "peermem", "--dry-run"]);
    run.assert_code(0);
    let output = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.contains("blocks nvidia-peermem at boot"), "{output}");
}

/// nv_peer_mem is loaded by its service, by a site's unit, and by two lists.
fn predecessor() -> Value {
    let mut patch = unloaded();
    let more = json!({
        "files": {
            "proc/modules": [
                "nv_peer_mem 16384 0 - Live 0x0000000000000000 (OE)",
                "nvidia 14299136 1 nv_peer_mem, Live 0x0000000000000000 (OE)",
                "mlx5_ib 536576 0 - Live 0x0000000000000000",
                "mlx5_core 2514944 1 mlx5_ib, Live 0x0000000000000000",
                "ib_uverbs 200704 1 mlx5_ib, Live 0x0000000000000000",
                "ib_core 544768 3 nv_peer_mem,mlx5_ib,ib_uverbs, Live 0x0000000000000000"
            ],
            "sys/module/nv_peer_mem/version": ["1.1-0"],
            "sys/module/mlx5_core/version": ["5.8-1.1.2"],
            "sys/kernel/mm/memory_peers/nv_mem/version": ["1.1-0"],
            "etc/infiniband/nv_peer_mem.conf": ["# Load nv_peer_mem module upon boot", "ONBOOT=yes"],
            "etc/modules": ["# the site's", "loop", "  nv-peer-mem  "],
            "usr/lib/systemd/system/openibd.service": ["[Unit]", "Description=openibd - configure Mellanox devices", "DefaultDependencies=false", "[Service]", "Type=oneshot", "RemainAfterExit=yes", "ExecStart=/etc/init.d/openibd start bootid=%b", "ExecStop=/etc/init.d/openibd stop", "[Install]", "WantedBy=sysinit.target"],
            "usr/lib/systemd/system/nv_peer_mem.service": ["[Unit]", "Description=nv_peer_mem", "[Service]", "Type=oneshot", "ExecStart=/sbin/modprobe nv_peer_mem", "[Install]", "WantedBy=multi-user.target"]
        },
        "links": {
            "etc/modules-load.d/modules.conf": "../modules",
            "etc/systemd/system/multi-user.target.wants/nv_peer_mem.service": "/usr/lib/systemd/system/nv_peer_mem.service"
        },
        "empty_dirs": ["run/systemd/system"]
    });
    crate::support::merge(&mut patch, &more);
    patch
}

#[test]
#[ignore = "needs root, a mount namespace, systemd"]
fn replaces_nv_peer_mem_at_next_boot() {
    let bench = bench(&predecessor());
    let before = bench.tree();
    assert_eq!(bench.rdma_outcome("peermem.legacy", "nv_peer_mem"), "warn");
    let run = bench.repair(&["fix", "peermem", "--yes"]);
    run.assert_code(0);
    let output = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        output.contains("then: Stop all programs that use RDMA, then: rmmod nv_peer_mem"),
        "{output}"
    );
    assert!(output.contains("then: modprobe nvidia-peermem; or reboot."), "{output}");
    let calls = bench.calls();
    assert_eq!(
        calls,
        ["systemctl disable nv_peer_mem.service", "systemctl daemon-reload"],
        "nothing is unloaded"
    );
    assert_eq!(
        bench.text("etc/infiniband/nv_peer_mem.conf"),
        "# Load nv_peer_mem module upon boot\nONBOOT=no\n"
    );
    assert_eq!(bench.text("etc/modules"), "# the site's\nloop\n  # nv-peer-mem  \n");
    let modules = bench.asked_for_at_boot();
    assert!(modules.contains(&"nvidia-peermem".to_owned()), "{modules:?}");
    assert!(!modules.iter().any(|name| name.replace('-', "_") == "nv_peer_mem"), "{modules:?}");

    // The reboot loads the new module and not the old one.
    bench.root_command(
        "rm -r sys/module/nv_peer_mem sys/kernel/mm/memory_peers/nv_mem && sed -i /^nv_peer_mem/d proc/modules",
    );
    bench.run_tool("modprobe", &["nvidia-peermem"]);
    assert_eq!(bench.rdma_outcome("peermem.legacy", "nvidia-peermem"), "pass");
    assert_eq!(bench.rdma_outcome("peermem.boot", "nvidia-peermem"), "pass");
    assert_eq!(bench.rdma_outcome("peermem.loaded", "mlx5_0"), "pass");
    bench.assert_nothing_to_change(&["fix", "peermem", "--yes"]);

    // Undo, with the old module running again.
    bench.run_tool("rmmod", &["nvidia_peermem"]);
    bench.root_command(
        "mkdir -p sys/module/nv_peer_mem sys/kernel/mm/memory_peers/nv_mem && \
         echo 1.1-0 | tee sys/module/nv_peer_mem/version > sys/kernel/mm/memory_peers/nv_mem/version && \
         sed -i '1i nv_peer_mem 16384 0 - Live 0x0000000000000000 (OE)' proc/modules",
    );
    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.tree(), before);
    assert_eq!(bench.rdma_outcome("peermem.legacy", "nv_peer_mem"), "warn");
}

#[test]
#[ignore = "needs systemd"]
fn openibd_reloads_module_with_its_stack() {
    let bench = bench(&predecessor());
    bench.repair(&["fix", "peermem", "--yes"]).assert_code(0);
    bench.root_command(
        "mkdir -p etc/init.d sbin && cp /bin/true etc/init.d/openibd && cp /bin/true sbin/modprobe",
    );
    assert_eq!(bench.verify("openibd.service"), "");
    // Proves that the tool would have reported errors.
    let drop_in = "etc/systemd/system/openibd.service.d/gdr-peermem.conf";
    let text = bench.text(drop_in);
    assert_eq!(
        text.lines().skip(1).collect::<Vec<_>>(),
        ["[Service]", "ExecStartPost=-/sbin/modprobe nvidia-peermem"]
    );
    fs::write(bench.root().join(drop_in), text.replace("ExecStartPost", "ExecStartPast"))
        .expect("a drop-in");
    assert!(bench.verify("openibd.service").contains("ExecStartPast"));
}

#[test]
#[ignore = "needs kmod"]
fn mlnx_ofed_4_9_needs_parameter() {
    let mut patch = unloaded();
    let more = json!({"files": {"sys/module/mlx5_core/version": ["4.9-7.1.0"], "sys/module/nvidia_peermem/version": ["580.159.04"],
        "sys/module/nvidia_peermem/parameters/peerdirect_support": ["0"]}});
    crate::support::merge(&mut patch, &more);
    let bench = bench(&patch);
    assert_eq!(bench.rdma_outcome("peermem.legacy", "nvidia-peermem"), "warn");
    let run = bench.repair(&["fix", "peermem", "--yes"]);
    run.assert_code(0);
    let mut modprobe = Command::new("modprobe");
    modprobe.args(["--showconfig", "-C"]).arg(bench.root().join("etc/modprobe.d"));
    let output = modprobe.output().expect("modprobe").stdout;
    let output = String::from_utf8_lossy(&output);
    assert!(output.contains("options nvidia_peermem peerdirect_support=1"), "{output}");
    run.assert_stdout("rmmod nvidia_peermem && modprobe nvidia-peermem");
}
