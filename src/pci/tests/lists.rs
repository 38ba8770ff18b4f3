//! Looping and broken lists, and impossible structures.

use super::*;

#[test]
fn broken_lists() {
    let change = |at: usize, bytes: &[u8]| {
        let mut space = endpoint();
        put(&mut space, at, bytes);
        full(&space)
    };
    let low = "capability pointer 0x20 at 0x40 leads into the header";
    expect(&change(0x41, &[0x20]), "+B++", &[low]);
    let low = "capability pointer 0x3c at 0x0 leads into the header";
    expect(&change(0x34, &[0x3c]), "+B++", &[low]);
    let mut space = endpoint();
    put(&mut space, 0x60, &[0x05, 0x40]);
    expect(&full(&space), "+B++", &["capability list loops back from 0x60 to 0x40"]);
    // Capabilities before the error are kept.
    expect(&change(0x61, &[0x40]), "++++", &["capability list loops back from 0x60 to 0x40"]);
    // Linux masks the low bits.
    expect(&change(0x41, &[0x63]), "++++", &[]);
    expect(&change(0x60, &[0xff]), "+B++", &["no valid id (ff) in capability at 0x60"]);
    expect(&change(0x0e, &[0x7f]), "BBBB", &["unknown header type 0x7f at 0xe"]);

    let head = |next: u32| (next << 20 | 0x1_000d).to_le_bytes();
    let low = "extended capability pointer 0x40 at 0x140 leads below 0x100";
    expect(&change(0x140, &head(0x40)), "+++B", &[low]);
    let back = "extended capability list loops back from 0x140 to 0x100";
    expect(&change(0x140, &head(0x100)), "+++B", &[back]);
    let back = "extended capability list loops back from 0x140 to 0x140";
    expect(&change(0x140, &head(0x140)), "+++B", &[back]);
    expect(&change(0x140, &head(0x163)), "++++", &[]);
    expect(&change(0x140, &head(0)), "+++-", &[]);
    expect(&change(0x100, &[0; 4]), "++--", &[]);
}

#[test]
fn structure_out_of_bounds() {
    let mut space = endpoint();
    space[0x41] = 0xf0;
    put(&mut space, 0xf0, &[0x10, 0x00, 0x02, 0x00]);
    expect(&full(&space), "+B++", &["no room before 0x100 for PCI Express capability at 0xf0"]);

    let mut space = endpoint();
    put(&mut space, 0x160, &0xffc1_000f_u32.to_le_bytes());
    put(&mut space, 0xffc, &0x0001_0010_u32.to_le_bytes());
    let config = full(&space);
    expect(&config, "++++", &["the space ends inside or before SR-IOV at 0x1004"]);
    assert_eq!(config.sriov, Fact::Unknown(Why::Broken));
}

#[test]
fn blanked_list_differs_from_empty_one() {
    let mut space = endpoint();
    put(&mut space, 0x100, &0x1400_0000_u32.to_le_bytes());
    expect(&full(&space), "++++", &[]);
}

#[test]
fn egress_vector_has_stated_size() {
    let vector = |capability: u16| {
        let mut space = endpoint();
        put(&mut space, 0x140, &0x0001_000d_u32.to_le_bytes());
        put(&mut space, 0x144, &capability.to_le_bytes());
        space[0x148..0x168].fill(0xff);
        let config = full(&space);
        assert_eq!(config.failure, [""; 0]);
        let acs = config.acs.present().cloned().expect("ACS is there");
        (acs.egress_size, acs.egress_vector.known().map_or(0, Vec::len))
    };
    assert_eq!(vector(0x017f), (1, 1));
    assert_eq!(vector(0x287f), (40, 2));
    // PCIe 7.7.11.2: zero is 256.
    assert_eq!(vector(0x007f), (256, 8));
    // Without egress control the size means nothing.
    assert_eq!(vector(0x285f), (0, 0));
}
