//! Snapshots with more devices, or longer answers, than a machine has.

use serde_json::{Value, json};

use super::made::{DOWNSTREAM, INFINIBAND, Made, ROOT_PORT, UPSTREAM, address};
use super::{Input, LARGEST};

/// So many GPUs, each on a root bus of its own.
pub fn gpus(count: usize) -> Input {
    let mut made = Made::new();
    (0..count).for_each(|at| made.gpu(&address(at, 1), &[]));
    made.input(&format!("{count} GPUs"))
}

/// GPUs and NICs, each on a root bus of its own; with names of this length, where it is not 0.
fn flat(name: &str, gpus: usize, nics: usize, length: usize) -> Input {
    let mut made = Made::new();
    (0..gpus).for_each(|at| made.gpu(&address(at, 1), &[]));
    for at in gpus..gpus + nics {
        made.nic(&address(at, 1), &[], format!("mlx5_{at:0>length$}"));
    }
    made.input(name)
}

/// GPUs and NICs at the end of a chain of so many switch ports, each below a downstream port of its own.
fn chain(name: &str, gpus: usize, nics: usize, depth: usize) -> Input {
    let mut made = Made::new();
    let mut above: Vec<String> = Vec::new();
    for at in 0..depth {
        let bdf = address(at, 0);
        let kind = if at == 0 {
            ROOT_PORT
        } else if at % 2 == 1 {
            UPSTREAM
        } else {
            DOWNSTREAM
        };
        made.port(&bdf, &above, kind);
        above.push(bdf);
    }
    for at in 0..gpus + nics {
        let port = address(0x100 + at, 1);
        made.port(&port, &above, DOWNSTREAM);
        let above = [above.as_slice(), &[port]].concat();
        let bdf = address(0x1000 + at, 0);
        if at < gpus {
            made.gpu(&bdf, &above);
        } else {
            made.nic(&bdf, &above, format!("mlx5_{at}"));
        }
    }
    made.input(name)
}

fn numbered(count: usize, item: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..count).map(item).collect()
}

fn nvml(gpus: usize, pairs: usize) -> Value {
    let unknown = json!({"unknown": "broken"});
    let gpu = |at: usize| {
        let mut gpu = json!({"index": at, "bdf": address(at, 1)});
        for key in [
            "name",
            "uuid",
            "minor",
            "active_links",
            "memory_node",
            "bar1",
            "memory_total",
            "persistence",
            "mig",
            "fabric",
            "performance_state",
            "virtualization",
            "architecture",
        ] {
            gpu[key] = unknown.clone();
        }
        gpu["active_links"] = json!({"known": numbered(18, |link| json!({"index": link, "remote": {"known": "switch"}, "remote_bdf": unknown}))});
        gpu
    };
    let pair = |at: usize| {
        json!({"from": at / gpus, "to": at % gpus,
            "p2p": {"read": {"known": "ok"}, "write": {"known": "ok"}}})
    };
    json!({"read": {"library": null, "driver_version": unknown, "cuda_version": unknown, "confidential_compute": unknown,
        "gpus": numbered(gpus, gpu), "unreachable": [], "pairs": numbered(pairs, pair)}})
}

/// Snapshots whose devices are many, or far from each other, or have long names.
pub fn many_devices() -> Vec<Input> {
    vec![
        flat("1024 rows", 512, 512, 0),
        flat("long names", 100, 900, 240),
        flat("9500 NICs", 8, 9_500, 0),
        chain("switch", 255, 0, 2),
        chain("wide switch", 32, 990, 2),
        chain("deep", 200, 60, 31),
        chain("deep and wide", 32, 900, 20),
    ]
}

/// Snapshots of few devices: what files and libraries answered is long.
pub fn long_answers() -> Vec<Input> {
    let text = |name: &str, path: &str, text: String| {
        let mut made = Made::new();
        (0..8).for_each(|at| made.gpu(&address(at, 1), &[]));
        made.put(path, json!({ "text": text }));
        made.input(name)
    };
    let answers = |name: &str, gpus: usize, library: &str, answer: Value| {
        let mut made = Made::new();
        (0..gpus).for_each(|at| made.gpu(&address(at, 1), &[]));
        made.library(library, answer);
        made.input(name)
    };
    let mut files = Made::new();
    (0..190_000).for_each(|at| files.put(format!("/{at:x}"), json!({})));
    let mut drop_ins = Made::new();
    let names: Vec<String> = (0..30_000).map(|at| format!("{at:05}.conf")).collect();
    for name in &names {
        let line = "# gdr: line 1\noptions nvidia NVreg_EnableStreamMemOPs=1\n";
        let state = json!({"kind": "regular", "mode": 420, "device": [0, 0]});
        drop_ins.put(format!("/etc/modprobe.d/{name}"), json!({"state": state, "text": line}));
    }
    drop_ins.put("/etc/modprobe.d", json!({ "names": names }));
    let mut ports = Made::new();
    for at in 0..1_000 {
        ports.nic(&address(at, 1), &[], format!("mlx5_{at}"));
        let names: Vec<String> = (1..60).map(|port| port.to_string()).collect();
        ports.put(format!("{INFINIBAND}/mlx5_{at}/ports"), json!({ "names": names }));
    }
    let half = LARGEST - (1 << 20);
    vec![
        answers("NVML pairs", 128, "nvml", nvml(128, 16_384)),
        answers("NVML GPUs", 1_000, "nvml", nvml(1_000, 0)),
        answers("too many NVML pairs", 128, "nvml", nvml(128, 30_000)),
        answers(
            "CUDA pairs",
            128,
            "cuda",
            json!({"read": {"gpus": numbered(128, |at| json!({"bdf": address(at, 1)})),
                "pairs": numbered(16_384, |at| json!({"from": at / 128, "to": at % 128}))}}),
        ),
        answers(
            "a long reason",
            8,
            "nvml",
            json!({"failed": {"code": 1, "reason": "r".repeat(half)}}),
        ),
        files.input("190000 files"),
        drop_ins.input("30000 drop-ins"),
        ports.input("59000 ports"),
        text("command line", "/proc/cmdline", "iommu=pt ".repeat(half / 9)),
        text("modules", "/proc/modules", "nvidia 1 - a,b, Live\n".repeat(half / 22)),
        text("parameters", "/proc/driver/nvidia/params", "a: 1\n".repeat(half / 6)),
        text(
            "registry",
            "/proc/driver/nvidia/params",
            format!("RegistryDwords: \"{}\"\n", "PeerMappingOverride=1;".repeat(half / 22)),
        ),
        text("limits", "/etc/security/limits.conf", "* - memlock 1\n".repeat(half / 15)),
        text(
            "CPU list",
            "/sys/devices/system/node/node0/cpulist",
            (0..900_000).map(|cpu| format!("{},", 2 * cpu)).collect(),
        ),
    ]
}
