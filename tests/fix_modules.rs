//! peermem and rdma-modules on laid-out machines, whose modprobe and rmmod do to the files what the modules do to sysfs.

mod support;

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use support::{Bench, Machine, Need, Run, need};

/// The proprietary modules: dma-buf is closed.
const PROPRIETARY: &str = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Release Build";

/// modprobe: a module comes first in the list, as in the kernel's, with what it makes in sysfs.
const MODPROBE: &str = r#"
cd "$GDR_ROOT" || exit 1
name=$(echo "$1" | tr - _)
grep -q "^$name " proc/modules && exit 0
list=$(cat proc/modules)
printf '%s 16384 0 - Live 0x0000000000000000\n%s\n' "$name" "$list" > proc/modules
case $name in
nvidia_peermem)
    mkdir -p sys/module/nvidia_peermem sys/kernel/mm/memory_peers/nv_mem
    echo 580.159.04 | tee sys/module/nvidia_peermem/version > sys/kernel/mm/memory_peers/nv_mem/version ;;
ib_uverbs | mlx5_ib)
    # The one makes the nodes' class, the other the devices: both are laid out beside the root.
    [ "$name" = mlx5_ib ] || exit 0
    (cd ../rdma && tar cf - .) | tar xf - ;;
esac
"#;

/// rmmod: the module is gone, with what it made.
const RMMOD: &str = r#"
cd "$GDR_ROOT" || exit 1
grep -q "^$1 " proc/modules || { echo "rmmod: ERROR: Module $1 is not currently loaded" >&2; exit 1; }
list=$(grep -v "^$1 " proc/modules)
printf '%s\n' "$list" > proc/modules
case $1 in
nvidia_peermem) rm -r sys/module/nvidia_peermem sys/kernel/mm/memory_peers/nv_mem ;;
mlx5_ib)
    (cd ../rdma && find . ! -type d) | xargs rm
    (cd ../rdma && find . -depth -type d -path './sys/devices/*') | xargs -n 1 rmdir 2> /dev/null
    : ;;
esac
"#;

fn bench(patch: &Value) -> Bench {
    let bench = Bench::of("sound", patch);
    bench.tool("modprobe", MODPROBE);
    bench.tool("rmmod", RMMOD);
    bench.tool(
        "systemctl",
        "[ $1 = daemon-reload ] || exec systemctl --root=\"$GDR_ROOT\" \"$@\"",
    );
    bench
}

/// nvidia-peermem is on disk and not loaded, and nothing loads it at boot.
fn unloaded() -> Value {
    json!({
        "with": ["driver-580", "sound-around"],
        "files": {"proc/driver/nvidia/version": [PROPRIETARY], "etc/modules-load.d/nvidia-peermem.conf": ["vfio"]},
        "empty_dirs": ["sys/kernel/mm/memory_peers"]
    })
}

fn ended(run: &Run, code: i32) {
    assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
}

fn outcome(bench: &Bench, check: &str, subject: &str) -> String {
    let found = bench.outcomes(check, &["--profile", "rdma"]);
    found
        .get(subject)
        .unwrap_or_else(|| panic!("{check} of {subject}: {found:?}"))
        .clone()
}

/// What systemd-modules-load asks for on this root, in order: the real one, with the lists of the root in the place of
/// its own. It reads one directory here; the others of this machine have none of these modules.
fn asked_for_at_boot(bench: &Bench) -> Vec<String> {
    let lists = bench.root().join("etc/modules-load.d");
    let script = "mount --bind \"$1\" /etc/modules-load.d && exec /lib/systemd/systemd-modules-load";
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "sh", "-c", script, "sh"]).arg(lists);
    let output = unshare
        .env("SYSTEMD_LOG_LEVEL", "debug")
        .env("SYSTEMD_LOG_TARGET", "console")
        .output();
    let output = output.expect("unshare");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let asked = said.lines().filter_map(|line| line.split("Loading module: ").nth(1));
    asked.map(|name| name.trim().to_owned()).collect()
}

#[test]
fn peermem_is_loaded_now_and_at_boot_and_taken_back() {
    let bench = bench(&unloaded());
    let before = bench.tree();
    assert_eq!(outcome(&bench, "peermem.loaded", "mlx5_0"), "fail");

    // By the findings alone, without a name.
    let run = bench.repair(&["fix", "--yes", "--profile", "rdma"]);
    ended(&run, 0);
    assert!(run.stdout.contains("peermem.loaded: it holds now."), "{}", run.stdout);
    assert_eq!(outcome(&bench, "peermem.loaded", "mlx5_0"), "pass");
    assert_eq!(outcome(&bench, "peermem.boot", "nvidia-peermem"), "pass");
    assert_eq!(
        bench.calls(),
        ["modprobe nvidia_peermem"],
        "what it needs is loaded already"
    );
    if need(Need::Root) && need(Need::Systemd) && need(Need::Namespace) {
        assert_eq!(
            asked_for_at_boot(&bench),
            ["ib_core", "ib_uverbs", "nvidia-peermem", "vfio"],
            "the RDMA stack first"
        );
    }

    let after = bench.tree();
    let again = bench.repair(&["fix", "peermem", "--yes"]);
    ended(&again, 0);
    assert!(again.stdout.contains("Nothing is to be changed"), "{}", again.stdout);
    assert_eq!(bench.tree(), after);

    ended(&bench.repair(&["undo"]), 0);
    assert_eq!(
        bench.calls(),
        ["rmmod nvidia_peermem"],
        "not modprobe -r, which takes along what else is idle"
    );
    assert_eq!(bench.tree(), before);
    assert_eq!(outcome(&bench, "peermem.loaded", "mlx5_0"), "fail");
}

#[test]
fn after_a_reboot_the_undo_leaves_the_module_to_the_next_boot() {
    let mut patch = unloaded();
    support::merge(
        &mut patch,
        &json!({"files": {"proc/sys/kernel/random/boot_id": ["11111111-0000-0000-0000-000000000000"]}}),
    );
    let bench = bench(&patch);
    ended(&bench.repair(&["fix", "peermem", "--yes"]), 0);
    let boot = bench.root().join("proc/sys/kernel/random/boot_id");
    fs::write(boot, "22222222-0000-0000-0000-000000000000\n").expect("another boot");
    bench.calls();
    let undo = bench.repair(&["undo"]);
    ended(&undo, 0);
    assert!(undo.stdout.contains("a reboot has reset it already"), "{}", undo.stdout);
    assert_eq!(bench.calls(), Vec::<String>::new());
    assert!(!bench.root().join("etc/modules-load.d/gdr-peermem.conf").exists());
}

#[test]
fn a_module_that_cannot_load_is_refused_with_its_cure() {
    let dep = "lib/modules/6.8.0-60-generic/modules.dep";
    let symbols = "lib/modules/6.8.0-60-generic/modules.symbols";
    let alone = "updates/dkms/nvidia-peermem.ko.zst: updates/dkms/nvidia.ko.zst";
    for (files, words) in [
        (json!({dep: [alone]}), ["built without", "reinstall the NVIDIA driver"]),
        (
            json!({dep: [alone], symbols: ["alias symbol:ib_register_client ib_core"]}),
            ["has no peer memory", "DOCA-OFED"],
        ),
        (
            json!({dep: ["updates/dkms/nvidia.ko.zst:"]}),
            ["no nvidia-peermem.ko", "DOCA-OFED"],
        ),
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
        support::merge(&mut patch, &json!({"files": files}));
        let bench = bench(&patch);
        let before = bench.tree();
        let run = bench.repair(&["fix", "peermem", "--yes"]);
        ended(&run, 1);
        let said = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(said.contains(word), "'{word}' in: {said}");
        }
        assert_eq!(bench.tree(), before);
        assert_eq!(bench.calls(), Vec::<String>::new());
    }
}

#[test]
fn where_dma_buf_serves_every_nic_it_is_said_to_be_unnecessary() {
    let bench = bench(&json!({"with": ["driver-580", "sound-around"]}));
    let run = bench.gdr(&["fix", "peermem", "--dry-run"]);
    ended(&run, 0);
    let said = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("dma-buf is open for every NIC: nvidia-peermem is unnecessary"),
        "{said}"
    );
}

#[test]
fn a_blacklist_that_only_the_boot_heeds_is_named() {
    let mut patch = unloaded();
    support::merge(
        &mut patch,
        &json!({"files": {"etc/modprobe.d/site.conf": ["blacklist nvidia-peermem"]}}),
    );
    let run = bench(&patch).gdr(&["fix", "peermem", "--dry-run"]);
    ended(&run, 0);
    let said = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("keeps systemd from loading nvidia-peermem at boot"),
        "{said}"
    );
}

/// nv_peer_mem is loaded by its service, by a unit of the site's, and by two lists.
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
    support::merge(&mut patch, &more);
    patch
}

#[test]
fn nv_peer_mem_makes_room_at_the_next_boot() {
    if !need(Need::Systemd) {
        return;
    }
    let bench = bench(&predecessor());
    let before = bench.tree();
    assert_eq!(outcome(&bench, "peermem.legacy", "nv_peer_mem"), "warn");
    let run = bench.repair(&["fix", "peermem", "--yes"]);
    ended(&run, 0);
    let said = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("then: Stop what uses RDMA, then: rmmod nv_peer_mem"),
        "{said}"
    );
    assert!(said.contains("then: modprobe nvidia-peermem; or reboot."), "{said}");
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
    if need(Need::Root) && need(Need::Namespace) {
        let asked = asked_for_at_boot(&bench);
        assert!(asked.contains(&"nvidia-peermem".to_owned()), "{asked:?}");
        assert!(
            !asked.iter().any(|name| name.replace('-', "_") == "nv_peer_mem"),
            "{asked:?}"
        );
    }

    // What the reboot does: the old one is not loaded, the new one is.
    bench.root_command(
        "rm -r sys/module/nv_peer_mem sys/kernel/mm/memory_peers/nv_mem && sed -i /^nv_peer_mem/d proc/modules",
    );
    bench.run_tool("modprobe", &["nvidia-peermem"]);
    assert_eq!(outcome(&bench, "peermem.legacy", "nvidia-peermem"), "pass");
    assert_eq!(outcome(&bench, "peermem.boot", "nvidia-peermem"), "pass");
    assert_eq!(outcome(&bench, "peermem.loaded", "mlx5_0"), "pass");
    let again = bench.repair(&["fix", "peermem", "--yes"]);
    assert!(again.stdout.contains("Nothing is to be changed"), "{}", again.stdout);

    // And back, with the old one running again.
    bench.run_tool("rmmod", &["nvidia_peermem"]);
    bench.root_command(
        "mkdir -p sys/module/nv_peer_mem sys/kernel/mm/memory_peers/nv_mem && \
         echo 1.1-0 | tee sys/module/nv_peer_mem/version > sys/kernel/mm/memory_peers/nv_mem/version && \
         sed -i '1i nv_peer_mem 16384 0 - Live 0x0000000000000000 (OE)' proc/modules",
    );
    ended(&bench.repair(&["undo"]), 0);
    assert_eq!(bench.tree(), before);
    assert_eq!(outcome(&bench, "peermem.legacy", "nv_peer_mem"), "warn");
}

#[test]
fn openibd_loads_it_again_with_its_stack() {
    if !need(Need::Systemd) {
        return;
    }
    let bench = bench(&predecessor());
    ended(&bench.repair(&["fix", "peermem", "--yes"]), 0);
    bench.root_command("mkdir -p etc/init.d sbin && cp /bin/true etc/init.d/openibd && cp /bin/true sbin/modprobe");
    assert_eq!(bench.verify("openibd.service"), "");
    // That the tool would have said something.
    let drop_in = "etc/systemd/system/openibd.service.d/gdr-peermem.conf";
    let text = bench.text(drop_in);
    assert_eq!(
        text.lines().skip(1).collect::<Vec<_>>(),
        ["[Service]", "ExecStartPost=-/sbin/modprobe nvidia-peermem"]
    );
    fs::write(
        bench.root().join(drop_in),
        text.replace("ExecStartPost", "ExecStartPast"),
    )
    .expect("a drop-in");
    assert!(bench.verify("openibd.service").contains("ExecStartPast"));
}

#[test]
fn mlnx_ofed_4_9_wants_a_parameter() {
    let mut patch = unloaded();
    let more = json!({"files": {"sys/module/mlx5_core/version": ["4.9-7.1.0"], "sys/module/nvidia_peermem/version": ["580.159.04"],
        "sys/module/nvidia_peermem/parameters/peerdirect_support": ["0"]}});
    support::merge(&mut patch, &more);
    let bench = bench(&patch);
    assert_eq!(outcome(&bench, "peermem.legacy", "nvidia-peermem"), "warn");
    let run = bench.repair(&["fix", "peermem", "--yes"]);
    ended(&run, 0);
    if need(Need::Kmod) {
        let mut modprobe = Command::new("modprobe");
        modprobe
            .args(["--showconfig", "-C"])
            .arg(bench.root().join("etc/modprobe.d"));
        let said = modprobe.output().expect("modprobe").stdout;
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("options nvidia_peermem peerdirect_support=1"), "{said}");
    }
    assert!(
        run.stdout.contains("rmmod nvidia_peermem && modprobe nvidia-peermem"),
        "{}",
        run.stdout
    );
}

/// A ConnectX-7 that mlx5_core drives and nothing makes an RDMA device of.
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
fn a_nic_becomes_an_rdma_device() {
    let bench = bench(&no_rdma());
    // What mlx5_ib makes: what the whole machine has more than this one, below these directories.
    let whole = tempfile::tempdir().expect("a directory");
    Machine::load("sound").lay_out(whole.path());
    bench.keep_beside("rdma", whole.path(), "/infiniband");
    let before = bench.tree();
    assert_eq!(outcome(&bench, "rdma.modules", "machine"), "fail");

    let run = bench.repair(&["fix", "rdma-modules", "--yes"]);
    ended(&run, 0);
    assert!(run.stdout.contains("rdma.modules: it holds now."), "{}", run.stdout);
    assert_eq!(
        bench.calls(),
        ["modprobe ib_core", "modprobe ib_uverbs", "modprobe mlx5_ib"]
    );
    assert_eq!(outcome(&bench, "rdma.modules", "machine"), "pass");
    if need(Need::Root) && need(Need::Systemd) && need(Need::Namespace) {
        let asked = asked_for_at_boot(&bench);
        assert_eq!(asked[..2], ["ib_uverbs", "mlx5_ib"]);
    }
    let again = bench.repair(&["fix", "rdma-modules", "--yes"]);
    assert!(again.stdout.contains("Nothing is to be changed"), "{}", again.stdout);

    ended(&bench.repair(&["undo"]), 0);
    assert_eq!(
        bench.calls(),
        ["rmmod mlx5_ib", "rmmod ib_uverbs", "rmmod ib_core"],
        "mlx5_core carries the network"
    );
    assert_eq!(bench.tree(), before);
    assert_eq!(outcome(&bench, "rdma.modules", "machine"), "fail");
}

#[test]
fn what_is_not_on_disk_is_to_be_installed() {
    let mut patch = no_rdma();
    support::merge(
        &mut patch,
        &json!({"files": {"lib/modules/6.8.0-60-generic/modules.dep": ["kernel/drivers/infiniband/core/ib_core.ko.zst:"]}}),
    );
    let bench = bench(&patch);
    let run = bench.repair(&["fix", "rdma-modules", "--yes"]);
    ended(&run, 1);
    let said = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("There is no ib_uverbs.ko for kernel 6.8.0-60-generic: install"),
        "{said}"
    );
    assert!(said.contains("linux-modules-extra"), "{said}");
}
