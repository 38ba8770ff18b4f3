//! A full completion queue: unpolled CQEs are kept, excess completions are lost and counted.

use ibverbs_sys as ib;

use crate::NIC;
use crate::bench::Link;
use crate::device::{ALL, Device};
use crate::inside::inside;
use crate::raw::overruns;
use crate::work::Work;

#[test]
#[ignore = "needs libmlx5"]
fn overrun_keeps_unpolled_cqes() {
    inside("overrun::overrun_keeps_unpolled_cqes", &[NIC], || {
        let device = Device::open();
        let queue = device.queue(8);
        let pair = device.pair_with(ib::ibv_qp_type::IBV_QPT_RC, device.pd, [queue, queue]);
        pair.connect(pair.number, Link::default());
        let memory = device.memory(256, ALL);
        memory.write(0, &[1; 8]);
        let works = |ids: std::ops::Range<u64>| -> Vec<Work> {
            let write =
                |id: u64| Work::write(id, &[memory.sge(0, 8)], &memory, 8 + id as usize * 8);
            ids.map(write).collect()
        };
        // Fills the queue, twice.
        pair.post(&works(0..8));
        for id in 0..8 {
            assert_eq!(queue.success(), id);
        }
        // Three of them overrun.
        pair.post(&works(8..19));
        let since = std::time::Instant::now();
        while overruns() < 3 {
            assert!(since.elapsed() < std::time::Duration::from_secs(10));
            std::thread::yield_now();
        }
        for id in 8..16 {
            assert_eq!(queue.success(), id);
        }
        assert!(queue.poll().is_none());
        assert_eq!(overruns(), 3);
        assert_eq!(memory.read(8, 19 * 8), [1; 19 * 8], "all were executed");
    });
}
