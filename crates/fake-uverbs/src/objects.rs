//! What a program makes: numbers for each object, and the user index by which completions name a queue pair.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::bytes::{Answer, Request};

/// The number of the next object, whatever it is. Handles are never used again.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// Each queue pair's number and user index.
static QUEUE_PAIRS: Mutex<Vec<(u32, u32)>> = Mutex::new(Vec::new());

/// The first queue pair's number: all three bytes of it say something.
const FIRST_QPN: u32 = 0xa5_c301;

fn next() -> u32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// `ALLOC_PD`: `struct ib_uverbs_alloc_pd_resp`, then `struct mlx5_ib_alloc_pd_resp` at 4.
pub fn protection_domain() -> Answer {
    let mut answer = Answer::new();
    let handle = next();
    answer.u32(0, handle);
    answer.u32(4, handle); // pdn
    answer
}

/// `REG_MR`: `struct ib_uverbs_reg_mr_resp`. Both keys are the same, as a card's are.
pub fn memory_region() -> Answer {
    let mut answer = Answer::new();
    let handle = next();
    let key = 0x001a_2b00 + (handle << 8);
    answer.u32(0, handle);
    answer.u32(4, key);
    answer.u32(8, key);
    answer
}

/// `CREATE_CQ`: `struct ib_uverbs_create_cq_resp`, then `struct mlx5_ib_create_cq_resp` at 8. The provider asks for a power of
/// two less one entries (at 16 of `struct ib_uverbs_create_cq`) and gets as many.
pub fn completion_queue(request: Request) -> Answer {
    let mut answer = Answer::new();
    let handle = next();
    answer.u32(0, handle);
    answer.u32(4, request.u32(16)); // cqe
    answer.u32(8, handle); // cqn
    answer
}

/// `CREATE_QP`: `struct ib_uverbs_create_qp_resp`, then `struct mlx5_ib_create_qp_resp` at 32.
///
/// The request is `struct ib_uverbs_create_qp`, with the wanted sizes from 32 on, and `struct mlx5_ib_create_qp` at 56. The
/// provider knows what it made and takes some sizes from the answer, so that they are given back as they came.
pub fn queue_pair(request: Request) -> Answer {
    let mut pairs = QUEUE_PAIRS.lock().unwrap_or_else(PoisonError::into_inner);
    let made = u32::try_from(pairs.len()).unwrap_or(u32::MAX >> 8);
    let number = (FIRST_QPN + made) & 0xff_ffff;
    pairs.push((number, request.u32(56 + 32))); // uidx
    let mut answer = Answer::new();
    answer.u32(0, next());
    answer.u32(4, number);
    for field in 0..5 {
        answer.u32(8 + 4 * field, request.u32(32 + 4 * field)); // max_send_wr to max_inline_data
    }
    answer.u32(32, doorbell(made));
    answer
}

/// The doorbell register of the so manieth queue pair, counted as libmlx5 counts: four to a page, of which two are used
/// (`adjust_bfregn` in Linux' `drivers/infiniband/hw/mlx5/qp.c`). Each pair has its own; once 15 are given, all have register 0,
/// the one without BlueFlame.
fn doorbell(made: u32) -> u32 {
    let register = if made < 15 { made + 1 } else { 0 };
    register / 2 * 4 + register % 2
}

/// `CREATE_AH`: `struct ib_uverbs_create_ah_resp`, then `struct mlx5_ib_create_ah_resp` at 4.
///
/// The request has `struct ib_uverbs_ah_attr` at 24, which begins with the destination's GID. The kernel asks the network whose MAC
/// address it is; here it is the GID's last six bytes, each inverted.
pub fn address_handle(request: Request) -> Answer {
    let gid = request.gid(24);
    let mut answer = Answer::new();
    answer.u32(0, next());
    answer.u32(4, 16); // response_length
    for (at, byte) in gid[10..].iter().enumerate() {
        answer.u8(8 + at, !byte);
    }
    answer
}

/// The user index of a queue pair, for a test that writes completions; all ones where there is no such pair.
#[unsafe(no_mangle)]
pub extern "C" fn fake_uverbs_user_index(number: u32) -> u32 {
    let pairs = QUEUE_PAIRS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = pairs.iter().find(|pair| pair.0 == number);
    found.map_or(u32::MAX, |pair| pair.1)
}
