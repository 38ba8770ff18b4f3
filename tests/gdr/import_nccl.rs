//! `--from` with NCCL's topology XML: the classes of pairs, and no verdict from what the file leaves out.

use crate::support::{Gdr, classes, file};
use tempfile::TempDir;

/// Two switches, one below the other, and a device beside them; `%` is the NUMA node of the second processor.
const DUMP: &str = r#"<system version="1">
  <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel">
    <pci busid="0000:15:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:17:00.0" class="0x030200" vendor="0x10de" device="0x2330">
        <gpu dev="0" sm="90" rank="0" gdr="1"/>
      </pci>
      <pci busid="0000:18:00.0" class="0x020700" vendor="0x15b3" device="0x1021"/>
      <pci busid="0000:20:00.0" class="0x060400">
        <pci busid="0000:22:00.0" class="0x020700" vendor="0x15b3" device="0x1021"/>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="%" affinity="ffff0000" arch="x86_64" vendor="GenuineIntel">
    <pci busid="0000:97:00.0" class="0x020700" vendor="0x15b3" device="0x1021"/>
  </cpu>
</system>
"#;

#[test]
fn classes_follow_switches_and_nodes() {
    // On one NUMA node it is PHB or NODE: the root buses are not in the file.
    for (node, beside) in [("1", Some("SYS")), ("0", None), ("-1", None)] {
        let dir = TempDir::new().expect("a directory");
        let dump = file(&dir, "topo.xml", DUMP.replace('%', node).as_bytes());
        let classes = classes(Gdr::new().args(["--from".as_ref(), dump.as_os_str()]));
        let classes = classes.expect("classes");
        let class = |nic: &str| {
            let mut pairs = classes.iter();
            let (_, class) = pairs
                .find(|((a, b), _)| {
                    [a.as_str(), b.as_str()].contains(&"0000:17:00.0")
                        && [a.as_str(), b.as_str()].contains(&nic)
                })
                .expect("the pair");
            class.as_deref()
        };
        assert_eq!(class("0000:18:00.0"), Some("PIX"), "node {node}");
        // A downstream and an upstream port lie between.
        assert_eq!(class("0000:22:00.0"), Some("PXB"), "node {node}");
        assert_eq!(class("0000:97:00.0"), beside, "node {node}");
    }
}

#[test]
fn doctor_neither_passes_nor_fails_what_the_file_lacks() {
    let dir = TempDir::new().expect("a directory");
    let dump = file(&dir, "topo.xml", DUMP.replace('%', "1").as_bytes());
    let run = Gdr::new()
        .args(["doctor".as_ref(), "--from".as_ref(), dump.as_os_str()])
        .args(["--only", "pcie.acs,pcie.payload,pcie.link,gpu.driver"])
        .run();
    assert!(run.stdout.contains("0 passed"), "{}", run.stdout);
    assert!(!run.stdout.contains("FAIL") && !run.stdout.contains("WARN"), "{}", run.stdout);
}
