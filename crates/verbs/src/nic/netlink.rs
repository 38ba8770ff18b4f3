//! One question to the kernel over a netlink socket, and the attributes of its answer.

use std::io;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::Timeout;
use rustix::net::sockopt::set_socket_timeout;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with,
};
use std::time::Duration;

/// Bytes of a message's header.
const HEADER: usize = 16;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `NLMSG_ERROR`.
const ERROR: u16 = 2;
/// Bytes of an answer: the kernel's are at most a page or two.
const MAX: usize = 1 << 16;
/// Bits of an attribute's type that are flags: nested, network byte order.
const FLAGS: u16 = 0xc000;
/// The kernel answers at once.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends a message of the routing family and returns the payload of the answer.
pub fn ask(kind: u16, payload: &[u8]) -> io::Result<Vec<u8>> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // NETLINK_ROUTE is 0.
        None,
    )?;
    set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT))?;
    let kernel = SocketAddrNetlink::new(0, 0);
    bind(&socket, &kernel)?;
    let length = (HEADER + payload.len()) as u32;
    let mut message = Vec::with_capacity(length as usize);
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    // The sequence number, and this process's port, which the kernel fills in.
    message.extend([0; 8]);
    message.extend(payload);
    sendto(&socket, &message, SendFlags::empty(), &kernel)?;
    let mut answer = vec![0; MAX];
    let (received, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    answer.truncate(received);
    payload_of(&answer)
}

/// The payload of a message; an error message is an error.
fn payload_of(message: &[u8]) -> io::Result<Vec<u8>> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let length = u32_at(message, 0).ok_or_else(malformed)? as usize;
    let kind = u16_at(message, 4).ok_or_else(malformed)?;
    let payload = message.get(HEADER..length).ok_or_else(malformed)?;
    if kind == ERROR {
        let errno = u32_at(payload, 0).ok_or_else(malformed)?.cast_signed();
        return Err(match errno {
            0 => malformed(),
            errno => io::Error::from_raw_os_error(errno.saturating_abs()),
        });
    }
    Ok(payload.to_vec())
}

/// An attribute with its padding.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = (4 + value.len()) as u16;
    let mut bytes = Vec::new();
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The attributes in a payload, without flags in their types; what follows a malformed one is left out.
pub fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let (Some(length), Some(kind)) = (u16_at(bytes, 0), u16_at(bytes, 2)) {
        let length = usize::from(length);
        let Some(value) = bytes.get(4..length) else {
            break;
        };
        found.push((kind & !FLAGS, value));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// The value of the first attribute of a type.
pub fn find<'b>(attributes: &[(u16, &'b [u8])], kind: u16) -> Option<&'b [u8]> {
    let found = attributes.iter().find(|(found, _)| *found == kind);
    found.map(|(_, value)| *value)
}

pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_round_trip_and_break_off() {
        let bytes = [attribute(1, b"eth0\0"), attribute(13 | 0x8000, &attribute(2, &[7]))].concat();
        assert_eq!(bytes.len(), 12 + 12);
        let outer = attributes(&bytes);
        assert_eq!(outer[0], (1, &b"eth0\0"[..]));
        assert_eq!(attributes(find(&outer, 13).expect("it is there")), [(2, &[7][..])]);
        assert_eq!(find(&outer, 2), None);
        for broken in [&bytes[..3], &[3, 0, 1, 0], &[200, 0, 1, 0, 9]] {
            assert!(attributes(broken).is_empty(), "{broken:?}");
        }
        // The second one is cut.
        assert_eq!(attributes(&bytes[..20]).len(), 1);
    }

    #[test]
    fn errors_and_short_messages() {
        let message = |length: u32, kind: u16, payload: &[u8]| {
            [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], payload].concat()
        };
        let error = payload_of(&message(20, ERROR, &(-95_i32).to_ne_bytes()));
        assert_eq!(error.expect_err("an error").raw_os_error(), Some(95));
        assert_eq!(payload_of(&message(18, 78, &[1, 2])).expect("a payload"), [1, 2]);
        for broken in
            [message(99, 78, &[]), message(3, 78, &[]), vec![1, 2], message(18, ERROR, &[1, 2])]
        {
            let error = payload_of(&broken).expect_err("too short");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }
}
