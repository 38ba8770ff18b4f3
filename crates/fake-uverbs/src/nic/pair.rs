//! Queue pairs: addresses of their queues, and the NIC's progress.

use std::ffi::c_int;
use std::time::Instant;

use crate::bytes::{Answer, Request};
use crate::nic::memory::Segment;
use crate::nic::objects::Objects;
use crate::nic::registers::Register;
use crate::nic::remote::Call;
use crate::nic::state::{Attributes, stage};
use crate::nic::{memory, objects};

/// `enum ib_qp_type`: RC, UC and UD.
pub const RELIABLE: u8 = 2;
pub const UNRELIABLE: u8 = 3;
pub const DATAGRAMS: u8 = 4;

/// A WQEBB: a send queue's unit, in bytes.
pub const BLOCK: usize = 64;

/// The first queue pair number, with three distinct nonzero bytes.
const FIRST_NUMBER: u32 = 0xa5_c301;

pub struct QueuePair {
    pub context: c_int,
    pub number: u32,
    /// Position in the process, from 0.
    pub index: u64,
    pub user_index: u32,
    pub kind: u8,
    pub domain: u32,
    pub send_queue: u32,
    pub receive_queue: u32,
    pub sends: Segment,
    pub receives: Segment,
    /// Bytes per receive WQE.
    pub stride: usize,
    /// Address of the doorbell record: receives posted, WQEBBs posted.
    pub record: usize,
    /// False if the NIC does not read the second one: the doorbell alone says what is posted.
    pub has_send_record: bool,
    pub register: Register,
    /// `max_send_wr` to `max_inline_data`, as requested.
    pub capacities: [u32; 5],
    pub signals_all: u8,
    pub now: Attributes,
    /// WQEBBs posted according to the last doorbell, and the first one not executed, both modulo 2^16.
    pub posted: u16,
    pub executed: u16,
    pub used: u16,
    /// Requests that have ended.
    pub requests_ended: u64,
    /// Since when the first request waits for the remote end.
    pub waits_since: Option<Instant>,
    /// The call of the first request, if its remote end is in another process.
    pub call: Option<Call>,
}

impl QueuePair {
    pub fn completes_in(&self, queue: u32) -> bool {
        self.send_queue == queue || self.receive_queue == queue
    }

    /// Posted receives that are unused.
    pub fn receives_left(&self) -> u16 {
        // SAFETY: a live queue pair's record, which the provider frees after destroying the pair; aligned, as `create_pair` checked.
        let posted = unsafe { memory::record(self.record) };
        (posted as u16).wrapping_sub(self.used)
    }

    /// Takes a doorbell that says by itself what is posted.
    pub fn take_end(&mut self, end: u16) {
        if self.now.state != stage::RESET {
            self.posted = end;
        }
    }

    /// Reads the doorbell record. Not in RESET, where the record may still be the previous one.
    pub fn read_doorbells(&mut self) {
        if self.now.state == stage::RESET || !self.has_send_record {
            return;
        }
        // SAFETY: as above; the second of the record's two words.
        self.posted = unsafe { memory::record(self.record + 4) } as u16;
    }

    /// Empties both queues, as RESET does. The provider clears the record afterwards.
    pub fn empty(&mut self) {
        self.posted = 0;
        self.executed = 0;
        self.used = 0;
        self.waits_since = None;
        self.call = None;
    }
}

impl Objects {
    /// `CREATE_QP`: `struct ib_uverbs_create_qp`, with the requested capacities at 32, and `struct mlx5_ib_create_qp` at 56; answered
    /// with `struct ib_uverbs_create_qp_resp`, then `struct mlx5_ib_create_qp_resp` at 32.
    ///
    /// The provider reads capacities from the response, which returns them as requested. The buffer holds the receive queue, then the
    /// send queue (`set_user_buf_size` and `_create_user_qp` in Linux `drivers/infiniband/hw/mlx5/qp.c`).
    pub fn create_pair(&mut self, context: c_int, request: Request) -> Result<Answer, c_int> {
        let kind = request.u8(53);
        let has_shared_receives = request.u8(54) != 0;
        if ![RELIABLE, UNRELIABLE, DATAGRAMS].contains(&kind) || has_shared_receives {
            return Err(libc::EOPNOTSUPP);
        }
        let layout = Layout::of(request)?;
        let domain = request.u32(16);
        self.check_domain(context, domain)?;
        let (send_queue, receive_queue) = (request.u32(20), request.u32(24));
        let known = |handle| self.queues.get(&handle).is_some_and(|queue| queue.context == context);
        if !known(send_queue) || !known(receive_queue) {
            return Err(libc::EINVAL);
        }
        let created = self.created;
        let (register, register_index) = doorbell_register(request, created);
        let mut capacities = [0; 5];
        for (field, capacity) in capacities.iter_mut().enumerate() {
            *capacity = request.u32(32 + 4 * field);
        }
        let pair = QueuePair {
            context,
            number: (FIRST_NUMBER + created) & 0xff_ffff,
            index: u64::from(created),
            user_index: request.u32(88),
            kind,
            domain,
            send_queue,
            receive_queue,
            sends: layout.sends,
            receives: layout.receives,
            stride: layout.stride,
            record: layout.record,
            has_send_record: true,
            register,
            capacities,
            signals_all: request.u8(52),
            now: Attributes::default(),
            posted: 0,
            executed: 0,
            used: 0,
            requests_ended: 0,
            waits_since: None,
            call: None,
        };
        self.created = self.created.wrapping_add(1);
        let handle = self.next();
        let mut answer = Answer::new();
        answer.u32(0, handle);
        answer.u32(4, pair.number);
        for (field, capacity) in capacities.iter().enumerate() {
            answer.u32(8 + 4 * field, *capacity);
        }
        answer.u32(32, register_index);
        self.pairs.insert(handle, pair);
        Ok(answer)
    }

    /// `DESTROY_QP`: its queues are not accessed any more.
    pub fn destroy_pair(&mut self, context: c_int, request: Request) -> Result<Answer, c_int> {
        let handle = request.u32(8);
        self.pair_of(context, handle)?;
        self.read_doorbells();
        self.pairs.remove(&handle);
        Ok(Answer::new())
    }

    /// A queue pair of this context.
    pub fn pair_of(&mut self, context: c_int, handle: u32) -> Result<&mut QueuePair, c_int> {
        let pair = self.pairs.get_mut(&handle);
        pair.filter(|pair| pair.context == context).ok_or(libc::EINVAL)
    }
}

/// Memory of a queue pair's queues, from `struct mlx5_ib_create_qp`.
struct Layout {
    sends: Segment,
    receives: Segment,
    /// Bytes per receive WQE.
    stride: usize,
    /// Address of the doorbell record.
    record: usize,
}

impl Layout {
    fn of(request: Request) -> Result<Self, c_int> {
        let address = |at: usize| usize::try_from(request.u64(at)).map_err(|_| libc::EFAULT);
        let (buffer, record) = (address(56)?, address(64)?);
        let (blocks, receives) = (request.u32(72) as usize, request.u32(76) as usize);
        let shift = request.u32(80);
        let sizes_fit = [blocks, receives]
            .iter()
            .all(|size| *size <= 1 << 16 && (*size == 0 || size.is_power_of_two()));
        if !sizes_fit
            || shift > 12
            || buffer % BLOCK != 0
            || record % 8 != 0
            || buffer == 0
            || record == 0
        {
            return Err(libc::EINVAL);
        }
        let receives = Segment { address: buffer, bytes: receives << shift };
        let sends = Segment {
            address: buffer.checked_add(receives.bytes).ok_or(libc::EFAULT)?,
            bytes: blocks * BLOCK,
        };
        sends.address.checked_add(sends.bytes).ok_or(libc::EFAULT)?;
        Ok(Self { sends, receives, stride: 1 << shift, record })
    }
}

/// The register that a `CREATE_QP` request selects, and the index in its response.
fn doorbell_register(request: Request, created: u32) -> (Register, u32) {
    /// `MLX5_QP_FLAG_BFREG_INDEX`: the register belongs to a thread domain.
    const THREAD_DOMAIN_REGISTER: u32 = 1 << 3;
    /// `MLX5_QP_FLAG_UAR_PAGE_INDEX`: the first register of a page that the library allocated.
    const DYNAMIC_PAGE: u32 = 1 << 10;
    /// `MLX5_IB_INVALID_BFREG`.
    const NO_REGISTER: u32 = 1 << 31;
    if request.u32(84) & DYNAMIC_PAGE != 0 {
        (Register::of_page(request.u32(92)), NO_REGISTER)
    } else if request.u32(84) & THREAD_DOMAIN_REGISTER != 0 {
        (Register::of_thread_domain(request.u32(92)), NO_REGISTER)
    } else {
        (Register::of_device(doorbell(created)), doorbell(created))
    }
}

/// The doorbell register of queue pair `created`, counted from 0, in libmlx5's numbering: four per page, of which two are used
/// (`adjust_bfregn` in Linux `drivers/infiniband/hw/mlx5/qp.c`). The first 15 pairs have their own; all others share register 0,
/// which has no BlueFlame.
fn doorbell(created: u32) -> u32 {
    let register = if created < 15 { created + 1 } else { 0 };
    register / 2 * 4 + register % 2
}

/// The user index of a queue pair, for tests that write CQEs; all ones if there is no such pair.
#[unsafe(no_mangle)]
pub extern "C" fn fake_uverbs_user_index(number: u32) -> u32 {
    let objects = objects();
    let found = objects.pairs.values().find(|pair| pair.number == number);
    found.map_or(u32::MAX, |pair| pair.user_index)
}
