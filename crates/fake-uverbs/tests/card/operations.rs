//! Each operation once: the bytes that it moves, and what its completions say.

use ib::{ibv_qp_state, ibv_wc_opcode as done};
use ibverbs_sys as ib;

use crate::CARD;
use crate::bench::{Link, connected, connected_by};
use crate::device::{ALL, Device, Memory};
use crate::inside::inside;
use crate::work::{FENCE, INLINE, SIGNALLED, Work};

/// Bytes that no two places have alike.
fn filled(device: &Device) -> Memory {
    let memory = device.memory(4096, ALL);
    let bytes: Vec<u8> = (0..4096_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    memory.write(0, &bytes);
    memory
}

#[test]
fn send() {
    inside("operations::send", &[CARD], || {
        let (device, a, b) = connected();
        let (from, to) = (filled(&device), device.memory(4096, ALL));
        b.receive(7, &[to.piece(100, 10), to.piece(0, 60), to.piece(300, 500)]);
        a.run(Work::send(1, &[from.piece(1, 90), from.piece(1000, 9)]));
        let wc = b.received.wait();
        assert_eq!(
            (wc.wr_id(), wc.error(), wc.len(), wc.imm_data()),
            (7, None, 99, None)
        );
        assert_eq!((wc.opcode(), wc.qp_num), (done::IBV_WC_RECV, b.number));
        let sent = [from.read(1, 90), from.read(1000, 9)].concat();
        let received = [to.read(100, 10), to.read(0, 60), to.read(300, 29)].concat();
        assert_eq!(sent, received);
        assert_eq!(to.read(329, 50), [0; 50], "nothing behind it");
    });
}

#[test]
fn send_with_immediate() {
    inside("operations::send_with_immediate", &[CARD], || {
        let (device, a, b) = connected();
        let (from, to) = (filled(&device), device.memory(4096, ALL));
        b.receive(8, &[to.piece(0, 64)]);
        a.run(Work::send(1, &[from.piece(0, 64)]).immediate(0x1122_3344));
        let wc = b.received.wait();
        assert_eq!(
            (wc.wr_id(), wc.error(), wc.len(), wc.imm_data()),
            (8, None, 64, Some(0x1122_3344))
        );
        assert_eq!(to.read(0, 64), from.read(0, 64));
        // No bytes at all, and a receive of none.
        b.receive(9, &[]);
        a.run(Work::send(2, &[]).immediate(5));
        let wc = b.received.wait();
        assert_eq!((wc.wr_id(), wc.len(), wc.imm_data()), (9, 0, Some(5)));
    });
}

#[test]
fn write() {
    inside("operations::write", &[CARD], || {
        let (device, a, _) = connected();
        let (from, to) = (filled(&device), device.memory(4096, ALL));
        a.run(Work::write(
            1,
            &[from.piece(5, 1000), from.piece(2000, 24)],
            &to,
            33,
        ));
        assert_eq!(
            to.read(33, 1024),
            [from.read(5, 1000), from.read(2000, 24)].concat()
        );
        assert_eq!(
            (to.read(0, 33), to.read(1057, 100)),
            (vec![0; 33], vec![0; 100])
        );
        a.run(Work::write(2, &[from.piece(7, 190)], &to, 2000).with(SIGNALLED | INLINE));
        assert_eq!(to.read(2000, 190), from.read(7, 190));
    });
}

/// An inline request takes its bytes along when it is posted.
#[test]
fn inline_takes_its_bytes_along() {
    inside("operations::inline_takes_its_bytes_along", &[CARD], || {
        let (device, a, b) = connected();
        let (from, to) = (filled(&device), device.memory(4096, ALL));
        let before = from.read(0, 100);
        a.post(&[Work::send(1, &[from.piece(0, 100)]).with(SIGNALLED | INLINE)]);
        from.write(0, &[0; 100]);
        b.receive(2, &[to.piece(0, 100)]);
        assert_eq!(b.received.success(), 2);
        assert_eq!(to.read(0, 100), before);
    });
}

#[test]
fn write_with_immediate() {
    inside("operations::write_with_immediate", &[CARD], || {
        let (device, a, b) = connected();
        let (from, to) = (filled(&device), device.memory(4096, ALL));
        b.receive(3, &[]);
        a.run(Work::write(1, &[from.piece(0, 500)], &to, 0).immediate(0xdead_beef));
        let wc = b.received.wait();
        assert_eq!(
            (wc.wr_id(), wc.error(), wc.len(), wc.imm_data()),
            (3, None, 500, Some(0xdead_beef))
        );
        assert_eq!(wc.opcode(), done::IBV_WC_RECV_RDMA_WITH_IMM);
        assert_eq!(to.read(0, 500), from.read(0, 500));
    });
}

#[test]
fn read() {
    inside("operations::read", &[CARD], || {
        let (device, a, _) = connected();
        let (from, to) = (filled(&device), device.memory(4096, ALL));
        a.post(&[Work::read(
            1,
            &[to.piece(9, 30), to.piece(100, 70)],
            &from,
            11,
        )]);
        let wc = a.sent.wait();
        assert_eq!(
            (wc.error(), wc.opcode(), wc.len()),
            (None, done::IBV_WC_RDMA_READ, 100)
        );
        assert_eq!(
            [to.read(9, 30), to.read(100, 70)].concat(),
            from.read(11, 100)
        );
    });
}

#[test]
fn atomics() {
    inside("operations::atomics", &[CARD], || {
        let (device, a, _) = connected();
        let memory = device.memory(64, ALL);
        let word =
            |at: usize| u64::from_ne_bytes(memory.read(at, 8).try_into().expect("eight bytes"));
        memory.write(8, &0xffff_ffff_ffff_fff0_u64.to_ne_bytes());
        a.run(Work::fetch_add(1, memory.piece(32, 8), &memory, 8, 0x13));
        assert_eq!((word(8), word(32)), (3, 0xffff_ffff_ffff_fff0));
        a.run(Work::compare_swap(
            2,
            memory.piece(40, 8),
            &memory,
            8,
            (4, 99),
        ));
        assert_eq!((word(8), word(40)), (3, 3), "another value stays");
        a.post(&[Work::compare_swap(
            3,
            memory.piece(48, 8),
            &memory,
            8,
            (3, 0x0102_0304_0506_0708),
        )]);
        let wc = a.sent.wait();
        assert_eq!(
            (wc.error(), wc.opcode(), wc.len()),
            (None, done::IBV_WC_COMP_SWAP, 8)
        );
        assert_eq!((word(8), word(48)), (0x0102_0304_0506_0708, 3));
    });
}

/// A queue pair connected to itself; Ethernet; a chain of which the last is signalled, with fences.
#[test]
fn itself_by_ethernet() {
    inside("operations::itself_by_ethernet", &[CARD], || {
        let device = Device::open();
        let pair = device.pair();
        let link = Link {
            port: 2,
            ..Link::default()
        };
        pair.connect(pair.number, link);
        let memory = filled(&device);
        let before = memory.read(0, 4096);
        pair.receive(1, &[memory.piece(3000, 100)]);
        pair.post(&[
            Work::write(1, &[memory.piece(0, 100)], &memory, 1000).with(0),
            Work::read(2, &[memory.piece(2000, 100)], &memory, 1000).with(0),
            Work::send(3, &[memory.piece(2000, 100)]).with(FENCE | SIGNALLED),
        ]);
        assert_eq!(pair.sent.success(), 3);
        assert_eq!(pair.received.success(), 1);
        assert!(pair.sent.poll().is_none(), "two were not signalled");
        assert_eq!(memory.read(3000, 100), before[..100]);
        assert_eq!(pair.state(), ibv_qp_state::IBV_QPS_RTS);
    });
}

/// A message waits for a receive without end, where it is to be tried seven times.
#[test]
fn waits_for_a_receive() {
    inside("operations::waits_for_a_receive", &[CARD], || {
        let (device, a, b) = connected_by(
            Link::default(),
            Link {
                rnr_retries: 0,
                ..Link::default()
            },
        );
        let (from, to) = (filled(&device), device.memory(4096, ALL));
        a.post(&[
            Work::send(1, &[from.piece(0, 10)]),
            Work::send(2, &[from.piece(10, 10)]),
        ]);
        // The other direction is not held up.
        a.receive(9, &[to.piece(100, 10)]);
        b.run(Work::send(3, &[from.piece(50, 10)]));
        // Far longer than seven times the receiver's timer, 0.64 ms.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(a.sent.poll().is_none());
        for offset in [0, 10] {
            b.receive(offset, &[to.piece(offset as usize, 10)]);
        }
        assert_eq!([a.sent.success(), a.sent.success()], [1, 2]);
        assert_eq!(to.read(0, 20), from.read(0, 20));
    });
}
