//! The statistics of a network interface's driver, as `ethtool -S` shows them, and its pause settings, as `ethtool -a` does.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::checked;

/// Commands of linux/ethtool.h.
const GET_PAUSE: u32 = 0x12;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_SET_INFO: u32 = 0x37;
/// `ETH_SS_STATS`: the set of the statistics' names.
const STATISTICS: u32 = 1;
/// Bytes of a name.
const NAME: usize = 32;
/// Most statistics of an interface: mlx5 has some thousands, for its queues.
const MAX: usize = 1 << 16;

/// The statistics of an interface's driver, by name.
///
/// # Errors
///
/// Of the ioctl: EOPNOTSUPP if the driver has none, ENODEV without such an interface.
pub fn statistics(interface: &str) -> io::Result<BTreeMap<String, u64>> {
    let names = names(interface)?;
    // The kernel writes as many as the driver has by then: room for queues that were added meanwhile.
    let room = 2 * names.len() + MAX;
    let mut answer = vec![0_u64; 1 + room];
    put(&mut answer, [GET_STATISTICS, names.len() as u32]);
    ioctl(interface, &mut answer)?;
    let [_, count] = halves(answer[0]);
    let values = answer.iter().skip(1).take(count as usize);
    Ok(names.into_iter().zip(values.copied()).collect())
}

/// The names of the statistics, in order.
fn names(interface: &str) -> io::Result<Vec<String>> {
    // struct ethtool_sset_info: command, reserved, mask of sets; then a count for each.
    let mut answer = vec![0_u64; 3];
    put(&mut answer, [GET_SET_INFO, 0]);
    answer[1] = 1 << STATISTICS;
    ioctl(interface, &mut answer)?;
    let count = match answer[1] {
        0 => 0,
        _ => halves(answer[2])[0] as usize,
    };
    if count == 0 {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    if count > MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // struct ethtool_gstrings: command, set, count; then the names. Room as above.
    let room = (12 + (2 * count + MAX) * NAME).div_ceil(8);
    let mut answer = vec![0_u64; room];
    put(&mut answer, [GET_STRINGS, STATISTICS]);
    answer[1] = count as u64;
    ioctl(interface, &mut answer)?;
    let bytes: Vec<u8> = answer.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let given = halves(answer[1])[0] as usize;
    let names = bytes[12..].chunks(NAME).take(given.min(count));
    Ok(names.map(text).collect())
}

/// Whether an interface stops for pause frames that arrive, and whether it sends them. They stop every priority of the link.
///
/// # Errors
///
/// Of the ioctl: EOPNOTSUPP if the driver has none, ENODEV without such an interface.
pub fn pause(interface: &str) -> io::Result<(bool, bool)> {
    // struct ethtool_pauseparam: command, autonegotiation, receive, send.
    let mut answer = vec![0_u64; 2];
    put(&mut answer, [GET_PAUSE, 0]);
    ioctl(interface, &mut answer)?;
    let [receives, sends] = halves(answer[1]);
    Ok((receives != 0, sends != 0))
}

/// Text up to its NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

/// Sets the first two 32-bit numbers.
fn put(answer: &mut [u64], [first, second]: [u32; 2]) {
    let [a, b] = [first, second].map(u32::to_ne_bytes);
    answer[0] = u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]);
}

/// The two 32-bit numbers in a word.
fn halves(word: u64) -> [u32; 2] {
    let b = word.to_ne_bytes();
    [u32::from_ne_bytes([b[0], b[1], b[2], b[3]]), u32::from_ne_bytes([b[4], b[5], b[6], b[7]])]
}

/// `SIOCETHTOOL` with a command and room for its answer: 64-bit words, which every structure of linux/ethtool.h is aligned to.
fn ioctl(interface: &str, answer: &mut [u64]) -> io::Result<()> {
    let name = checked(interface)?;
    let mut request = libc::ifreq {
        ifr_name: [0; super::NAME],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: answer.as_mut_ptr().cast::<c_char>() },
    };
    for (place, byte) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *place = c_char::from_ne_bytes([*byte]);
    }
    let socket: OwnedFd =
        socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the request names an interface and points to memory that outlives the call. The kernel writes the structure of the command,
    // and as many names or values as the driver has; callers leave room for 65,536 more than it had a moment before.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_texts() {
        let mut answer = [0];
        put(&mut answer, [7, 9]);
        assert_eq!(halves(answer[0]), [7, 9]);
        assert_eq!(text(b"rx_prio0_pause\0\0"), "rx_prio0_pause");
        assert_eq!(text(b"\xffx"), "\u{fffd}x");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no ioctl")]
    fn interfaces_without_statistics() {
        for (interface, errno) in [("lo", libc::EOPNOTSUPP), ("none0", libc::ENODEV)] {
            let error = statistics(interface).expect_err(interface);
            assert_eq!(error.raw_os_error(), Some(errno), "{interface}: {error}");
            let error = pause(interface).expect_err(interface);
            assert_eq!(error.raw_os_error(), Some(errno), "{interface}: {error}");
        }
        for name in ["", "../lo", "a\0b", "much-too-long-a-name"] {
            let error = statistics(name).expect_err(name);
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }
}
