//! platform.container: devices and files that a container lacks.

use crate::check::{Check, Ctx, Hint, Judgement, nics, words};
use crate::model::{ActionClass, Area, Fact, Mount, NodeFile, Process, Severity};

const NAMESPACES: &str = "/proc/self/ns";

pub const CHECK: Check = Check {
    id: "platform.container",
    rule: "A container has the device nodes of the machine's GPUs and NICs, and sees their \
        entries in /sys.",
    sources: "/proc/self/ns, /proc/self/mountinfo, /proc/self/uid_map, /dev",
    severity: Severity::Warn,
    why: "A container sees only the device nodes that it was given. Without its node a GPU or \
        NIC does not exist for the container's programs.",
    remedy: "Add the nodes: --device, or the GPU and RDMA device plugins.",
    action: ActionClass::Configure
        .running("https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/"),
    references: &["https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/"],
    hint: Some(Hint {
        cause: "The container lacks devices, rights or limits that the host has.",
        words: "container=4 shared-memory=4 rdma-device=4 not-permitted=3 cuda-ipc=3 driver=2 no-device=2 missing=1 \
            failure=1 rdma=1 memlock=1 gdrcopy=1 imex=1 gpu-word=1 socket-net=-1 peermem=-1",
    }),
    judge: container,
    ..Check::DEFAULT
};

/// A container has namespaces other than the initial ones; files of an image alone do not make one.
fn container(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let marks = match &ctx.facts.platform.container_marks {
        Fact::Known(marks) => marks,
        Fact::Unknown(why) => {
            return vec![Judgement::unknown("this process", *why, Area::Proc, NAMESPACES)];
        }
    };
    let (namespaces, files): (Vec<&String>, Vec<&String>) =
        marks.iter().partition(|mark| mark.starts_with("namespace "));
    if namespaces.is_empty() {
        let message = if files.is_empty() {
            "This is not a container.".to_owned()
        } else {
            format!(
                "This is not a container: the namespaces are the machine's, although container engines left traces: {}.",
                words::list(files.iter().map(|file| file.as_str()))
            )
        };
        return vec![
            Judgement::pass("this process", message).evidence(NAMESPACES, "the machine's own"),
        ];
    }
    vec![inside(ctx).evidence(NAMESPACES, words::list(marks))]
}

fn inside(ctx: &Ctx<'_>) -> Judgement {
    let subject = "this process";
    let missing = match missing(ctx) {
        Fact::Known(missing) => missing,
        Fact::Unknown(why) => return Judgement::unknown(subject, why, Area::Devices, "/dev"),
    };
    let mut message = "This is a container.".to_owned();
    if ctx.facts.process.initial_user_namespace == Fact::Known(false) {
        message.push_str(" It has a user namespace: the driver ignores capabilities inside it.");
    }
    let masked = masked(ctx);
    if !masked.is_empty() {
        message.push_str(&format!(
            " Another mount covers {}: gdr does not read the machine's files there.",
            words::list(&masked)
        ));
    }
    message.push_str(" With RDMA in exclusive mode (rdma system), devices of other network namespaces are not visible here.");
    let mut add = Vec::new();
    if missing.iter().any(|path| path.starts_with("/dev/nvidia")) {
        add.push("--gpus all (or --runtime=nvidia)".to_owned());
    }
    add.extend(
        missing
            .iter()
            .filter(|path| !path.starts_with("/dev/nvidia"))
            .map(|path| format!("--device={path}")),
    );
    if matches!(ctx.facts.process.memlock_soft, Fact::Known(Some(_)))
        && ctx.facts.process.capable(Process::CAP_IPC_LOCK) != Fact::Known(true)
    {
        // The capability helps only root in the initial user namespace; the limit helps every user.
        add.push("--ulimit memlock=-1".to_owned());
    }
    if !masked.is_empty() {
        add.push("-v /sys:/sys:ro".to_owned());
    }
    let advice = format!("Start the container with {}.", add.join(" "));
    let judgement = match (missing.is_empty(), add.is_empty()) {
        (true, true) => Judgement::info(subject, message),
        (true, false) => Judgement::info(subject, message).advice(advice),
        (false, _) => {
            let list = words::list(&missing);
            Judgement::broken(subject, format!("{message} It lacks {list}."))
                .evidence("/dev", format!("no {list}"))
                .advice(advice)
        }
    };
    if masked.is_empty() {
        judgement
    } else {
        judgement.evidence("/proc/self/mountinfo", words::list(&masked))
    }
}

/// Paths that gdr reads in /sys and that an engine covers with an empty file system.
fn masked(ctx: &Ctx<'_>) -> Vec<String> {
    const READ: [&str; 5] =
        ["/sys/bus", "/sys/class", "/sys/devices", "/sys/kernel", "/sys/module"];
    let mounts = ctx.facts.platform.mounts.known().into_iter().flatten();
    let covers = |mount: &&Mount| {
        let part = |part: &str| mount.at == part || mount.at.starts_with(&format!("{part}/"));
        // Docker covers these two; they have no devices.
        let harmless = ["/sys/devices/virtual/powercap", "/sys/devices/system/cpu"]
            .iter()
            .any(|path| mount.at.starts_with(path));
        mount.kind == "tmpfs" && READ.iter().any(|path| part(path)) && !harmless
    };
    mounts.filter(covers).map(|mount| mount.at.clone()).collect()
}

/// Missing device nodes. A container may have only some of the GPUs.
fn missing(ctx: &Ctx<'_>) -> Fact<Vec<String>> {
    let mut missing = Vec::new();
    if ctx.facts.gpus().next().is_some() {
        let nodes = match &ctx.facts.nvidia_nodes {
            Fact::Known(nodes) => nodes,
            Fact::Unknown(why) => return Fact::Unknown(*why),
        };
        let there = |node: &&NodeFile| !node.state.is_absent();
        let any = |matches: &dyn Fn(&str) -> bool| {
            nodes.iter().filter(there).any(|node| matches(&node.path))
        };
        let numbered =
            |path: &str| path.strip_prefix("/dev/nvidia").is_some_and(|n| n.parse::<u32>().is_ok());
        for (there, path) in [
            (any(&numbered), "/dev/nvidia0"),
            (any(&|path| path == "/dev/nvidiactl"), "/dev/nvidiactl"),
            (any(&|path| path == "/dev/nvidia-uvm"), "/dev/nvidia-uvm"),
        ] {
            if !there {
                missing.push(path.to_owned());
            }
        }
    }
    for device in nics::rdma_nics(ctx.facts) {
        if let Some(node) = device.uverbs.present()
            && node.state.is_absent()
        {
            missing.push(node.path.clone());
        }
    }
    Fact::Known(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, assert_fix_says, assert_says, machine, only};
    use crate::model::{Facts, Outcome, Why};

    fn with(marks: &[&str]) -> Facts {
        let mut facts = machine();
        facts.platform.container_marks =
            Fact::Known(marks.iter().map(|mark| (*mark).to_owned()).collect());
        facts
    }

    #[test]
    fn files_alone_make_no_container() {
        assert_eq!(only("platform.container", &with(&[])).message, "This is not a container.");
        let found = only("platform.container", &with(&["file /.dockerenv"]));
        assert_eq!(found.outcome, Outcome::Pass);
        assert_says(&found, "container engines left traces: file /.dockerenv");
    }

    #[test]
    fn lists_missing_nodes_and_limits() {
        let mut facts = with(&["namespace pid:[4026532000]", "file /.dockerenv"]);
        assert_eq!(only("platform.container", &facts).outcome, Outcome::Info);
        facts.process.memlock_soft = Fact::Known(Some(65536));
        let fix = only("platform.container", &facts).fix.expect("advice");
        assert_eq!(fix.text(), "Start the container with --ulimit memlock=-1.");
        facts.nvidia_nodes = Fact::Known(Vec::new());
        facts.nic_mut().uverbs = Fact::Known(Some(NodeFile {
            path: "/dev/infiniband/uverbs0".to_owned(),
            state: Fact::Known(None),
        }));
        facts.process.initial_user_namespace = Fact::Known(false);
        let found = only("platform.container", &facts);
        assert_eq!(found.outcome, Outcome::Warn);
        assert!(found.message.contains(
            "lacks /dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm, /dev/infiniband/uverbs0"
        ));
        assert_says(&found, "It has a user namespace");
        let command = found.fix.expect("advice").text();
        assert!(
            command.contains("--gpus all") && command.contains("--device=/dev/infiniband/uverbs0"),
            "{command}"
        );
    }

    #[test]
    fn lists_covered_parts_of_sys() {
        let mut facts = with(&["namespace pid:[4026532000]"]);
        let tmpfs = |at: &str| Mount {
            at: at.to_owned(),
            kind: "tmpfs".to_owned(),
            read_only: true,
            size: None,
        };
        facts.platform.mounts = Fact::Known(vec![
            tmpfs("/sys/firmware"),
            tmpfs("/sys/devices/virtual/powercap"),
            tmpfs("/sys/class/infiniband"),
        ]);
        let found = only("platform.container", &facts);
        assert_eq!(found.outcome, Outcome::Info);
        assert_says(&found, "Another mount covers /sys/class/infiniband");
        assert_fix_says(&found, "-v /sys:/sys:ro");
        // The limit does not apply to root in the initial user namespace.
        facts.platform.mounts = Fact::Known(Vec::new());
        facts.process.memlock_soft = Fact::Known(Some(65536));
        facts.process.capabilities = Fact::Known(1 << 14);
        assert_eq!(only("platform.container", &facts).fix, None);
    }

    #[test]
    fn unknown_namespaces_and_nodes() {
        let mut facts = with(&["namespace pid:[4026532000]"]);
        facts.nvidia_nodes = Fact::Unknown(Why::Denied);
        assert_eq!(only("platform.container", &facts).outcome, Outcome::Unknown);
    }
}
