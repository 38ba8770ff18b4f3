//! State changes of firmware queue pairs.

use std::marker::PhantomData;

use super::QueuePair;
use super::command::Command;
use super::layout::{bytes, opcode, path, queue_pair as at};
use super::path::AddressPath;
use super::queue_pair::{Inner, MIGRATED};
use crate::{Access, Behaviour, Error, Init, Peer, Reset, Route, Rtr, Rts, Transport};

/// `log_msg_max`: 1 GiB, mlx5_ib's value for connections.
const LOG_LONGEST: u64 = 30;
/// `log_msg_max` and `mtu` of datagrams: 4 KiB, mlx5_ib's values.
const LOG_DATAGRAM: u64 = 12;
const DATAGRAM_MTU: u64 = 5;
/// `atomic_mode`: words of up to 64 bits.
const WORDS: u64 = 3;

impl<S> QueuePair<S> {
    /// The QPN, which the remote end needs.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.inner.number
    }

    /// Moves to Error: the remote end gets no more answers, and posted requests complete as flushed.
    ///
    /// # Errors
    ///
    /// [`Error::Command`].
    pub fn fail(&self) -> Result<(), Error> {
        let command = Command::about("2ERR_QP", opcode::TO_ERROR_QP, bytes::SHORT, self.number())?;
        command.modify(&self.inner.object)
    }

    fn now<T>(self, command: &Command) -> Result<QueuePair<T>, Error> {
        command.modify(&self.inner.object)?;
        Ok(QueuePair { inner: self.inner, state: PhantomData })
    }
}

impl QueuePair<Reset> {
    /// Moves to Init: sets the port, and the remote access rights or the Q_Key of datagrams.
    ///
    /// # Errors
    ///
    /// [`Error::Command`].
    pub fn init(self, port: u8, access: Access, qkey: u32) -> Result<QueuePair<Init>, Error> {
        let command = self.inner.to_init(port, access, qkey)?;
        self.now(&command)
    }
}

impl QueuePair<Init> {
    /// Moves to Rtr: sets the remote end and the path. Datagrams use neither.
    ///
    /// # Errors
    ///
    /// [`Error::Mtu`]; [`Error::NoGid`] on Ethernet without a GID; [`Error::Call`]: ETIMEDOUT if the address cannot be resolved;
    /// [`Error::Command`].
    pub fn ready_to_receive(
        self,
        route: Route,
        peer: Peer,
        behaviour: Behaviour,
    ) -> Result<QueuePair<Rtr>, Error> {
        let command = self.inner.to_rtr(route, peer, behaviour)?;
        self.now(&command)
    }
}

impl QueuePair<Rtr> {
    /// Moves to Rts. `psn` is the local first PSN, as the remote end knows it.
    ///
    /// # Errors
    ///
    /// [`Error::Command`].
    pub fn ready_to_send(self, psn: u32, behaviour: Behaviour) -> Result<QueuePair<Rts>, Error> {
        let command = self.inner.to_rts(psn, behaviour)?;
        self.now(&command)
    }
}

/// The commands of state changes.
impl Inner {
    pub(super) fn to_init(&self, port: u8, access: Access, qkey: u32) -> Result<Command, Error> {
        to_init(self.number, self.transport, (port, access, qkey))
    }

    pub(super) fn to_rtr(
        &self,
        route: Route,
        peer: Peer,
        behaviour: Behaviour,
    ) -> Result<Command, Error> {
        let [_, answers] = self.reads;
        let mut command = to_rtr(self.number, self.transport, peer, behaviour, answers)?;
        if self.transport != Transport::Ud {
            AddressPath::to(&self.domain, route, peer.address)?.put(&mut command, route)?;
        }
        Ok(command)
    }

    pub(super) fn to_rts(&self, psn: u32, behaviour: Behaviour) -> Result<Command, Error> {
        let [reads, _] = self.reads;
        to_rts(self.number, self.transport, psn, behaviour, reads)
    }
}

fn to_init(
    number: u32,
    transport: Transport,
    (port, access, qkey): (u8, Access, u32),
) -> Result<Command, Error> {
    let mut command = Command::about("RST2INIT_QP", opcode::RST2INIT_QP, bytes::LONG, number)?;
    command.set(at::PM_STATE, MIGRATED)?;
    command.set(path::VHCA_PORT_NUM, port.into())?;
    command.set(path::PKEY_INDEX, 0)?;
    if transport == Transport::Ud {
        command.set(at::Q_KEY, qkey.into())?;
        return Ok(command);
    }
    for (field, value) in [
        (at::RRE, access.remote_read.into()),
        (at::RWE, access.remote_write.into()),
        (at::RAE, access.remote_atomic.into()),
        (at::ATOMIC_MODE, if access.remote_atomic { WORDS } else { 0 }),
    ] {
        command.set(field, value)?;
    }
    Ok(command)
}

fn to_rtr(
    number: u32,
    transport: Transport,
    peer: Peer,
    behaviour: Behaviour,
    most: u32,
) -> Result<Command, Error> {
    let mut command = Command::about("INIT2RTR_QP", opcode::INIT2RTR_QP, bytes::LONG, number)?;
    if transport == Transport::Ud {
        command.set(at::MTU, DATAGRAM_MTU)?;
        command.set(at::LOG_MSG_MAX, LOG_DATAGRAM)?;
        return Ok(command);
    }
    let mtu = (1..=5).find(|mtu| 128 << mtu == behaviour.mtu);
    for (field, value) in [
        (at::MTU, mtu.ok_or(Error::Mtu(behaviour.mtu))?),
        (at::LOG_MSG_MAX, LOG_LONGEST),
        (at::REMOTE_QPN, peer.queue_pair.into()),
        (at::NEXT_RCV_PSN, peer.psn.into()),
    ] {
        command.set(field, value)?;
    }
    if transport == Transport::Rc {
        command.set(at::MIN_RNR_NAK, behaviour.receiver_timer.into())?;
        // At least as many as the remote end may have outstanding.
        command.set(at::LOG_RRA_MAX, logarithm(behaviour.reads).min(most).into())?;
    }
    Ok(command)
}

fn to_rts(
    number: u32,
    transport: Transport,
    psn: u32,
    behaviour: Behaviour,
    most: u32,
) -> Result<Command, Error> {
    let mut command = Command::about("RTR2RTS_QP", opcode::RTR2RTS_QP, bytes::LONG, number)?;
    command.set(at::NEXT_SEND_PSN, psn.into())?;
    if transport != Transport::Rc {
        return Ok(command);
    }
    // At most as many as the remote end answers.
    let reads = behaviour.reads.max(1).ilog2();
    for (field, value) in [
        (at::LOG_ACK_REQ_FREQ, 0),
        (at::RETRY_COUNT, behaviour.retries.into()),
        (at::RNR_RETRY, behaviour.receiver_retries.into()),
        (path::ACK_TIMEOUT, behaviour.timeout.into()),
        (at::LOG_SRA_MAX, reads.min(most).into()),
    ] {
        command.set(field, value)?;
    }
    Ok(command)
}

/// log2, rounded up.
fn logarithm(count: u8) -> u32 {
    u32::from(count).max(1).next_power_of_two().ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    /// The nonzero bytes of a command, with their offsets.
    fn nonzero_bytes(command: &Command) -> Vec<(usize, u8)> {
        let bytes = command.bytes().iter().copied().enumerate();
        bytes.filter(|(_, byte)| *byte != 0).collect()
    }

    #[test]
    fn init_command_bytes() {
        let command = to_init(0x0a_0b0c, Transport::Rc, (2, Access::ALL, 7)).unwrap();
        assert_eq!(command.bytes().len(), 272);
        // opcode; qpn; pm_state; port; atomic_mode, rre, rwe and rae.
        let context = 24;
        let expected = [
            (0, 0x05),
            (1, 0x02),
            (9, 0x0a),
            (10, 0x0b),
            (11, 0x0c),
            (context + 2, 0x18),
            (context + 24 + 37, 2),
            (context + 0x91, 0x03),
            (context + 0x92, 0xe0),
        ];
        assert_eq!(nonzero_bytes(&command), expected);
        let none = to_init(0x0a_0b0c, Transport::Uc, (2, Access::default(), 7)).unwrap();
        assert_eq!(nonzero_bytes(&none), expected[..7]);
    }

    #[test]
    fn rtr_command_bytes() {
        let peer =
            Peer { address: Address { lid: 0, gid: None }, queue_pair: 0x11_2233, psn: 0x44_5566 };
        let behaviour = Behaviour {
            timeout: 18,
            retries: 5,
            receiver_retries: 6,
            reads: 5,
            ..Behaviour::of(1024)
        };
        let context = 24;
        let command = to_rtr(7, Transport::Rc, peer, behaviour, 4).unwrap();
        let expected = [
            (0, 0x05),
            (1, 0x03),
            (11, 7),
            // MTU 3, log_msg_max 30.
            (context + 8, 0x7e),
            (context + 21, 0x11),
            (context + 22, 0x22),
            (context + 23, 0x33),
            // log_rra_max 3.
            (context + 0x91, 0x60),
            (context + 0x94, 12),
            (context + 0x95, 0x44),
            (context + 0x96, 0x55),
            (context + 0x97, 0x66),
        ];
        assert_eq!(nonzero_bytes(&command), expected);
        let command = to_rts(7, Transport::Rc, 0x00_0102, behaviour, 4).unwrap();
        let expected = [
            (0, 0x05),
            (1, 0x04),
            (11, 7),
            // ack_timeout: the high five bits.
            (context + 24 + 8, 0x90),
            // log_sra_max 2; then retry_count and rnr_retry.
            (context + 0x71, 0x45),
            (context + 0x72, 0xc0),
            (context + 0x7a, 1),
            (context + 0x7b, 2),
        ];
        assert_eq!(nonzero_bytes(&command), expected);
        let behaviour = Behaviour::of(1000);
        assert!(matches!(to_rtr(7, Transport::Rc, peer, behaviour, 4), Err(Error::Mtu(1000))));
        let too_many = Behaviour { retries: 8, ..Behaviour::of(1024) };
        assert!(matches!(to_rts(7, Transport::Rc, 0, too_many, 4), Err(Error::Field { .. })));
    }

    #[test]
    fn datagram_command_bytes() {
        let context = 24;
        let command = to_init(7, Transport::Ud, (1, Access::ALL, 0x1122_3344)).unwrap();
        let expected = [
            (0, 0x05),
            (1, 0x02),
            (11, 7),
            (context + 2, 0x18),
            (context + 24 + 37, 1),
            // q_key, after dbr_addr.
            (context + 0xa8, 0x11),
            (context + 0xa9, 0x22),
            (context + 0xaa, 0x33),
            (context + 0xab, 0x44),
        ];
        assert_eq!(nonzero_bytes(&command), expected);
        let peer = Peer { address: Address { lid: 0, gid: None }, queue_pair: 1, psn: 1 };
        let command = to_rtr(7, Transport::Ud, peer, Behaviour::of(1024), 4).unwrap();
        // MTU 5, log_msg_max 12.
        let expected = [(0, 0x05), (1, 0x03), (11, 7), (context + 8, 0xac)];
        assert_eq!(nonzero_bytes(&command), expected);
        let command = to_rts(7, Transport::Ud, 0x0102, Behaviour::of(1024), 4).unwrap();
        let expected = [(0, 0x05), (1, 0x04), (11, 7), (context + 0x7a, 1), (context + 0x7b, 2)];
        assert_eq!(nonzero_bytes(&command), expected);
    }
}
