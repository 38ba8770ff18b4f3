//! limits.shm: how much /dev/shm holds.

use crate::check::{Check, Ctx, Judgement, container, passthrough, unknown_if, words};
use crate::model::{ActionClass, Area, Mount, Severity, Why};

const SOURCE: &str = "/proc/self/mountinfo";
const SHM: &str = "/dev/shm";
/// What NCCL's documentation gives a container (Troubleshooting, Shared Memory).
const ENOUGH: u64 = 1 << 30;

pub const CHECK: Check = Check {
    id: "limits.shm",
    rule: "/dev/shm holds at least 1 GiB.",
    sources: "/proc/self/mountinfo",
    severity: Severity::Warn,
    why: "NCCL, MPI and the data loaders of PyTorch exchange data of processes on one machine in /dev/shm. Where it is full, NCCL \
        ends with No space left on device, and a data loader with Bus error. Docker and Kubernetes give a container 64 MiB.",
    remedy: "docker run --shm-size=1g or more, or --ipc=host; in Kubernetes an emptyDir with medium: Memory at /dev/shm; on a host \
        mount -o remount,size=50% /dev/shm.",
    action: ActionClass::Configure
        .running("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"),
    references: &[
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        "https://docs.docker.com/reference/cli/docker/container/run/",
        "https://docs.kernel.org/filesystems/tmpfs.html",
    ],
    judge: shm,
    ..Check::DEFAULT
};

fn shm(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if ctx.facts.pci.known().is_some() && passthrough::own_gpus(ctx.facts).next().is_none() {
        return vec![Judgement::skip("machine", "There is no GPU.")];
    }
    let mounts = &ctx.facts.platform.mounts;
    if let Some(unknown) = unknown_if(mounts, SHM, Area::Proc, SOURCE) {
        return vec![unknown];
    }
    let mounts = mounts.known().into_iter().flatten();
    // A later mount covers an earlier one.
    let at = |path: &str| mounts.clone().rfind(|mount| mount.at == path);
    let holder = [SHM, "/dev", "/"].into_iter().find_map(at);
    vec![match holder {
        Some(mount) => judge(ctx, mount),
        None => Judgement::unknown(SHM, Why::NotCovered, Area::Proc, SOURCE),
    }]
}

fn judge(ctx: &Ctx<'_>, mount: &Mount) -> Judgement {
    let mode = if mount.read_only { "ro" } else { "rw" };
    let size = mount.size.map(words::size);
    let own = if mount.at == SHM {
        String::new()
    } else {
        format!(", which is part of {} ({})", mount.at, mount.kind)
    };
    let judgement = match (mount.read_only, mount.size) {
        (true, _) => Judgement::broken(
            SHM,
            format!("/dev/shm{own} is read-only: no program can create shared memory in it."),
        )
        .advice("Mount a tmpfs there: mount -t tmpfs -o size=50% tmpfs /dev/shm."),
        (false, Some(bytes)) if bytes < ENOUGH => enlarge(
            ctx,
            Judgement::broken(
                SHM,
                format!(
                    "/dev/shm{own} holds {}: NCCL's documentation gives it 1 GiB. Beyond its size NCCL ends with No space left on device, \
                     and PyTorch's data loaders with Bus error.",
                    words::size(bytes)
                ),
            ),
        ),
        (false, Some(bytes)) => {
            Judgement::pass(SHM, format!("/dev/shm{own} holds {}.", words::size(bytes)))
        }
        (false, None) if mount.kind == "tmpfs" => {
            Judgement::pass(SHM, format!("/dev/shm{own} holds half of the memory, the default."))
        }
        (false, None) => Judgement::info(
            SHM,
            format!(
                "/dev/shm{own} is not a tmpfs: shared memory may be slower than memory, or on a disk."
            ),
        ),
    };
    let size = size.map_or(String::new(), |size| format!(", size={size}"));
    judgement.evidence(SOURCE, format!("{} {}, {mode}{size}", mount.at, mount.kind))
}

fn enlarge(ctx: &Ctx<'_>, judgement: Judgement) -> Judgement {
    if container::in_container(ctx) {
        judgement.advice(
            "Start the container with --shm-size=1g or more, or with --ipc=host; in Kubernetes mount an emptyDir with medium: Memory \
             at /dev/shm.",
        )
    } else {
        judgement
            .command("mount -o remount,size=50% /dev/shm")
            .advice("A line of /etc/fstab keeps it across reboots.")
    }
}
