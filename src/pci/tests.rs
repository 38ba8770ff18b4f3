//! Malformed, truncated and unreadable spaces with hand-written expectations.

mod lists;
mod reads;

use super::*;
use crate::model::config::{PortType, Subsystem};

/// A type 0 function: power management at 0x40, Express at 0x60 (endpoint, 32 GT/s x16), AER at 0x100, ACS at 0x140, ATS at
/// 0x160.
fn endpoint() -> Vec<u8> {
    let mut space = vec![0; 4096];
    put(
        &mut space,
        0x00,
        &[0xde, 0x10, 0x35, 0x23, 0x06, 0x00, 0x10, 0x00, 0xa1, 0x00, 0x02, 0x03],
    );
    put(&mut space, 0x10, &[0x0c, 0x00, 0x00, 0x02, 0x40, 0x10, 0x00, 0x00]);
    put(&mut space, 0x2c, &[0xde, 0x10, 0xbf, 0x18]);
    space[0x34] = 0x40;
    put(&mut space, 0x40, &[0x01, 0x60, 0x03, 0x00]);
    put(&mut space, 0x60, &[0x10, 0x00, 0x02, 0x00]);
    put(&mut space, 0x6c, &[0x05, 0x79, 0x45, 0x00, 0x00, 0x00, 0x05, 0x11]);
    put(&mut space, 0x100, &0x1402_0001_u32.to_le_bytes());
    put(&mut space, 0x140, &0x1601_000d_u32.to_le_bytes());
    put(&mut space, 0x144, &[0x5f, 0x00, 0x1d, 0x00]);
    put(&mut space, 0x160, &0x0001_000f_u32.to_le_bytes());
    space
}

fn put(space: &mut [u8], at: usize, bytes: &[u8]) {
    space[at..at + bytes.len()].copy_from_slice(bytes);
}

fn full(space: &[u8]) -> Config {
    decode(&space, Depth::Full)
}

/// State of header, express, acs, ats: `+` present, `-` absent, or the first letter of why it is unknown.
fn outcome(config: &Config) -> String {
    fn absent_or<T>(fact: &Fact<Option<T>>) -> char {
        match fact {
            Fact::Known(Some(_)) => '+',
            Fact::Known(None) => '-',
            Fact::Unknown(why) => letter(*why),
        }
    }
    fn letter(why: Why) -> char {
        match why {
            Why::NotCovered => 'N',
            Why::Denied => 'D',
            Why::Broken => 'B',
            Why::TimedOut => 'T',
        }
    }
    let header = config.header.why().map_or('+', letter);
    let Config { express, acs, ats, .. } = config;
    [header, absent_or(express), absent_or(acs), absent_or(ats)].iter().collect()
}

#[track_caller]
fn expect(config: &Config, expected: &str, failure: &[&str]) {
    assert_eq!(outcome(config), expected, "{config:#?}");
    assert_eq!(config.failure, failure);
}

#[test]
fn complete_space_has_no_remarks() {
    let config = full(&endpoint());
    expect(&config, "++++", &[]);
    assert!(config.sriov.is_absent() && config.serial_number.is_absent());
}

#[test]
fn config_survives_json() {
    for space in [&endpoint()[..], &endpoint()[..64], &[]] {
        let config = full(space);
        let text = serde_json::to_string(&config).expect("plain data");
        assert_eq!(serde_json::from_str::<Config>(&text).ok(), Some(config), "{text}");
    }
}

#[test]
fn depth_limits_facts() {
    let space = endpoint();
    expect(&decode(&space.as_slice(), Depth::Header), "+NNN", &[]);
    expect(&decode(&space.as_slice(), Depth::Express), "++NN", &[]);
}

#[test]
fn truncated_file() {
    let space = endpoint();
    let conventional = |length: usize| {
        let mut space = endpoint()[..length].to_vec();
        space[0x41] = 0;
        space
    };
    expect(&full(&[]), "BBBB", &["the space ends after 0 bytes, inside the header"]);
    expect(&full(&space[..20]), "BBBB", &["the space ends after 20 bytes, inside the header"]);
    expect(&full(&space[..63]), "BBBB", &["the space ends after 63 bytes, inside the header"]);
    // The sizes that Linux shows to unprivileged readers.
    expect(&full(&space[..64]), "+DDD", &[]);
    let cut = "the space ends inside or before capability at 0x40";
    let beyond = "the space ends before extended capabilities at 0x100";
    expect(&full(&space[..65]), "+BBB", &[cut, beyond]);
    let cut = "the space ends inside or before PCI Express capability at 0x64";
    expect(&full(&space[..100]), "+BBB", &[cut, beyond]);
    expect(&full(&space[..200]), "++BB", &[beyond]);
    expect(&full(&space[..255]), "++BB", &[beyond]);
    // 256 bytes: for an Express device there is no ECAM, for others no extended space.
    expect(&full(&space[..256]), "++NN", &[]);
    expect(&full(&conventional(256)), "+---", &[]);
    expect(&full(&space[..258]), "++BB", &[beyond]);
    let cut = "the space ends inside or before ATS at 0x164";
    expect(&full(&space[..0x164]), "+++B", &[cut]);
    let cut = "the space ends inside or before extended capability at 0x160";
    expect(&full(&space[..0x162]), "+++B", &[cut]);
}

#[test]
fn header_suffices_without_list() {
    let mut space = endpoint()[..64].to_vec();
    space[0x06] = 0;
    expect(&full(&space), "+---", &[]);
    // A host bridge may have extended space without an Express capability.
    put(&mut space, 0x09, &[0x00, 0x00, 0x06]);
    expect(&full(&space), "+-DD", &[]);
}

#[test]
fn cardbus_shows_128_bytes_to_everyone() {
    let mut space = vec![0; 128];
    put(&mut space, 0x00, &[0x17, 0x12, 0x33, 0x69, 0, 0, 0x10, 0]);
    space[0x0e] = 2;
    space[0x14] = 0xa0;
    expect(&full(&space), "+DDD", &[]);
}

#[test]
fn gone_device_reads_all_ones() {
    let gone = "the header reads all ones: unplugged, powered off or fallen off the bus";
    expect(&full(&[0xff; 4096]), "BBBB", &[gone]);
    expect(&decode(&&[0xff; 64][..], Depth::Header), "BNNN", &[gone]);
    expect(&full(&[0; 4096]), "BBBB", &["the header reads all zeroes: no device answered"]);

    let mut space = endpoint();
    space[0x60..].fill(0xff);
    let config = full(&space);
    expect(&config, "+BBB", &["all ones, as from a device that is gone, in capability at 0x60"]);
    let mut space = endpoint();
    space[0x144..0x148].fill(0xff);
    let ones = "all ones, as from a device that is gone, in ACS at 0x144";
    expect(&full(&space), "++B+", &[ones]);
    // Without ECAM extended space reads ones.
    let mut space = endpoint();
    space[0x100..].fill(0xff);
    expect(&full(&space), "++NN", &[]);
}

#[test]
fn virtual_function_has_no_vendor() {
    let mut space = endpoint();
    space[..4].fill(0xff);
    let config = full(&space);
    expect(&config, "++++", &[]);
    assert_eq!(config.header.known().map(|header| header.vendor), Some(0xffff));
}

#[test]
fn bridge_has_buses_and_subsystem() {
    let mut space = endpoint();
    space[0x0e] = 0x81;
    put(&mut space, 0x18, &[0x3a, 0x3b, 0x40]);
    put(&mut space, 0x62, &[0x62, 0x01]);
    put(&mut space, 0x61, &[0xa4]);
    put(&mut space, 0xa4, &[0x0d, 0x00, 0x00, 0x00, 0xd9, 0x15, 0x34, 0x12]);
    let buses = |subsystem| HeaderKind::Bridge { secondary: 0x3b, subordinate: 0x40, subsystem };
    let kind = |depth| decode(&space.as_slice(), depth).header.map(|header| header.kind);
    let maker = Subsystem { vendor: 0x15d9, device: 0x1234 };
    assert_eq!(kind(Depth::Full), Fact::Known(buses(Fact::Known(Some(maker)))));
    assert_eq!(kind(Depth::Express), Fact::Known(buses(Fact::Unknown(Why::NotCovered))));
    let config = full(&space);
    let port = config.express.present().map(|express| express.port);
    assert_eq!(port, Some(PortType::DownstreamPort));
}
