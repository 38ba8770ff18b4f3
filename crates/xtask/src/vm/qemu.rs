//! QEMU's command line.

use std::path::Path;
use std::process::Command;

use super::hardware;
use super::image::Image;
use super::machine::{Iommu, Machine};

/// The files of a guest, in the run's working directory.
pub struct Files<'a> {
    /// Base image and this run's files, concatenated.
    pub initramfs: &'a Path,
    /// Console output of the kernel and the init script.
    pub console: &'a Path,
    /// Disk for the guest's output.
    pub outbox: &'a Path,
    /// Disk that outlives the guest: /dev/vdb.
    pub disk: Option<&'a Path>,
    /// Socket that connects two guests.
    pub cable: &'a Path,
}

/// MiB of memory per NUMA node.
const NODE_MEMORY: u32 = 512;

/// MiB of the ivshmem device's BAR 2, the default size of the fake gdrdrv's GPU memory.
const WINDOW_MEMORY: u32 = 16;

/// All that QEMU emulates, except what makes emulation slower. With erms the kernel and glibc copy and clear memory by instructions that
/// QEMU runs byte by byte; the others add a level to page walks, or checks and flushes of translated code to each entry into the kernel.
const CPU: &str = "max,erms=off,la57=off,smap=off,smep=off,pku=off,pks=off";

/// The command that runs guest `number`, from 1.
pub fn command(machine: &Machine, number: u8, image: &Image, files: &Files<'_>) -> Command {
    let mut command = Command::new("qemu-system-x86_64");
    let mut arg = |name: &str, value: String| {
        command.arg(name).arg(value);
    };
    // Software emulation, which works wherever the tests run and includes the IOMMU.
    arg("-accel", "tcg,thread=multi".into());
    arg("-cpu", CPU.into());
    let intremap = if machine.iommu == Iommu::Absent { "" } else { ",kernel-irqchip=split" };
    arg("-machine", format!("q35{intremap}"));
    if machine.iommu != Iommu::Absent {
        arg("-device", "intel-iommu,intremap=on".into());
    }
    nodes(machine.nodes, &mut arg);
    arg("-display", "none".into());
    arg("-serial", format!("file:{}", files.console.display()));
    arg("-kernel", image.kernel.to_string_lossy().into_owned());
    arg("-initrd", files.initramfs.to_string_lossy().into_owned());
    arg("-append", kernel_arguments(machine));
    command.args(["-nodefaults", "-no-user-config", "-no-reboot"]);

    let mut device = |value: String| {
        command.arg("-device").arg(value);
    };
    device("virtio-blk-pci,drive=outbox,bus=pcie.0,addr=0x3,romfile=".into());
    if files.disk.is_some() {
        device("virtio-blk-pci,drive=disk,bus=pcie.0,addr=0x6,romfile=".into());
    }
    if machine.soft_roce {
        device(format!(
            "virtio-net-pci,netdev=lan,bus=pcie.0,addr=0x4,romfile=,mac=52:54:00:00:00:{number:02x}"
        ));
    }
    if machine.window {
        device("ivshmem-plain,memdev=window,bus=pcie.0,addr=0x5".into());
    }
    hardware::devices(machine.bridges).into_iter().for_each(&mut device);
    command
        .arg("-drive")
        .arg(format!("if=none,id=outbox,format=raw,file={}", files.outbox.display()));
    if let Some(disk) = files.disk {
        command.arg("-drive").arg(format!("if=none,id=disk,format=raw,file={}", disk.display()));
    }
    if machine.window {
        command
            .arg("-object")
            .arg(format!("memory-backend-ram,id=window,size={WINDOW_MEMORY}M,share=on"));
    }
    if machine.soft_roce {
        command.arg("-netdev").arg(network(machine, number, files.cable));
    }
    command
}

fn nodes(count: u8, arg: &mut impl FnMut(&str, String)) {
    arg("-smp", format!("{}", count * 2));
    arg("-m", format!("{}M", u32::from(count) * NODE_MEMORY));
    for node in 0..count {
        arg("-object", format!("memory-backend-ram,id=node{node},size={NODE_MEMORY}M"));
        arg(
            "-numa",
            format!("node,nodeid={node},cpus={}-{},memdev=node{node}", node * 2, node * 2 + 1),
        );
    }
}

/// Units that delay the boot and are unused: logins, scrubbing, backups, updates.
const UNUSED_UNITS: &[&str] = &[
    "getty.target",
    "systemd-update-utmp.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-user-sessions.service",
    "systemd-random-seed.service",
    "systemd-sysusers.service",
    "systemd-journal-flush.service",
    "e2scrub_reap.service",
    "timers.target",
];

fn kernel_arguments(machine: &Machine) -> String {
    let iommu = match machine.iommu {
        Iommu::Absent => "",
        Iommu::Off => " intel_iommu=off",
        Iommu::On => " intel_iommu=on",
    };
    // panic=-1 with -no-reboot ends QEMU at once. Periodic timer ticks: with one-shot timers a single interrupt that QEMU loses would stop a
    // CPU forever. The check that the timer works is off, because on a busy host it ticks late and the kernel would panic.
    //
    // No address randomisation: QEMU 7.2 caches translated code by address, and would otherwise translate each program again at every
    // start, about half of its run time.
    let services = if machine.systemd {
        UNUSED_UNITS.iter().fold(" systemd.show_status=error".to_owned(), |words, unit| {
            format!("{words} systemd.mask={unit}")
        })
    } else {
        String::new()
    };
    // TSC as the clock: emulated CPUs have an exact one, and reading the emulated HPET leaves the guest. No mitigations of CPUs, which
    // emulated ones do not need, and no clearing of memory that is allocated: both take time only.
    format!(
        "console=ttyS0 panic=-1 loglevel=4 nohz=off highres=off no_timer_check norandmaps clocksource=tsc tsc=reliable \
         mitigations=off init_on_alloc=0\
         {iommu}{services}"
    )
}

/// Connects two guests; a single guest has a network card that is up without a peer.
fn network(machine: &Machine, number: u8, cable: &Path) -> String {
    if machine.guests == 1 {
        return "hubport,id=lan,hubid=0".into();
    }
    let server = if number == 1 { "on" } else { "off" };
    format!("stream,id=lan,server={server},addr.type=unix,addr.path={}", cable.display())
}
