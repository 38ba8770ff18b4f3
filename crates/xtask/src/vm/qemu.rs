//! QEMU's command line for a guest of a machine.

use std::path::Path;
use std::process::Command;

use super::hardware;
use super::image::Image;
use super::machine::{Iommu, Machine};

/// The files a guest lives on, in the run's working directory.
pub struct Files<'a> {
    /// The base image and this run's own files, one after the other.
    pub initramfs: &'a Path,
    /// What the kernel and the init script say.
    pub console: &'a Path,
    /// A disk that takes what the guest hands back.
    pub outbox: &'a Path,
    /// A disk that outlives the guest, /dev/vdb there.
    pub disk: Option<&'a Path>,
    /// The cable between two guests: a socket.
    pub cable: &'a Path,
}

/// MiB of memory a NUMA node.
const NODE_MEMORY: u32 = 512;

/// MiB of the ivshmem device's BAR 2: the double's GPU memory is as large unless it is told otherwise.
const WINDOW_MEMORY: u32 = 16;

/// The command that runs guest `number` (from 1).
pub fn command(machine: &Machine, number: u8, image: &Image, files: &Files<'_>) -> Command {
    let mut command = Command::new("qemu-system-x86_64");
    let mut arg = |name: &str, value: String| {
        command.arg(name).arg(value);
    };
    // Software emulation: it runs wherever the tests run, and it emulates the IOMMU as well as any.
    arg("-accel", "tcg,thread=multi".into());
    arg("-cpu", "max".into());
    let intremap = if machine.iommu == Iommu::Absent {
        ""
    } else {
        ",kernel-irqchip=split"
    };
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
    hardware::devices(machine.bridges)
        .into_iter()
        .for_each(&mut device);
    command.arg("-drive").arg(format!(
        "if=none,id=outbox,format=raw,file={}",
        files.outbox.display()
    ));
    if let Some(disk) = files.disk {
        command.arg("-drive").arg(format!(
            "if=none,id=disk,format=raw,file={}",
            disk.display()
        ));
    }
    if machine.window {
        command.arg("-object").arg(format!(
            "memory-backend-ram,id=window,size={WINDOW_MEMORY}M,share=on"
        ));
    }
    if machine.soft_roce {
        command
            .arg("-netdev")
            .arg(network(machine, number, files.cable));
    }
    command
}

fn nodes(count: u8, arg: &mut impl FnMut(&str, String)) {
    arg("-smp", format!("{}", count * 2));
    arg("-m", format!("{}M", u32::from(count) * NODE_MEMORY));
    for node in 0..count {
        arg(
            "-object",
            format!("memory-backend-ram,id=node{node},size={NODE_MEMORY}M"),
        );
        arg(
            "-numa",
            format!(
                "node,nodeid={node},cpus={}-{},memdev=node{node}",
                node * 2,
                node * 2 + 1
            ),
        );
    }
}

/// Units that a guest waits for and has no use of: nobody logs in, and who did is not asked; nothing is scrubbed, backed up,
/// updated or kept.
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
    // A panic ends the run at once: with -no-reboot QEMU exits. Timers that tick by themselves: of one that is set anew
    // each time a single lost interrupt stops a CPU for ever, and QEMU loses some. Whether the timer ticks at all is not
    // asked: where the host is busy it ticks too late, and the kernel panics.
    //
    // Programs at the same addresses each time: QEMU 7.2 keeps what it translated by address, and would translate each program
    // anew whenever it starts, which takes half of what it costs there.
    let services = match machine.systemd {
        true => UNUSED_UNITS
            .iter()
            .fold(" systemd.show_status=error".to_owned(), |words, unit| {
                format!("{words} systemd.mask={unit}")
            }),
        false => String::new(),
    };
    // The clock is the CPUs' own counter: emulated ones are as exact as any, and a read of the emulated HPET costs a trip out of
    // the guest.
    format!(
        "console=ttyS0 panic=-1 loglevel=4 nohz=off highres=off no_timer_check norandmaps clocksource=tsc tsc=reliable\
         {iommu}{services}"
    )
}

/// Two guests share a cable; one alone has a card that is up and leads nowhere.
fn network(machine: &Machine, number: u8, cable: &Path) -> String {
    if machine.guests == 1 {
        return "hubport,id=lan,hubid=0".into();
    }
    let server = if number == 1 { "on" } else { "off" };
    format!(
        "stream,id=lan,server={server},addr.type=unix,addr.path={}",
        cable.display()
    )
}
