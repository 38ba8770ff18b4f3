//! Address vectors of direct verbs decode to the address in a WQE.

use std::ptr::NonNull;

use ibverbs_sys as ib;

use crate::address::addresses;
use crate::encode;
use crate::inside::inside;
use crate::provider::Device;
use crate::random::Random;

#[test]
#[ignore = "needs libmlx5"]
fn decodes_address_vectors() {
    inside("vectors::decodes_address_vectors", &[], || {
        let device = Device::open();
        let context = NonNull::new(device.context).expect("open");
        // SAFETY: the context stays open until the process ends.
        let context = unsafe { verbs::Context::foreign(context) }.expect("libibverbs is there");
        for address in addresses(&device, &mut Random(0x6176), 400) {
            let handle = NonNull::<ib::ibv_ah>::new(address.handle).expect("a handle");
            // SAFETY: the handle is live and belongs to this device.
            let vector = unsafe { context.address_vector(handle) }.expect("mlx5");
            assert!(encode::is_path(vector.bytes(), &address), "{address:x?}: {vector:02x?}");
        }
    });
}
