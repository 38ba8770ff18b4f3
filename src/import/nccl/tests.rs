//! Tests of the facts in NCCL's topology.

use super::*;
use crate::model::LinkedPair;

/// As NCCL dumps a machine with two switches, one below the other, and a second NUMA node.
const DUMP: &str = r#"<system version="1">
  <cpu host_hash="0x3a" numaid="0" affinity="00000000,0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:15:00.0" class="0x060400" vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x100b" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:17:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:c0:00.0" count="10" tclass="0x068000"/>
          <nvlink target="0000:c1:00.0" count="8" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:18:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
      <pci busid="0000:20:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe" link_width="16">
        <pci busid="0000:22:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
          <nic>
            <net name="mlx5_1" dev="1" speed="400000" port="1" guid="0x2" maxconn="131072" gdr="1"/>
          </nic>
        </pci>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="0000ffff,00000000" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:97:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="90" rank="1" gdr="1">
        <nvlink target="0000:c0:00.0" count="10" tclass="0x068000"/>
        <nvlink target="0000:c1:00.0" count="6" tclass="0x068000"/>
      </gpu>
    </pci>
    <nic>
      <net name="eth0" dev="2" speed="10000" port="0" gdr="0"/>
    </nic>
  </cpu>
</system>
"#;

fn bdf(text: &str) -> Bdf {
    text.parse().expect("an address")
}

#[test]
fn a_dump_gives_devices_and_what_it_lacks_is_unknown() {
    let facts = facts(DUMP.as_bytes()).expect("facts");
    let gpu = facts.device(bdf("17:00.0")).expect("a GPU");
    assert_eq!(gpu.numa_node, Fact::Known(Some(0)));
    let place = gpu.place.known().expect("a place");
    assert_eq!((place.rooted, &place.bridges[..]), (false, &[bdf("15:00.0")][..]));
    let attributes = gpu.attributes.as_ref().expect("attributes");
    assert_eq!(attributes.local_cpus.known().map(ToString::to_string).as_deref(), Some("0-15"));
    assert!(attributes.link.known().is_none() && gpu.config.acs.known().is_none());
    assert_eq!(facts.platform.architecture, Fact::Known("x86_64".to_owned()));
    let nics = facts.rdma.known().expect("NICs");
    let names: Vec<_> = nics.iter().map(|nic| (nic.name.as_str(), nic.place.present())).collect();
    let places = [bdf("18:00.0"), bdf("22:00.0")];
    assert_eq!(names, [("mlx5_0", Some(&places[0])), ("mlx5_1", Some(&places[1]))]);
    assert_eq!(nics[0].main_port().and_then(RdmaPort::speed).as_deref(), Some("400 Gb/s"));
    let pair = LinkedPair { from: bdf("17:00.0"), to: bdf("97:00.0"), nvlinks: 16 };
    assert_eq!(facts.linked_pairs, Fact::Known(vec![pair]));
    assert!(facts.partial && facts.numa.known().is_none());
}

#[test]
fn a_file_of_a_cloud_has_no_vendor_and_no_links() {
    let text = r#"<!-- For one size of virtual machine -->
<system version="1">
  <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0101:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
    </pci>
    <pci busid="ffff:ff:02.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0002:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
    </pci>
  </cpu>
</system>"#;
    let facts = facts(text.as_bytes()).expect("facts");
    assert_eq!(facts.gpus().count(), 2);
    assert_eq!(facts.unnamed_nics, [bdf("0101:00:00.0")]);
    assert!(facts.linked_pairs.known().is_none() && facts.rdma.known().is_none());
}

#[test]
fn a_display_function_without_vendor_is_nvidias_only_in_files_of_nccl() {
    let text = |function: &str| {
        format!(
            r#"<system version="1"><cpu numaid="0">{function}<pci busid="0000:02:00.0" class="0x020700"/></cpu></system>"#
        )
    };
    for (function, gpus) in [
        (r#"<pci busid="0000:01:00.0" class="0x030200"/>"#, 1),
        (r#"<pci busid="0000:01:00.0" class="0x030000"/>"#, 1),
        // An accelerator of AMD.
        (r#"<pci busid="0000:01:00.0" class="0x038000"/>"#, 0),
        (
            r#"<pci busid="0000:01:00.0" class="0x030200"><gpu dev="0" sm="94" gcn="gfx942" rank="0"/></pci>"#,
            0,
        ),
        (
            r#"<pci busid="0000:01:00.0" class="0x030200"><gpu dev="0"><xgmi target="0000:03:00.0" count="1"/></gpu></pci>"#,
            0,
        ),
        (
            r#"<pci busid="0000:01:00.0" class="0x030200"/><pci busid="0000:03:00.0" class="0x030000" vendor="0x1002"/>"#,
            0,
        ),
    ] {
        let facts = facts(text(function).as_bytes()).expect("facts");
        assert_eq!(facts.gpus().count(), gpus, "{function}");
    }
}

#[test]
fn texts_that_hold_no_machine_are_rejected() {
    let twice = DUMP.replace("0000:97:00.0", "0000:17:00.0");
    let hosts = DUMP.replace("<cpu numaid", "<cpu host_hash=\"0x3b\" numaid");
    let deep = format!("<system version=\"1\">{}", "<pci busid=\"0000:01:00.0\">".repeat(100));
    for (text, words) in [
        ("<system version=\"1\"></system>", "no PCI device"),
        ("<system version=\"1\"><cpu numaid=\"0\">", "truncated"),
        ("<system a=\"&amp;\"/>", "character"),
        ("<!DOCTYPE a [<!ENTITY b \"c\">]><system/>", "entities"),
        (&deep, "more elements"),
        (&twice, "twice"),
        (&hosts, "2 machines"),
    ] {
        let error = facts(text.as_bytes()).expect_err(text).to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    assert!(!is_format(b"<systems/>") && !is_format(b"<details>") && is_format(DUMP.as_bytes()));
}
