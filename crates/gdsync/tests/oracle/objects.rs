//! The fake kernel creates and destroys every object, and opens the device repeatedly.

use ibverbs_sys as ib;

use crate::address::addresses;
use crate::inside::inside;
use crate::provider::Device;
use crate::random::Random;

#[test]
#[ignore = "needs libmlx5"]
fn creates_and_destroys_objects() {
    inside("objects::creates_and_destroys_objects", &[], || {
        for _ in 0..2 {
            create_and_destroy();
        }
    });
}

fn create_and_destroy() {
    let device = Device::open();
    let mut memory = [0_u8; 100];
    let mut keys = Vec::new();
    for _ in 0..2 {
        // SAFETY: the live domain; the memory lives longer than its registration.
        let region = unsafe { ib::ibv_reg_mr(device.pd, memory.as_mut_ptr().cast(), 100, 1) };
        assert!(!region.is_null(), "ibv_reg_mr: {}", std::io::Error::last_os_error());
        // SAFETY: the live region.
        keys.push(unsafe { ((*region).lkey, (*region).rkey) });
        // SAFETY: as above; it is not used after this.
        assert_eq!(unsafe { ib::ibv_dereg_mr(region) }, 0);
    }
    assert_ne!(keys[0], keys[1]);
    for address in addresses(&device, &mut Random(1), 4) {
        // SAFETY: the live handle, not used after this.
        assert_eq!(unsafe { ib::ibv_destroy_ah(address.handle) }, 0);
    }
    let queue = device.completions(8);
    let cap = ib::ibv_qp_cap {
        max_send_wr: 4,
        max_recv_wr: 4,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    let pairs = [
        device.pair(ib::ibv_qp_type::IBV_QPT_RC, &queue, &queue, cap, false),
        device.pair(ib::ibv_qp_type::IBV_QPT_UD, &queue, &queue, cap, false),
    ];
    assert_ne!(pairs[0].number, pairs[1].number);
    assert_ne!(pairs[0].user_index, pairs[1].user_index);
    for pair in pairs {
        // SAFETY: the live queue pair, not used after this.
        assert_eq!(unsafe { ib::ibv_destroy_qp(pair.qp) }, 0);
    }
    // The fake kernel rejects unknown objects.
    // SAFETY: the open context.
    assert!(unsafe { ib::ibv_create_comp_channel(device.context) }.is_null());
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(95), "EOPNOTSUPP");
    // SAFETY: queue, domain and context are live, have no dependent objects, and are not used after this.
    unsafe {
        assert_eq!(ib::ibv_destroy_cq(queue.cq), 0);
        assert_eq!(ib::ibv_dealloc_pd(device.pd), 0);
        assert_eq!(ib::ibv_close_device(device.context), 0);
    }
}
