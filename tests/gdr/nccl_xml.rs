//! `gdr topo --format nccl-xml`: the topology that NCCL reads, and what is left out.

use std::path::Path;

use crate::support::{Gdr, Machine, Run, agreement, classes, everywhere, file};
use tempfile::TempDir;

fn write(gdr: Gdr) -> Run {
    gdr.args(["topo", "--format", "nccl-xml"]).run()
}

fn from(file: &Path) -> Gdr {
    Gdr::new().args(["--from".as_ref(), file.as_os_str()])
}

/// By the rules of NCCL 2.27.7, src/graph/xml.cc: a switch is its upstream port, and a root port is left out.
const SOUND: &str = r#"<system version="1">
  <cpu numaid="0" affinity="ffffffff" arch="x86_64">
    <pci busid="0000:01:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:03:00.0" class="0x030200" vendor="0x10de" device="0x2335" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0"/>
      </pci>
      <pci busid="0000:04:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" speed="400000" port="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
</system>
"#;

/// A virtual machine: functions on the root bus, no NUMA node, NVSwitches that it does not see.
const GUEST: &str = r#"<system version="1">
  <cpu numaid="-1" arch="x86_64">
    <pci busid="0000:00:06.0" class="0x030200" vendor="0x10de" device="0x2335" link_speed="32.0 GT/s PCIe" link_width="0">
      <gpu dev="0">
        <nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>
      </gpu>
    </pci>
    <pci busid="0000:00:07.0" class="0x030200" vendor="0x10de" device="0x2335" link_speed="32.0 GT/s PCIe" link_width="0">
      <gpu dev="1">
        <nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>
      </gpu>
    </pci>
  </cpu>
</system>
"#;

/// A switch below a switch; both functions of one card are in its first.
const CASCADE: &str = r#"<system version="1">
  <cpu numaid="0" affinity="ffffffff">
    <pci busid="0000:01:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:03:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe" link_width="16">
        <pci busid="0000:05:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16"/>
        <pci busid="0000:06:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
          <nic>
            <net name="mlx5_1" speed="400000" port="1"/>
          </nic>
        </pci>
      </pci>
      <pci busid="0000:07:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" speed="400000" port="1"/>
        </nic>
      </pci>
      <pci busid="0000:08:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16"/>
      <pci busid="0000:09:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_2" speed="400000" port="1"/>
          <net name="mlx5_3" speed="400000" port="1"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:0a:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16"/>
  </cpu>
</system>
"#;

#[test]
fn machines_are_written_as_nccl_writes_them() {
    let cases = [("sound", SOUND), ("h200-x2", GUEST), ("cascade-asymmetric", CASCADE)];
    for (name, expected) in cases {
        let dir = Machine::load(name).laid_out();
        let run = write(Gdr::new().sysroot(dir.path()));
        assert_eq!((run.code, run.stdout.as_str()), (0, expected), "{name}: {}", run.stderr);
    }
}

#[test]
fn what_is_written_reads_back() {
    let mut compared = 0;
    for (name, _, root) in everywhere() {
        let machine = classes(Gdr::new().sysroot(root.path()));
        let run = write(Gdr::new().sysroot(root.path()));
        if run.code != 0 {
            assert!(run.stderr.contains("no GPU and no NIC"), "{name}: {}", run.stderr);
            continue;
        }
        let dir = TempDir::new().expect("a directory");
        let written = file(&dir, "topo.xml", run.stdout.as_bytes());
        let (Some(machine), Some(again)) = (machine, classes(from(&written))) else {
            panic!("{name}: no classes");
        };
        compared += agreement(&name, &machine, &again);
        for (pair, class) in &again {
            let is_below_switch = [Some("PIX"), Some("PXB")].contains(&machine[pair].as_deref());
            assert!(!is_below_switch || class.is_some(), "{name}: {pair:?}");
        }
        let twice = write(from(&written));
        assert_eq!(twice.stdout, run.stdout, "{name}");
    }
    assert!(compared > 100, "{compared} pairs");
}

#[test]
fn the_file_of_a_cloud_keeps_its_elements() {
    let text = r#"<!-- one size of virtual machine -->
<system version="1">
  <cpu host_hash="0x1" numaid="0" affinity="0000ffff" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"></pci>
      <pci busid="0101:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
    </pci>
  </cpu>
</system>"#;
    let expected = r#"<system version="1">
  <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0101:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
    </pci>
  </cpu>
</system>
"#;
    let dir = TempDir::new().expect("a directory");
    let run = write(from(&file(&dir, "cloud.xml", text.as_bytes())));
    assert_eq!((run.code, run.stdout.as_str()), (0, expected), "{}", run.stderr);
}

#[test]
fn unknown_facts_are_left_out_and_named() {
    // lspci without -v: no link, no NUMA node, and no name of the NIC.
    let text = "0000:00:00.0 0600: 8086:09a2\n0000:00:01.0 0604: 8086:352a\n0000:01:00.0 0302: 10de:2330 (rev a1)\n";
    let dir = TempDir::new().expect("a directory");
    let run = write(from(&file(&dir, "list.lspci", text.as_bytes())));
    // The bridge above the GPU is unknown too, so nothing is left.
    run.assert_code(2);
    run.assert_stderr("unknown: the places in the PCI tree of GPU0 (0000:01:00.0)");
    run.assert_stderr("no GPU and no NIC whose place in the PCI tree is known");
}
