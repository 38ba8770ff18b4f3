//! Queue pairs: where their queues lie, and how far the NIC has come.

use std::ffi::c_int;
use std::time::Instant;

use crate::bytes::{Answer, Request};
use crate::nic::memory::Segment;
use crate::nic::registers::Register;
use crate::nic::state::{Attributes, stage};
use crate::nic::world::World;
use crate::nic::{memory, world};

/// `enum ib_qp_type`: connections, and datagrams.
pub const RELIABLE: u8 = 2;
pub const UNRELIABLE: u8 = 3;
pub const DATAGRAMS: u8 = 4;

/// A block of a send queue.
pub const BLOCK: usize = 64;

/// The first queue pair's number: all three bytes of it say something.
const FIRST_NUMBER: u32 = 0xa5_c301;

pub struct Pair {
    pub context: c_int,
    pub number: u32,
    /// The so manieth of the process, from 0.
    pub index: u64,
    pub user_index: u32,
    pub kind: u8,
    pub domain: u32,
    pub send_queue: u32,
    pub receive_queue: u32,
    pub sends: Segment,
    pub receives: Segment,
    /// Bytes of a receive.
    pub stride: usize,
    /// The doorbell record: receives posted, and blocks posted.
    pub record: usize,
    pub register: Register,
    /// `max_send_wr` to `max_inline_data`, as they were asked for.
    pub capacities: [u32; 5],
    pub signals_all: u8,
    pub now: Attributes,
    /// Blocks posted, as the last doorbell has them, and the first that was not executed. Both count modulo 2^16.
    pub rung: u16,
    pub executed: u16,
    pub used: u16,
    /// How many requests and receives have ended.
    pub requests_ended: u64,
    pub receives_ended: u64,
    /// Since when the first request waits for the remote end.
    pub waits_since: Option<Instant>,
}

impl Pair {
    pub fn completes_in(&self, queue: u32) -> bool {
        self.send_queue == queue || self.receive_queue == queue
    }

    /// Receives that were posted and are not used.
    pub fn receives_left(&self) -> u16 {
        // SAFETY: a live queue pair's record: the provider gives it back after the pair is destroyed. Aligned, as `create` checked.
        let posted = unsafe { memory::record(self.record) };
        (posted as u16).wrapping_sub(self.used)
    }

    /// Has heard its doorbell. In the state RESET there is nothing to hear: the record may still be that of before.
    pub fn hear(&mut self) {
        if self.now.state == stage::RESET {
            return;
        }
        // SAFETY: as above; the second of the record's two words.
        self.rung = unsafe { memory::record(self.record + 4) } as u16;
    }

    /// Both queues are empty again, as in the state RESET. The provider clears the record after this.
    pub fn empty(&mut self) {
        self.rung = 0;
        self.executed = 0;
        self.used = 0;
        self.waits_since = None;
    }
}

impl World {
    /// `CREATE_QP`: `struct ib_uverbs_create_qp`, with the wanted sizes from 32 on, and `struct mlx5_ib_create_qp` at 56; answered
    /// by `struct ib_uverbs_create_qp_resp`, then `struct mlx5_ib_create_qp_resp` at 32.
    ///
    /// The provider knows what it made and takes some sizes from the answer, so that they are given back as they came. The
    /// receive queue lies where the buffer begins, the send queue behind it (`set_user_buf_size` and `_create_user_qp` in Linux'
    /// `drivers/infiniband/hw/mlx5/qp.c`).
    pub fn create_pair(&mut self, context: c_int, request: Request) -> Result<Answer, c_int> {
        /// `MLX5_QP_FLAG_BFREG_INDEX`: the doorbell register is a thread domain's.
        const OWN_REGISTER: u32 = 1 << 3;
        /// `MLX5_QP_FLAG_UAR_PAGE_INDEX`: it is the first of a page that the library had made.
        const OWN_PAGE: u32 = 1 << 10;
        /// `MLX5_IB_INVALID_BFREG`.
        const NO_REGISTER: u32 = 1 << 31;
        let kind = request.u8(53);
        let has_shared_receives = request.u8(54) != 0;
        if ![RELIABLE, UNRELIABLE, DATAGRAMS].contains(&kind) || has_shared_receives {
            return Err(libc::EOPNOTSUPP);
        }
        let place = |at: usize| usize::try_from(request.u64(at)).map_err(|_| libc::EFAULT);
        let (buffer, record) = (place(56)?, place(64)?);
        let (blocks, receives, shift) = (
            request.u32(72) as usize,
            request.u32(76) as usize,
            request.u32(80),
        );
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
        let domain = request.u32(16);
        self.check_domain(context, domain)?;
        let (send_queue, receive_queue) = (request.u32(20), request.u32(24));
        let known = |handle| {
            self.queues
                .get(&handle)
                .is_some_and(|queue| queue.context == context)
        };
        if !known(send_queue) || !known(receive_queue) {
            return Err(libc::EINVAL);
        }
        let made = self.made;
        let (register, told) = if request.u32(84) & OWN_PAGE != 0 {
            (Register::of_page(request.u32(92)), NO_REGISTER)
        } else if request.u32(84) & OWN_REGISTER != 0 {
            (Register::of_thread_domain(request.u32(92)), NO_REGISTER)
        } else {
            (Register::of_device(doorbell(made)), doorbell(made))
        };
        let mut capacities = [0; 5];
        for (field, capacity) in capacities.iter_mut().enumerate() {
            *capacity = request.u32(32 + 4 * field);
        }
        let received = Segment {
            address: buffer,
            bytes: receives << shift,
        };
        let behind = buffer.checked_add(received.bytes).ok_or(libc::EFAULT)?;
        behind.checked_add(blocks * BLOCK).ok_or(libc::EFAULT)?;
        let pair = Pair {
            context,
            number: (FIRST_NUMBER + made) & 0xff_ffff,
            index: u64::from(made),
            user_index: request.u32(88),
            kind,
            domain,
            send_queue,
            receive_queue,
            sends: Segment {
                address: behind,
                bytes: blocks * BLOCK,
            },
            receives: received,
            stride: 1 << shift,
            record,
            register,
            capacities,
            signals_all: request.u8(52),
            now: Attributes::default(),
            rung: 0,
            executed: 0,
            used: 0,
            requests_ended: 0,
            receives_ended: 0,
            waits_since: None,
        };
        self.made = self.made.wrapping_add(1);
        let handle = self.next();
        let mut answer = Answer::new();
        answer.u32(0, handle);
        answer.u32(4, pair.number);
        for (field, capacity) in capacities.iter().enumerate() {
            answer.u32(8 + 4 * field, *capacity);
        }
        answer.u32(32, told);
        self.pairs.insert(handle, pair);
        Ok(answer)
    }

    /// `DESTROY_QP`: its queues are not looked at again.
    pub fn destroy_pair(&mut self, context: c_int, request: Request) -> Result<Answer, c_int> {
        let handle = request.u32(8);
        self.pair_of(context, handle)?;
        self.hear();
        self.pairs.remove(&handle);
        Ok(Answer::new())
    }

    /// A queue pair of this open device.
    pub fn pair_of(&mut self, context: c_int, handle: u32) -> Result<&mut Pair, c_int> {
        let pair = self.pairs.get_mut(&handle);
        pair.filter(|pair| pair.context == context)
            .ok_or(libc::EINVAL)
    }
}

/// The doorbell register of the so manieth queue pair, counted as libmlx5 counts: four to a page, of which two are used
/// (`adjust_bfregn` in Linux' `drivers/infiniband/hw/mlx5/qp.c`). Each pair has its own; once 15 are given, all have register 0,
/// the one without BlueFlame.
fn doorbell(made: u32) -> u32 {
    let register = if made < 15 { made + 1 } else { 0 };
    register / 2 * 4 + register % 2
}

/// The user index of a queue pair, for a test that writes completions; all ones where there is no such pair.
#[unsafe(no_mangle)]
pub extern "C" fn fake_uverbs_user_index(number: u32) -> u32 {
    let world = world();
    let found = world.pairs.values().find(|pair| pair.number == number);
    found.map_or(u32::MAX, |pair| pair.user_index)
}
