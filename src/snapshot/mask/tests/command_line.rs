//! Masked command lines.

use super::*;

#[test]
fn keeps_machine_parameters() {
    for text in [
        "iommu=pt intel_iommu=on,sm_on amd_iommu=off iommu.passthrough=1 ro quiet nomodeset",
        "crashkernel=512M@256M memmap=64K@0x1000 mem=64G hugepages=16 default_hugepagesz=1G",
        "pci=config_acs=000001x@0000:16:00.0;pcie_bus_safe pci=resource_alignment=20@0000:17:00.0",
        "vfio-pci.ids=10de:2335:10de:16c1,15b3:1021 vfio_pci.ids=9803:9b03:0067:ab12",
        "nvidia.NVreg_RegistryDwords=\"PeerMappingOverride=1; RMForce=1\" nvidia-drm.modeset=1",
        "modprobe.blacklist=nouveau,nova_core rd.driver.blacklist=nouveau console=ttyS0,115200n8",
        "isolcpus=managed_irq,domain,2-31 nohz_full=2-31 rcu_nocbs=2-31 mitigations=off panic=30",
        "selinux=0 audit=1 biosdevname=0 splash rd.luks=no",
    ] {
        assert_eq!(file("/proc/cmdline", text), text);
    }
}

#[test]
fn masks_free_text() {
    for (text, expected) in [
        ("ip=10.0.0.5::10.0.0.1:255.255.255.0:gpu7:eth0:off ro", "ip=masked ro"),
        (
            "inst.ks=nfs:boot7:/x inst.syslog=log9:514 ntp=clock1",
            "inst.ks=masked inst.syslog=masked ntp=masked",
        ),
        (
            "netroot=iscsi:store2::::iqn.1993-08.org.x:1 netroot=nbd:store2:x",
            "netroot=masked netroot=masked",
        ),
        ("ds=nocloud;h=gpu7;i=i-0abc123 i=i-0abc123", "ds=masked i=masked"),
        (
            "ip_10.4.4.4 ens1f0_10.6.6.6=1 x=10.5.5.5.eth0 ens1f0_10.6.6.6",
            "masked masked=1 x=masked masked",
        ),
        (
            "wwid=b83fd29a4c01 BOOTIF=01b83fd29a4c01 SN:1571234 z=0x98039b030067ab12",
            "wwid=masked BOOTIF=masked masked z=masked",
        ),
        (
            "asset=1653022012345 systemd.hostname=42 x=42",
            "asset=masked systemd.hostname=masked x=42",
        ),
        (
            "BOOT_IMAGE=(hd0,gpt2)/alice/8f2c/vmlinuz-6.1.0-13-amd64 initrd=\\8f2c\\initrd.img",
            "BOOT_IMAGE=/vmlinuz-6.1.0-13-amd64 initrd=\\initrd.img",
        ),
        (
            "pci=x@gpu7.hpc.site.edu nvidia.NVreg_X=node17",
            "pci=maskeduser1@maskedhost1.masked1.example nvidia.NVreg_X=maskedhost2",
        ),
        ("dyndbg=\"file a.c +p\" quiet -- single token=x", "dyndbg=masked quiet -- masked masked"),
        ("  a=b\n", "  a=masked\n"),
    ] {
        assert_eq!(file("/proc/cmdline", text), expected);
    }
}

#[test]
fn masks_invalid_utf8() {
    let recorded = Recorded {
        bytes: Some(Hex(b"iommu=pt ip=gpu7\xff x=gpu7".to_vec())),
        ..Recorded::default()
    };
    let mut snapshot = Snapshot::default();
    snapshot.files.insert("/proc/cmdline".to_owned(), recorded);
    mask(&mut snapshot, &known());
    assert_eq!(
        snapshot.files["/proc/cmdline"].bytes,
        Some(Hex(b"iommu=pt ip=masked x=masked".to_vec()))
    );
}
