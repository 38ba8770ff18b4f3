//! Queue pairs in caller-provided memory.

use std::marker::PhantomData;
use std::sync::Arc;

use ibverbs_sys::{self as raw, mlx5dv_obj_type as object_types};

use super::command::{Command, Object};
use super::layout::{bytes, opcode, queue_pair as at};
use super::{CompletionQueue, Devx, Registers, Spot, Umem, power};
use crate::{Error, ProtectionDomain, Reset, Transport};

/// Parameters of a queue pair.
#[derive(Debug, Clone)]
pub struct QueuePairOptions {
    /// The transport.
    pub transport: Transport,
    /// WQEBBs of 64 bytes in the send queue: a power of two, at most 2^15.
    pub send_blocks: u32,
    /// Receive WQEs: a power of two, at most 2^15. Together they fill whole WQEBBs.
    pub receives: u32,
    /// Bytes of a receive WQE: a power of two from 16 to 2048.
    pub receive_stride: u32,
    /// Memory of both rings, page-aligned: the receive queue, then the send queue.
    pub rings: Spot,
    /// Memory of the two 32-bit doorbell records: receive queue, then send queue. A multiple of eight.
    pub records: Spot,
    /// Its doorbell register's page.
    pub registers: Registers,
    /// False for a send queue whose doorbell record the NIC never reads: [`Registers::recordless_register`] alone says what is posted. Needs
    /// [`Capabilities::has_recordless_queues`](super::Capabilities::has_recordless_queues).
    pub has_record: bool,
    /// The user index in its CQEs, 24 bits.
    pub user_index: u32,
}

/// A queue pair in state `S`. It is destroyed on drop, and keeps its memory, registers and completion queues alive.
#[derive(Debug)]
pub struct QueuePair<S> {
    pub(super) inner: Arc<Inner>,
    pub(super) state: PhantomData<S>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub object: Object,
    pub number: u32,
    pub transport: Transport,
    /// log2 of the outstanding reads as requester and as responder.
    pub reads: [u32; 2],
    pub domain: ProtectionDomain,
    _held: ([Umem; 2], Registers, [CompletionQueue; 2]),
}

/// log2 of the maximum ring size: the field `log_sq_size` has four bits, and a 16-bit counter distinguishes at most 2^15 entries from an
/// empty ring.
const LOG_MAX: u32 = 15;

/// `MLX5_QPC_PM_STATE_MIGRATED`.
pub(super) const MIGRATED: u64 = 3;

impl QueuePairOptions {
    /// Bytes of both rings.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.send_offset() + self.send_blocks as usize * 64
    }

    /// Offset of the send queue.
    #[must_use]
    pub fn send_offset(&self) -> usize {
        self.receives as usize * self.receive_stride as usize
    }
}

impl Devx {
    /// Creates a queue pair in a domain. Its work completes in these two queues, which may be the same.
    ///
    /// # Errors
    ///
    /// [`Error::Entries`], [`Error::Range`], [`Error::Foreign`]; [`Error::Call`], [`Error::Command`].
    pub fn queue_pair(
        &self,
        domain: &ProtectionDomain,
        options: &QueuePairOptions,
        sent: &CompletionQueue,
        received: &CompletionQueue,
    ) -> Result<QueuePair<Reset>, Error> {
        options.rings.has(self, options.bytes())?;
        options.records.has(self, 8)?;
        options.registers.is_of(self)?;
        if domain.context().as_raw() != self.context().as_raw() {
            return Err(Error::Foreign { what: "a domain" });
        }
        if options.transport == Transport::Srd {
            return Err(Error::NotEfa { name: self.context().name().to_owned() });
        }
        let capabilities = self.capabilities();
        let named = Named {
            transport: options.transport,
            rings: options.rings.named(),
            records: options.records.named(),
            page: options.registers.number(),
            has_record: options.has_record,
            user_index: options.user_index,
            domain: number(domain)?,
            queues: [sent.number(), received.number()],
            clock: capabilities.clock,
        };
        let sizes = [options.send_blocks, options.receives, options.receive_stride];
        let command = create(sizes, capabilities.log_most_blocks, &named)?;
        let (object, number) = command.create(self.context())?;
        let (rings, records) = (&options.rings.memory, &options.records.memory);
        let inner = Inner {
            object,
            number,
            transport: options.transport,
            reads: [capabilities.log_most_reads, capabilities.log_most_answers],
            domain: domain.clone(),
            _held: (
                [rings.clone(), records.clone()],
                options.registers.clone(),
                [sent.clone(), received.clone()],
            ),
        };
        Ok(QueuePair { inner: Arc::new(inner), state: PhantomData })
    }
}

/// The NIC's number of a protection domain.
fn number(domain: &ProtectionDomain) -> Result<u32, Error> {
    let mut attributes = raw::mlx5dv_pd::default();
    let mut object_pointers = raw::mlx5dv_obj {
        pd_in: domain.as_raw(),
        pd_out: &raw mut attributes,
        ..raw::mlx5dv_obj::default()
    };
    let context = domain.context();
    context.init_object(
        &mut object_pointers,
        object_types::MLX5DV_OBJ_PD.0,
        "a protection domain",
    )?;
    Ok(attributes.pdn)
}

/// Transport and numbers in a `CREATE_QP` command: UMEM and offsets, register page, whether there is a send doorbell record, user index,
/// protection domain, send and receive completion queue, and timestamp format.
#[derive(Debug)]
struct Named {
    transport: Transport,
    rings: (u32, u64),
    records: (u32, u64),
    page: u32,
    has_record: bool,
    user_index: u32,
    domain: u32,
    queues: [u32; 2],
    clock: u64,
}

/// `CREATE_QP` with these WQEBBs, receives, and bytes per receive.
fn create(
    [blocks, receives, stride]: [u32; 3],
    most: u32,
    named: &Named,
) -> Result<Command, Error> {
    let most = most.min(LOG_MAX);
    let received = u64::from(receives) * u64::from(stride);
    let count = receives;
    let blocks = power("a send queue", blocks, most)?;
    let receives = power("a receive queue", receives, most)?;
    let units = power("a receive entry, of units of 16 bytes,", stride / 16, 7)?;
    if !stride.is_multiple_of(16) || !received.is_multiple_of(64) {
        let what = "a receive queue, of whole blocks of 64 bytes,";
        let most = 1 << LOG_MAX;
        return Err(Error::Entries { what, count, most });
    }
    let mut command = Command::new("CREATE_QP", opcode::CREATE_QP, bytes::LONG)?;
    for (field, value) in [
        (
            at::ST,
            match named.transport {
                Transport::Rc => 0,
                Transport::Uc => 1,
                // SRD is rejected above.
                Transport::Ud | Transport::Srd => 2,
            },
        ),
        (at::PM_STATE, MIGRATED),
        (at::PD, named.domain.into()),
        (at::LOG_RQ_SIZE, receives),
        (at::LOG_RQ_STRIDE, units),
        (at::LOG_SQ_SIZE, blocks),
        (at::TS_FORMAT, named.clock),
        (at::UAR_PAGE, named.page.into()),
        // `NO_DBR_EXT`.
        (at::SEND_DBR_MODE, u64::from(!named.has_record)),
        (at::USER_INDEX, named.user_index.into()),
        (at::CQN_SND, named.queues[0].into()),
        (at::CQN_RCV, named.queues[1].into()),
        (at::RQ_TYPE, 0),
        (at::CS_REQ, 0),
        (at::CS_RES, 0),
        (at::DBR_UMEM_VALID, 1),
        (at::DBR_UMEM_ID, named.records.0.into()),
        (at::DBR_ADDR, named.records.1),
        (at::WQ_UMEM_VALID, 1),
        (at::WQ_UMEM_ID, named.rings.0.into()),
        (at::WQ_UMEM_OFFSET, named.rings.1),
    ] {
        command.set(field, value)?;
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> Named {
        Named {
            transport: Transport::Rc,
            rings: (0x0102_0304, 0x1000),
            records: (0x0506_0708, 0x40),
            page: 0x11_2233,
            has_record: true,
            user_index: 0x44_5566,
            domain: 0x77_8899,
            queues: [0xaa_bbcc, 0xdd_eeff],
            clock: 1,
        }
    }

    #[test]
    fn create_qp_bytes() {
        let command = create([1 << 9, 1 << 6, 128], 15, &named()).unwrap();
        let mut expected = [0; 272];
        expected[..2].copy_from_slice(&[0x05, 0x00]);
        let context = &mut expected[24..];
        // pm_state, the domain; 6, 3 and 9, the timestamp format; the page, the user index.
        context[2] = 0x18;
        context[5..8].copy_from_slice(&[0x77, 0x88, 0x99]);
        context[9..12].copy_from_slice(&[0x33, 0x48, 0x40]);
        context[13..16].copy_from_slice(&[0x11, 0x22, 0x33]);
        context[17..20].copy_from_slice(&[0x44, 0x55, 0x66]);
        context[125..128].copy_from_slice(&[0xaa, 0xbb, 0xcc]);
        context[157..160].copy_from_slice(&[0xdd, 0xee, 0xff]);
        // The records' offset, dbr_umem_valid, and their UMEM.
        context[167] = 0x40;
        context[208] = 0x10;
        context[228..232].copy_from_slice(&[5, 6, 7, 8]);
        // The rings' UMEM follows the context.
        expected[262] = 0x10;
        expected[264..268].copy_from_slice(&[1, 2, 3, 4]);
        expected[268] = 0x80;
        assert_eq!(command.bytes(), expected);
        let recordless = Named { has_record: false, ..named() };
        let command = create([1 << 9, 1 << 6, 128], 15, &recordless).unwrap();
        // The upper two bits of the word of the user index.
        let mut with_mode = expected;
        with_mode[24 + 16] = 0x40;
        assert_eq!(command.bytes(), with_mode);
        for (transport, byte) in [(Transport::Uc, 1), (Transport::Ud, 2)] {
            let named = Named { transport, ..named() };
            expected[25] = byte;
            let command = create([1 << 9, 1 << 6, 128], 15, &named).unwrap();
            assert_eq!(command.bytes(), expected);
        }
    }

    #[test]
    fn rejects_invalid_sizes() {
        for sizes in [
            [0, 4, 16],
            [3, 4, 16],
            [1 << 16, 4, 16],
            [4, 6, 16],
            [4, 4, 8],
            [4, 4, 48],
            [4, 4, 4096],
            [4, 2, 16],
        ] {
            let refused = create(sizes, 18, &named());
            assert!(matches!(refused, Err(Error::Entries { .. })), "{sizes:?}: {refused:?}");
        }
    }
}
