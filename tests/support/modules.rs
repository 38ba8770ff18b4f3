//! Kernel modules of a machine on the bench: programs that stand in for modprobe and rmmod, and what the real
//! systemd-modules-load makes of its lists.

use std::process::Command;

use super::Bench;

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

impl Bench {
    /// Gives it modprobe and rmmod. What mlx5_ib makes lies in a directory `rdma` beside the root (`keep_beside`).
    pub fn have_kmod(&self) {
        self.tool("modprobe", MODPROBE);
        self.tool("rmmod", RMMOD);
    }

    /// What systemd-modules-load asks for on this root, in order: the real one, with the lists of the root in the place of
    /// its own. It reads one directory here; the others of this machine have none of these modules.
    pub fn asked_for_at_boot(&self) -> Vec<String> {
        let lists = self.root().join("etc/modules-load.d");
        let script =
            "mount --bind \"$1\" /etc/modules-load.d && exec /lib/systemd/systemd-modules-load";
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "sh", "-c", script, "sh"]).arg(lists);
        let output =
            unshare.env("SYSTEMD_LOG_LEVEL", "debug").env("SYSTEMD_LOG_TARGET", "console").output();
        let output = output.expect("unshare");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let asked = said.lines().filter_map(|line| line.split("Loading module: ").nth(1));
        asked.map(|name| name.trim().to_owned()).collect()
    }
}
