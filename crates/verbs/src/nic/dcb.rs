//! Data center bridging of a network interface: priority flow control, traffic classes, and which priority a packet gets, by netlink
//! (`linux/dcbnl.h`), as `dcb` of iproute2 shows them.

use std::io;

use super::checked;
use super::netlink::{ask, attribute, attributes, find, u16_at};

/// `RTM_GETDCB`.
const GET: u16 = 78;
/// Priorities of Ethernet.
pub const PRIORITIES: usize = 8;
/// `IEEE_8021QAZ_APP_SEL_DSCP`: an [`App`] that gives packets of a DSCP a priority.
pub const APP_DSCP: u8 = 5;

/// The numbers of linux/dcbnl.h that this crate uses, for a test against the header.
pub mod layout {
    /// Constants: name in C, value.
    pub const CONSTANTS: [(&str, u64); 10] = [
        ("DCB_CMD_IEEE_GET", super::IEEE_GET as u64),
        ("DCB_ATTR_IFNAME", super::IFNAME as u64),
        ("DCB_ATTR_IEEE", super::IEEE as u64),
        ("DCB_ATTR_IEEE_ETS", super::ETS as u64),
        ("DCB_ATTR_IEEE_PFC", super::PFC as u64),
        ("DCB_ATTR_IEEE_APP_TABLE", super::APP_TABLE as u64),
        ("DCB_ATTR_IEEE_APP", super::APP as u64),
        ("IEEE_8021QAZ_APP_SEL_DSCP", super::APP_DSCP as u64),
        ("IEEE_8021QAZ_MAX_TCS", super::PRIORITIES as u64),
        ("RTM_GETDCB", super::GET as u64),
    ];
    /// Members of structures: expression of their offset in C, and the offset.
    pub const OFFSETS: [(&str, usize); 5] = [
        ("offsetof(struct ieee_pfc, pfc_en)", super::PFC_ENABLED),
        ("offsetof(struct ieee_ets, prio_tc)", super::ETS_CLASSES),
        ("offsetof(struct dcb_app, selector)", 0),
        ("offsetof(struct dcb_app, priority)", 1),
        ("offsetof(struct dcb_app, protocol)", 2),
    ];
}

const IEEE_GET: u8 = 21;
const IFNAME: u16 = 1;
const IEEE: u16 = 13;
const ETS: u16 = 1;
const PFC: u16 = 2;
const APP_TABLE: u16 = 3;
const APP: u16 = 1;
/// `DCB_ATTR_DCB_APP_TRUST_TABLE`, since Linux 6.2.
const TRUST_TABLE: u16 = 11;
const PFC_ENABLED: usize = 1;
const ETS_CLASSES: usize = 27;

/// How an interface treats priorities.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dcb {
    /// A bit for each priority that has priority flow control; none if the driver does not say.
    pub pfc: Option<u8>,
    /// The traffic class of each priority; none if the driver does not say.
    pub classes: Option<[u8; PRIORITIES]>,
    /// Which priority some packets get.
    pub apps: Vec<App>,
    /// The selectors whose [`apps`](Self::apps) are trusted, the first one first; none before Linux 6.2, and if the driver does not say.
    pub trust: Option<Vec<u8>>,
}

/// A rule for packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct App {
    /// What [`protocol`](Self::protocol) is: [`APP_DSCP`], an EtherType, a port.
    pub selector: u8,
    /// Its value.
    pub protocol: u16,
    /// The priority of such packets.
    pub priority: u8,
}

/// Reads the settings of an interface.
///
/// # Errors
///
/// Of the kernel: EOPNOTSUPP if the driver has no DCB, ENODEV without such an interface, EINVAL of a kernel without DCB.
pub fn dcb(interface: &str) -> io::Result<Dcb> {
    let name = checked(interface)?;
    // struct dcbmsg: family, command, padding.
    let mut payload = vec![0, IEEE_GET, 0, 0];
    payload.extend(attribute(IFNAME, name.as_bytes_with_nul()));
    let answer = ask(GET, &payload)?;
    Ok(parse(answer.get(4..).unwrap_or_default()))
}

/// The settings in the attributes of an answer.
fn parse(answer: &[u8]) -> Dcb {
    let outer = attributes(answer);
    let inner = attributes(find(&outer, IEEE).unwrap_or_default());
    let table = attributes(find(&inner, APP_TABLE).unwrap_or_default());
    let trust = find(&inner, TRUST_TABLE).map(|table| {
        let entries = attributes(table);
        entries.iter().filter_map(|(_, value)| value.first().copied()).collect()
    });
    Dcb {
        pfc: find(&inner, PFC).and_then(|pfc| pfc.get(PFC_ENABLED).copied()),
        classes: find(&inner, ETS)
            .and_then(|ets| ets.get(ETS_CLASSES..ETS_CLASSES + PRIORITIES)?.try_into().ok()),
        apps: table
            .iter()
            .filter(|(kind, _)| *kind == APP)
            .filter_map(|(_, value)| app(value))
            .collect(),
        trust,
    }
}

fn app(bytes: &[u8]) -> Option<App> {
    Some(App { selector: *bytes.first()?, priority: *bytes.get(1)?, protocol: u16_at(bytes, 2)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel answers for a NIC with PFC on priority 3, DSCP 26 → 3, and trust in the DSCP.
    fn answer() -> Vec<u8> {
        let mut pfc = vec![0; 136];
        (pfc[0], pfc[1]) = (8, 1 << 3);
        let mut ets = vec![0; 59];
        ets[27..35].copy_from_slice(&[1, 0, 2, 3, 4, 5, 6, 7]);
        let app = [5_u8, 3, 26, 0];
        let inner = [
            attribute(ETS, &ets),
            attribute(PFC, &pfc),
            attribute(APP_TABLE, &attribute(APP, &app)),
            attribute(TRUST_TABLE, &attribute(APP, &[5])),
        ];
        [attribute(IFNAME, b"eth0\0"), attribute(IEEE, &inner.concat())].concat()
    }

    #[test]
    fn settings_of_an_answer() {
        let found = parse(&answer());
        assert_eq!(found.pfc, Some(8));
        assert_eq!(found.classes, Some([1, 0, 2, 3, 4, 5, 6, 7]));
        assert_eq!(found.apps, [App { selector: APP_DSCP, protocol: 26, priority: 3 }]);
        assert_eq!(found.trust, Some(vec![5]));
    }

    #[test]
    fn cut_answers_lack_settings() {
        let whole = answer();
        for length in 0..whole.len() {
            // Must not panic.
            let _ = parse(&whole[..length]);
        }
        assert_eq!(parse(&[]), Dcb::default());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no netlink")]
    fn interfaces_without_dcb() {
        for interface in ["lo", "none0"] {
            // A kernel without DCB does not know the message.
            let error = dcb(interface).expect_err(interface);
            let known = [libc::EOPNOTSUPP, libc::ENODEV, libc::EINVAL];
            assert!(
                error.raw_os_error().is_some_and(|errno| known.contains(&errno)),
                "{interface}: {error:?}"
            );
        }
    }
}
