//! Thread domains: a queue pair in a parent domain with a thread domain has its own doorbell register on its own page.

use std::io::Error;
use std::mem::offset_of;

use ibverbs_sys as ib;

use crate::NIC;
use crate::bench::{Link, QueuePair};
use crate::device::{ALL, Device};
use crate::inside::inside;
use crate::mlx5dv;
use crate::work::Work;

/// `struct ibv_parent_domain_init_attr` of verbs.h, without an allocator.
#[repr(C)]
struct ParentDomain {
    pd: *mut ib::ibv_pd,
    td: *mut u8,
    comp_mask: u32,
    alloc: usize,
    free: usize,
    pd_context: usize,
}

type AllocTd = unsafe extern "C" fn(*mut ib::ibv_context, *const u32) -> *mut u8;
type AllocParentDomain =
    unsafe extern "C" fn(*mut ib::ibv_context, *mut ParentDomain) -> *mut ib::ibv_pd;

/// A function pointer of `struct verbs_context`.
///
/// # Safety
///
/// `F` is the type of the function at this offset of `struct verbs_context`.
unsafe fn function<F: Copy>(device: Device, offset: usize) -> F {
    let before = offset_of!(ib::verbs_context, context) - offset;
    // SAFETY: libibverbs opens devices inside a `verbs_context`, and the caller's guarantee.
    unsafe { device.context.byte_sub(before).cast::<F>().read() }
}

/// A parent domain with its own thread domain, or the provider's error.
pub fn make(device: Device) -> Result<*mut ib::ibv_pd, Error> {
    // SAFETY: the member's type in `struct verbs_context`.
    let alloc_td: AllocTd = unsafe { function(device, offset_of!(ib::verbs_context, alloc_td)) };
    // SAFETY: an open context and empty attributes.
    let td = unsafe { alloc_td(device.context, &0) };
    if td.is_null() {
        return Err(Error::last_os_error());
    }
    // SAFETY: the member's type in `struct verbs_context`.
    let alloc: AllocParentDomain =
        unsafe { function(device, offset_of!(ib::verbs_context, alloc_parent_domain)) };
    let mut attributes =
        ParentDomain { pd: device.pd, td, comp_mask: 0, alloc: 0, free: 0, pd_context: 0 };
    // SAFETY: an open context, a live protection domain and a live thread domain.
    let pd = unsafe { alloc(device.context, &mut attributes) };
    if pd.is_null() {
        return Err(Error::last_os_error());
    }
    Ok(pd)
}

fn page(pair: &QueuePair) -> usize {
    mlx5dv::queue_pair(pair.qp).bf.reg as usize & !0xfff
}

#[test]
#[ignore = "needs libmlx5"]
fn own_register_page() {
    inside("thread_domain::own_register_page", &[NIC], || {
        let device = Device::open();
        let shared: Vec<QueuePair> = (0..20).map(|_| device.pair()).collect();
        let own: Vec<QueuePair> =
            (0..5).map(|_| device.pair_in(make(device).expect("a thread domain"))).collect();
        for pair in &own {
            assert!(shared.iter().all(|other| page(other) != page(pair)));
        }
        let registers: Vec<_> = own.iter().map(|pair| mlx5dv::queue_pair(pair.qp).bf).collect();
        for (number, register) in registers.iter().enumerate() {
            assert_eq!(register.size, 256, "BlueFlame");
            assert!(registers[..number].iter().all(|other| other.reg != register.reg));
        }
        let memory = device.memory(256, ALL);
        memory.write(0, &[7; 8]);
        for (number, pair) in own.iter().chain(&shared).enumerate() {
            pair.connect(pair.number, Link::default());
            pair.run(Work::write(1, &[memory.sge(0, 8)], &memory, 8 + number * 8));
            assert_eq!(memory.read(8 + number * 8, 8), [7; 8]);
        }
    });
}

/// Two queue pairs of one thread domain share a register.
#[test]
#[ignore = "needs libmlx5"]
fn shared_register() {
    inside("thread_domain::shared_register", &[NIC], || {
        let device = Device::open();
        let domain = make(device).expect("a thread domain");
        let (a, b) = (device.pair_in(domain), device.pair_in(domain));
        let register = |pair: &QueuePair| mlx5dv::queue_pair(pair.qp).bf.reg;
        assert_eq!(register(&a), register(&b));
        a.connect(b.number, Link::default());
        b.connect(a.number, Link::default());
        let memory = device.memory(64, ALL);
        for round in 0..500 {
            a.post(&[Work::write(round, &[memory.sge(0, 8)], &memory, 32)]);
            b.post(&[Work::write(round, &[memory.sge(0, 8)], &memory, 40)]);
            assert_eq!([a.sent.success(), b.sent.success()], [round, round]);
        }
    });
}
