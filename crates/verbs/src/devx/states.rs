//! State changes of firmware queue pairs.

use std::marker::PhantomData;

use super::QueuePair;
use super::command::Command;
use super::layout::{bytes, opcode, path, queue_pair as at};
use super::path::AddressPath;
use super::queue_pair::MIGRATED;
use crate::{Access, Behaviour, Error, Init, Peer, Reset, Route, Rtr, Rts};

/// `log_msg_max`: 1 GiB, mlx5_ib's value for connections.
const LOG_LONGEST: u64 = 30;
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
        Ok(QueuePair {
            inner: self.inner,
            state: PhantomData,
        })
    }
}

impl QueuePair<Reset> {
    /// Moves to Init: sets the port and the remote access rights.
    ///
    /// # Errors
    ///
    /// [`Error::Command`].
    pub fn init(self, port: u8, access: Access) -> Result<QueuePair<Init>, Error> {
        let command = to_init(self.number(), port, access)?;
        self.now(&command)
    }
}

fn to_init(number: u32, port: u8, access: Access) -> Result<Command, Error> {
    let mut command = Command::about("RST2INIT_QP", opcode::RST2INIT_QP, bytes::LONG, number)?;
    for (field, value) in [
        (at::PM_STATE, MIGRATED),
        (path::VHCA_PORT_NUM, port.into()),
        (path::PKEY_INDEX, 0),
        (at::RRE, access.remote_read.into()),
        (at::RWE, access.remote_write.into()),
        (at::RAE, access.remote_atomic.into()),
        (
            at::ATOMIC_MODE,
            if access.remote_atomic { WORDS } else { 0 },
        ),
    ] {
        command.set(field, value)?;
    }
    Ok(command)
}

impl QueuePair<Init> {
    /// Moves to Rtr: sets the remote end and the path.
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
        let address_path = AddressPath::to(&self.inner.domain, route, peer.address)?;
        let [_, answers] = self.inner.reads;
        let mut command = to_rtr(self.number(), peer, behaviour, answers)?;
        address_path.put(&mut command, route)?;
        self.now(&command)
    }
}

fn to_rtr(number: u32, peer: Peer, behaviour: Behaviour, most: u32) -> Result<Command, Error> {
    let mtu = (1..=5).find(|mtu| 128 << mtu == behaviour.mtu);
    let mut command = Command::about("INIT2RTR_QP", opcode::INIT2RTR_QP, bytes::LONG, number)?;
    for (field, value) in [
        (at::MTU, mtu.ok_or(Error::Mtu(behaviour.mtu))?),
        (at::LOG_MSG_MAX, LOG_LONGEST),
        (at::REMOTE_QPN, peer.queue_pair.into()),
        (at::NEXT_RCV_PSN, peer.psn.into()),
        (at::MIN_RNR_NAK, behaviour.receiver_timer.into()),
        // At least as many as the remote end may have outstanding.
        (at::LOG_RRA_MAX, logarithm(behaviour.reads).min(most).into()),
    ] {
        command.set(field, value)?;
    }
    Ok(command)
}

impl QueuePair<Rtr> {
    /// Moves to Rts. `psn` is the local first PSN, as the remote end knows it.
    ///
    /// # Errors
    ///
    /// [`Error::Command`].
    pub fn ready_to_send(self, psn: u32, behaviour: Behaviour) -> Result<QueuePair<Rts>, Error> {
        let [reads, _] = self.inner.reads;
        let command = to_rts(self.number(), psn, behaviour, reads)?;
        self.now(&command)
    }
}

fn to_rts(number: u32, psn: u32, behaviour: Behaviour, most: u32) -> Result<Command, Error> {
    let mut command = Command::about("RTR2RTS_QP", opcode::RTR2RTS_QP, bytes::LONG, number)?;
    // At most as many as the remote end answers.
    let reads = behaviour.reads.max(1).ilog2();
    for (field, value) in [
        (at::LOG_ACK_REQ_FREQ, 0),
        (at::NEXT_SEND_PSN, psn.into()),
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
        let command = to_init(0x0a_0b0c, 2, Access::ALL).unwrap();
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
        let none = to_init(0x0a_0b0c, 2, Access::default()).unwrap();
        assert_eq!(nonzero_bytes(&none), expected[..7]);
    }

    #[test]
    fn rtr_command_bytes() {
        let peer = Peer {
            address: Address { lid: 0, gid: None },
            queue_pair: 0x11_2233,
            psn: 0x44_5566,
        };
        let behaviour = Behaviour {
            timeout: 18,
            retries: 5,
            receiver_retries: 6,
            reads: 5,
            ..Behaviour::of(1024)
        };
        let context = 24;
        let command = to_rtr(7, peer, behaviour, 4).unwrap();
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
        let command = to_rts(7, 0x00_0102, behaviour, 4).unwrap();
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
        assert!(matches!(
            to_rtr(7, peer, behaviour, 4),
            Err(Error::Mtu(1000))
        ));
        let too_many = Behaviour {
            retries: 8,
            ..Behaviour::of(1024)
        };
        assert!(matches!(
            to_rts(7, 0, too_many, 4),
            Err(Error::Field { .. })
        ));
    }
}
