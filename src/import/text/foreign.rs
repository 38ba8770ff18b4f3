//! What a text looks like that yields nothing, for its message.

/// Programs whose output says nothing about GPUs, NICs and PCI devices, by the first line.
const FOREIGN: [(&str, &str); 22] = [
    ("              total        used        free", "free"),
    ("               total        used        free", "free"),
    ("Filesystem ", "df"),
    ("NAME ", "lsblk, or a table of another program"),
    ("top - ", "top"),
    ("  PID ", "ps"),
    ("USER ", "ps"),
    ("Mem: ", "free"),
    ("FROM ", "a Dockerfile"),
    ("#!/", "a script"),
    ("#include ", "source code"),
    ("import ", "source code"),
    ("diff --git ", "a patch"),
    ("apiVersion:", "a manifest of Kubernetes"),
    ("make: ", "the log of a build"),
    ("make[", "the log of a build"),
    ("-- The ", "the log of a build"),
    ("{", "a JSON document"),
    ("nvcc: NVIDIA", "nvcc --version"),
    ("Bus 001 Device ", "lsusb"),
    ("[default]", "a configuration file"),
    ("usage: ", "a program's help"),
];

/// Documents, by the first line that is not empty.
const DOCUMENTS: [(&str, &str); 5] = [
    ("<?xml", "an XML document"),
    ("<!", "an XML or HTML document"),
    ("<html", "an XML or HTML document"),
    ("<system", "an XML or HTML document"),
    ("<topology", "an XML or HTML document"),
];

const NEAR: &str =
    "a list of GPUs and NICs without their classes ('nvidia-smi topo -m' shows them)";

const FABRIC: &str = "a list of a fabric's nodes and ports ('ibstat' shows those of one machine)";
const GROUPS: &str =
    "a list of IOMMU groups that does not name the functions ('lspci -nn' names them)";

/// Output in which gdr finds no device, by words of a line: the line begins with the first, if any, and has the second.
const WITHOUT_DEVICES: [(&str, &str, &str); 93] = [
    ("# Port extended counters:", "", "perfquery, whose port may be one of another machine"),
    ("crw", " uverbs", "ls -l /dev/infiniband, which names no RDMA device"),
    ("Name=gpu", "File=/dev/nvidia", "gres.conf of Slurm, which says what a node should have"),
    ("CfgTRES=", "gres/gpu", "lines of scontrol show node without Gres="),
    ("", "nvidia-fabricmanager", "a log of the fabric manager, which names ports of NVSwitches"),
    ("Software link status:", "", "a list of the links of a switch"),
    ("GPU", " X ", "rows of nvidia-smi topo -m without its first line"),
    ("NIC", " X ", "rows of nvidia-smi topo -m without its first line"),
    ("LnkCap:", "GT/s", "lines of lspci -vv without the line that names the device"),
    ("LnkSta:", "GT/s", "lines of lspci -vv without the line that names the device"),
    ("-[0000:", "-", "a tree of lspci -t, whose devices have no names"),
    ("-+-[0000:", "-", "a tree of lspci -t, whose devices have no names"),
    ("BAR1 Memory Usage", "", "a part of nvidia-smi -q without the line that names the GPU"),
    ("GPU Link Info", "", "a part of nvidia-smi -q without the line that names the GPU"),
    ("max locked memory", "-l)", "ulimit -a"),
    ("(II) ", "", "the log of the X server, without its lines of GPUs"),
    ("Slot: ", "@", "system_profiler, which shows no PCI addresses"),
    ("<process_info>", "", "a part of nvidia-smi -q -x without the element of the GPU"),
    ("LinkState:..", "", "ibportstate or smpquery, whose port may be one of another machine"),
    ("# Port info:", "", "ibportstate or smpquery, whose port may be one of another machine"),
    ("# Port counters:", "", "perfquery, whose port may be one of another machine"),
    ("# Topology file:", "", FABRIC),
    ("vendid=0x", "", FABRIC),
    ("Switch: 0x", "", FABRIC),
    ("", " ==( ", FABRIC),
    ("/sys/kernel/iommu_groups/", "/devices/", GROUPS),
    ("IOMMU Group ", "", GROUPS),
    ("IOMMU group ", "", GROUPS),
    (
        "pci/0000:",
        "",
        "devlink dev, which does not say what the devices are ('devlink dev info' names their drivers)",
    ),
    ("NodeName=", "Name=gpu", "gres.conf of Slurm, which says what a node should have"),
    ("NODELIST ", "GRES", "sinfo, a table of several nodes ('scontrol show node NAME' shows one)"),
    ("[CudaDevice(id=", "", "a list of JAX's devices, which may be those of several machines"),
    ("", "ealth check failed:", "a log of nhc, without a failed check of a GPU or NIC"),
    ("Used GPU Memory ", ":", "a part of nvidia-smi -q without the line that names the GPU"),
    ("TRACER_ENABLE ", "", "a part of mlxconfig query without the line that names the NIC"),
    ("un  nvidia-", "", "dpkg -l, without an installed driver"),
    ("level=INFO source=", "", "ollama's log, without its line of a GPU"),
    ("", " source=routes.go", "ollama's log, without its line of a GPU"),
    ("Features for ", ":", "ethtool -k"),
    ("+-----  Integration", "", "dcgmi diag, without its head"),
    ("GID[", "", "a part of ibv_devinfo -v without the line that names the device"),
    ("active_mtu:", "", "a part of ibv_devinfo without the line that names the device"),
    ("GRUB_CMDLINE_LINUX", "=", "a part of /etc/default/grub"),
    ("|", "]----", "a part of lspci -tv without its first line"),
    ("+-", "]----", "a part of lspci -tv without its first line"),
    ("\"Operational Info\"", "", "mlxlink --json, which gdr reads as text"),
    ("GP0 ", " GP1 ", "a matrix of a sample of DCGM, whose classes gdr does not know"),
    (
        "nvidia.com/gpu:",
        "",
        "a part of kubectl describe node without the labels of GPU Feature Discovery",
    ),
    ("VULKANINFO", "", "vulkaninfo, without a GPU of NVIDIA"),
    ("vendorID ", "=", "vulkaninfo, without a GPU of NVIDIA"),
    ("", " ROCm System Management Interface ", "rocm-smi, which shows GPUs of another vendor"),
    ("HSA Agents", "", "rocminfo, which shows GPUs of another vendor"),
    ("", "AMD-SMI", "amd-smi, which shows GPUs of another vendor"),
    ("MTHREADS Topology", "", "a topology of another vendor's GPUs"),
    ("| NPU ", "|", "npu-smi, which shows devices of another vendor"),
    ("", "XPU-SMI", "xpu-smi, which shows GPUs of another vendor"),
    ("", "| DeviceID", "xpu-smi, which shows GPUs of another vendor"),
    ("Graphics:", "", "inxi, without addresses (inxi -Fxx shows them)"),
    ("Interface  Slave Of", "", "xsos"),
    ("Container runtime", "", "docker info"),
    ("Machine (", ")", "lstopo, without a GPU or an RDMA device"),
    ("Package L#0", "", "lstopo, without a GPU or an RDMA device"),
    ("Device-1:", "", "inxi, without addresses (inxi -Fxx shows them)"),
    ("PyTorch version", ":", "PyTorch's collect_env"),
    ("Traceback (most recent call last):", "", "a Python program that failed"),
    (
        "PARTITION ",
        "NODELIST",
        "sinfo, a table of several nodes ('scontrol show node NAME' shows one)",
    ),
    (
        "NAME ",
        " ROLES ",
        "kubectl get nodes, a table of several nodes ('kubectl describe node NAME' shows one)",
    ),
    ("NAME ", " READY ", "kubectl get pods"),
    ("CONTAINER ID ", "IMAGE", "docker ps ('docker inspect NAME' shows the GPUs of a container)"),
    ("Package ", "Version", "pip list"),
    ("# packages in environment", "", "conda list"),
    ("GPU", "mlx5_", NEAR),
    ("- GPU", "mlx5_", NEAR),
    ("* GPU", "mlx5_", NEAR),
    ("| GPU", "mlx5_", NEAR),
    ("processor\t:", "", "/proc/cpuinfo"),
    ("(Reading database", "", "the log of dpkg"),
    ("execve(", " = ", "strace, whose calls show no device"),
    ("openat(", " = ", "strace, whose calls show no device"),
    ("coreboot-", "", "the log of coreboot, which names no vendors"),
    ("[NOTE ]  coreboot-", "", "the log of coreboot, which names no vendors"),
    ("-PCI Devices-", "", "a report of hardinfo, without addresses"),
    ("HardInfo", "", "a report of hardinfo, without addresses"),
    ("", "Self CUDA time total:", "PyTorch's profile of a program"),
    ("NUMA node(s):", "", "a part of lscpu"),
    ("L2 L#", " PU L#", "lstopo, without a GPU or an RDMA device"),
    ("vendor_part_id:", "", "a part of ibv_devinfo without the line that names the device"),
    ("", " False(0) ", "a part of mlxconfig query without the line that names the NIC"),
    ("Configurations:", "Current", "a part of mlxconfig query without the line that names the NIC"),
    ("", "LAST_CFG(0)", "a part of mlxconfig query without the line that names the NIC"),
    ("PCI: ", " enabled", "the log of coreboot, which names no vendors"),
    ("Status=Not/Inst", "", "dpkg -l, without a package of NVIDIA or RDMA"),
    ("||/ Name", "", "dpkg -l, without a package of NVIDIA or RDMA"),
];

/// What another text looks like, by its first lines.
pub fn name(bytes: &[u8]) -> Option<&'static str> {
    let start = &bytes[..bytes.len().min(16 << 10)];
    let text = String::from_utf8_lossy(start);
    if start.iter().filter(|byte| **byte < 9).count() > start.len() / 50 {
        return Some("a binary file");
    }
    let mut lines = text.lines().map(str::trim_start);
    let without_devices = lines.find_map(|line| {
        let line = line.trim_start_matches(['>', ' ']);
        let known = WITHOUT_DEVICES
            .iter()
            .find(|(begin, word, _)| line.starts_with(begin) && line.contains(word));
        known.map(|(.., name)| *name)
    });
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).take(20);
    let known = without_devices.or_else(|| {
        lines.find_map(|line| {
            let known = FOREIGN.iter().find(|(begin, _)| line.starts_with(begin));
            known.map(|(_, name)| *name)
        })
    });
    let first = text.lines().map(str::trim_start).find(|line| !line.is_empty()).unwrap_or_default();
    let document = || DOCUMENTS.iter().find(|(begin, _)| first.starts_with(begin));
    known
        .or_else(|| document().map(|(_, name)| *name))
        .or_else(|| is_log(&text).then_some("the log of a program that gdr does not know"))
}

/// True if most lines begin with a time or a level.
fn is_log(text: &str) -> bool {
    const LEVELS: [&str; 5] = ["INFO", "WARN", "ERROR", "DEBUG", "time="];
    let has_time = |line: &str| {
        let head: String = line.chars().take(32).collect();
        let digit = |at: usize| head.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
        let is_time =
            |(at, _): (usize, &str)| at > 1 && digit(at - 1) && digit(at + 1) && digit(at + 2);
        head.match_indices(':').any(is_time) || LEVELS.iter().any(|level| head.contains(level))
    };
    let lines = || text.lines().filter(|line| !line.trim().is_empty()).take(100);
    lines().count() > 2 && lines().filter(|line| has_time(line)).count() * 2 > lines().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_without_devices_have_a_name() {
        for (text, word) in [
            (
                "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu up infinite 4 idle n[1-4]\n",
                "sinfo",
            ),
            (
                "NAME   STATUS   ROLES    AGE   VERSION\nnode1  Ready    <none>   3d    v1.29.1\n",
                "kubectl get nodes",
            ),
            (
                "CONTAINER ID   IMAGE     COMMAND   CREATED\n0123456789ab   a:1   sh  2 days ago\n",
                "docker ps",
            ),
            ("Package    Version\n---------- -------\ntorch      2.4.0\n", "pip list"),
            (
                "words\nTraceback (most recent call last):\n  File \"a.py\", line 1\n",
                "a Python program",
            ),
            ("FROM nvcr.io/nvidia/pytorch:24.05-py3\nRUN pip install a\n", "a Dockerfile"),
            ("execve(\"/usr/bin/a\", [\"a\"], 0x7ffd) = 0\nbrk(NULL) = 0x5581\n", "strace"),
            ("coreboot-4.19 bootblock starting\nPCI: 00:1c.0 enabled\n", "coreboot"),
            ("top - 10:00:00 up 1 day\nMiB Mem : 1 total\n", "top"),
            ("# Port counters: Lid 2 port 1\nPortSelect:......1\n", "perfquery"),
            ("#\n# Topology file: generated on Mon\n", "fabric"),
            (
                "1    2[  ] ==( 4X      100.0 Gbps Active/  LinkUp)==>       3    1[  ] \"a\" ( )\n",
                "fabric",
            ),
            ("IOMMU Group 1 0000:01:00.0\n", "IOMMU groups"),
            ("pci/0000:1a:00.0\npci/0000:1a:00.1\n", "devlink dev"),
            ("NodeName=n1 Name=gpu Type=h100 File=/dev/nvidia[0-7]\n", "gres.conf"),
            ("[CudaDevice(id=0), CudaDevice(id=1)]\n", "JAX"),
            ("nhc: Health check failed: check_fs_mount: /home not mounted\n", "nhc"),
            ("crw-rw-rw- 1 root root 231, 192 Mar 22 10:47 uverbs0\n", "ls -l /dev/infiniband"),
            ("# Port extended counters: Lid 10 port 1\nPortSelect:..1\n", "perfquery"),
            ("Name=gpu Type=h100 File=/dev/nvidia0\n", "gres.conf"),
            ("   CfgTRES=cpu=32,gres/gpu=4\n", "scontrol show node"),
            ("x nvidia-fabricmanager-wrapper: found mlx5_0\n", "fabric manager"),
            ("Software link status:\n  Ethernet0  up\n", "a switch"),
            ("- GPU0 -> mlx5_0\n- GPU1 -> mlx5_1\n", "GPUs and NICs"),
            (
                "2025-01-02 10:00:00 a\n2025-01-02 10:00:01 b\n2025-01-02 10:00:02 c\n",
                "the log of a program",
            ),
        ] {
            assert!(name(text.as_bytes()).is_some_and(|name| name.contains(word)), "{text}");
        }
        assert_eq!(name(b">>> a()\n<CDLL 'x', handle 1>\n"), None);
        assert_eq!(name(b"My job is slow: why?\nIt was fast.\nNow it is not.\n"), None);
    }
}
