//! Any sequence of calls of libgdsync's C functions, on a SIMULATED CUDA and a SIMULATED libibverbs of two NICs: queue pairs that come and
//! go while streams, and threads in a stream's place, send and wait on them; requests that are copied, changed and posted twice. No crash,
//! every answer an errno, and in the end, with all queue pairs destroyed, no stream and no thread waits any more.
//!
//! `cargo +nightly fuzz run gdsync_calls`

#![no_main]
// Nearly every line of it calls C.
#![allow(unsafe_op_in_unsafe_fn)]

use std::ffi::c_int;
use std::ptr::{null_mut, without_provenance_mut};

use capi::abi::{self, Descriptor, Request, SendInfo, WaitInfo, WorkCompletion};
use capi::*;
use ibverbs_sys as raw;
use libfuzzer_sys::fuzz_target;

/// Bytes of each NIC's memory.
const BYTES: usize = 4096;
/// Queue pairs, requests of each sort, and streams.
const PAIRS: usize = 4;
const REQUESTS: usize = 6;
const STREAMS: usize = 3;

#[path = "gdsync_calls/calls.rs"]
mod calls;
#[path = "support/cuda.rs"]
mod cuda;
#[path = "gdsync_calls/machine.rs"]
mod machine;
#[path = "gdsync_calls/objects.rs"]
mod objects;

use calls::{Call, Part, Work};
use machine::{MACHINE, Machine};
use objects::{Known, Objects};

// The libraries are built before the first input, whose time is limited.
fuzz_target!(init: { MACHINE.get_or_init(Machine::new); }, |calls: Vec<Call>| {
    let machine = MACHINE.get_or_init(Machine::new);
    let nothing = Request {
        words: [0; abi::REQUEST_WORDS],
    };
    let mut objects = Objects {
        machine,
        pairs: Vec::new(),
        sends: vec![nothing; REQUESTS],
        waits: vec![nothing; REQUESTS],
        threads: Vec::new(),
    };
    // Something to begin with, so that short inputs already send.
    for nic in 0..2 {
        objects.make(Call::Create {
            place: nic,
            nic,
            other_domain: false,
            gpu: 0,
            flags: 0,
            sends: 8,
            receives: 8,
            pieces: 2,
            inline: 32,
            kind: 0,
            all: false,
        });
    }
    objects.make(Call::Join { local: 0, peer: 1 });
    let write = Work {
        opcode: 0,
        flags: 2,
        pieces: 1,
        offset: 0,
        length: 64,
        key: true,
        peer_key: true,
        peer_offset: 0,
    };
    objects.make(Call::Send {
        pair: 0,
        how: 0,
        request: 0,
        stream: 0,
        works: vec![write],
    });
    objects.make(Call::PrepareWait {
        pair: 0,
        sent: true,
        request: 0,
        flags: false,
    });
    for call in calls.into_iter().take(100) {
        objects.make(call);
    }
    objects.end();
});

impl Objects<'_> {
    fn make(&mut self, call: Call) {
        // SAFETY: pointers to write to or read from are NULL or the objects' own and large enough; queue pairs that are gone are named, and
        // only named, on purpose.
        unsafe { self.call(call) }
    }

    unsafe fn call(&mut self, call: Call) {
        match call {
            Call::Create {
                place,
                nic,
                other_domain,
                gpu,
                flags,
                sends,
                receives,
                pieces,
                inline,
                kind,
                all,
            } => {
                let place = usize::from(place) % PAIRS;
                if self.pairs.get(place).is_some_and(|known| known.live) {
                    return;
                }
                let at = usize::from(nic) % 2;
                let nic = &self.machine.nics[at];
                let mut wanted = raw::ibv_qp_init_attr::default();
                wanted.qp_type = [2, 2, 2, 2, 3, 4, 77, 0][usize::from(kind % 8)];
                wanted.sq_sig_all = all.into();
                wanted.cap.max_send_wr = sends.into();
                wanted.cap.max_recv_wr = receives.into();
                wanted.cap.max_send_sge = u32::from(pieces % 70);
                wanted.cap.max_recv_sge = u32::from(pieces % 9);
                wanted.cap.max_inline_data = u32::from(inline) * 4;
                let flags = if flags < 200 { 0 } else { c_int::from(flags % 64) };
                let domain = if other_domain {
                    self.machine.nics[1 - at].domains[0]
                } else {
                    nic.domains[0]
                };
                let gpu = if gpu > 100 { c_int::from(gpu) } else { 0 };
                let qp = gds_create_qp(domain, nic.context, &raw mut wanted, gpu, flags);
                if qp.is_null() {
                    return;
                }
                assert!(
                    !other_domain && gpu == 0 && flags == 0 && (2..=3).contains(&wanted.qp_type)
                );
                let known = Known { qp, nic: at, live: true };
                match self.pairs.get_mut(place) {
                    Some(old) => *old = known,
                    None => self.pairs.push(known),
                }
            }
            Call::Destroy { pair } => {
                let Some(at) = self.at(pair) else { return };
                let known = self.pairs[at];
                // The address of one that is gone may be another's by now.
                if known.live || !self.is_live(known.qp) {
                    let answer = fine(gds_destroy_qp(known.qp));
                    assert_eq!(answer, if known.live { 0 } else { libc::EINVAL });
                    self.pairs[at].live = false;
                }
            }
            Call::Join { local, peer } => {
                let (Some(local), Some(peer)) = (self.live(local), self.live(peer)) else {
                    return;
                };
                self.join(local, peer);
                self.join(peer, local);
            }
            Call::Modify { pair, state, mask } => {
                let mut attributes = raw::ibv_qp_attr::default();
                attributes.qp_state = u32::from(state % 9);
                let attributes = if state == 255 { null_mut() } else { &raw mut attributes };
                fine(gds_modify_qp(self.qp(pair), attributes, c_int::from(mask)));
            }
            Call::Send { pair, how, request, stream, works } => {
                self.send(pair, how, request, stream, works)
            }
            Call::Receive { pair, offset, length, pieces, key } => {
                let mut pieces_of = self.pieces(pair, offset, length, key);
                let mut wr = raw::ibv_recv_wr {
                    wr_id: 1,
                    next: null_mut(),
                    sg_list: pieces_of.as_mut_ptr(),
                    num_sge: pieces.clamp(-1, 8).into(),
                };
                let mut bad = null_mut();
                fine(gds_post_recv(self.qp(pair), &raw mut wr, &raw mut bad));
            }
            Call::Poll { pair, sent, count, nowhere } => {
                let mut taken = [WorkCompletion::default(); 128];
                let to = if nowhere { null_mut() } else { taken.as_mut_ptr() };
                let answer = gds_poll_cq(self.cq(pair, sent), count.into(), to);
                assert!((-4095..=c_int::from(count).max(0)).contains(&answer), "{answer}");
            }
            Call::PrepareWait { pair, sent, request, flags } => {
                let cq = self.cq(pair, sent);
                let place = &raw mut self.waits[usize::from(request) % REQUESTS];
                fine(gds_prepare_wait_cq(cq, place, flags.into()));
            }
            Call::Append { request, nowhere, value } => {
                let word = if nowhere {
                    0x1000
                } else {
                    self.machine.words.d_ptr + u64::from(value % 1024) * 4
                };
                let request = &raw mut self.waits[usize::from(request) % REQUESTS];
                fine(gds_append_wait_cq(request, without_provenance_mut(word as usize), value));
            }
            Call::Abort { pair, sent, request, flags } => {
                let cq = self.cq(pair, sent);
                let request = &raw mut self.waits[usize::from(request) % REQUESTS];
                fine(gds_post_wait_cq(cq, request, flags.into()));
            }
            Call::Wait { pair, sent, stream } => {
                fine(gds_stream_wait_cq(self.stream(stream), self.cq(pair, sent), 0));
            }
            Call::PostSends { stream, first, count } => {
                let (first, count) = few(first, count);
                fine(gds_stream_post_send_all(
                    self.stream(stream),
                    count,
                    &raw mut self.sends[first],
                ));
            }
            Call::PostWaits { stream, first, count } => {
                let (first, count) = few(first, count);
                fine(gds_stream_post_wait_cq_all(
                    self.stream(stream),
                    count,
                    &raw mut self.waits[first],
                ));
            }
            Call::List { stream, by_cpu, parts } => self.list(stream, by_cpu, parts),
            Call::Ask { first, count } => {
                let (first, count) = few(first, count);
                let mut sends: [SendInfo; REQUESTS] = std::mem::zeroed();
                let mut waits: [WaitInfo; REQUESTS] = std::mem::zeroed();
                fine(gds_mlx5_get_send_info(
                    count,
                    &raw const self.sends[first],
                    sends.as_mut_ptr(),
                ));
                fine(gds_mlx5_get_wait_info(
                    count,
                    &raw const self.waits[first],
                    waits.as_mut_ptr(),
                ));
            }
            Call::Change { wait, request, byte, bits } => {
                let requests = if wait { &mut self.waits } else { &mut self.sends };
                requests[usize::from(request) % REQUESTS].words[usize::from(byte / 8) % 5] ^=
                    u64::from(bits) << (byte % 8 * 8);
            }
            Call::Copy { wait, from, to } => {
                let from = if wait {
                    self.waits[usize::from(from) % REQUESTS]
                } else {
                    self.sends[usize::from(from) % REQUESTS]
                };
                // Also of the other sort.
                self.waits[usize::from(to) % REQUESTS] = from;
            }
        }
    }

    unsafe fn send(&mut self, pair: u8, how: u8, request: u8, stream: u8, works: Vec<Work>) {
        let peer = &self.machine.nics[self.nic(pair) ^ 1];
        let mut pieces: Vec<Vec<raw::ibv_sge>> = Vec::new();
        let mut list: Vec<raw::ibv_send_wr> = Vec::new();
        for work in works.into_iter().take(12) {
            let mut wr = raw::ibv_send_wr { wr_id: list.len() as u64, ..Default::default() };
            wr.opcode = u32::from(work.opcode % 13);
            wr.send_flags = u32::from(work.flags % 20);
            wr.num_sge = work.pieces.clamp(-1, 8).into();
            pieces.push(self.pieces(
                pair,
                work.offset,
                work.length,
                work.key || wr.send_flags & 8 != 0,
            ));
            let remote = peer.memory.expose_provenance() as u64
                + u64::from(work.peer_offset % (BYTES as u16 + 8)) / 8 * 8;
            let rkey = if work.peer_key { peer.keys.1 } else { 0x7777 };
            wr.wr.atomic =
                raw::ibv_send_wr_atomic { remote_addr: remote, compare_add: 1, swap: 2, rkey };
            if matches!(wr.opcode, 0 | 1 | 4) {
                wr.wr.rdma = raw::ibv_send_wr_rdma { remote_addr: remote, rkey };
            }
            list.push(wr);
        }
        for (wr, pieces) in list.iter_mut().zip(&mut pieces) {
            wr.sg_list = pieces.as_mut_ptr();
        }
        for at in (1..list.len()).rev() {
            let next = &raw mut list[at];
            list[at - 1].next = next;
        }
        let first = if list.is_empty() { null_mut() } else { list.as_mut_ptr() };
        let (qp, stream) = (self.qp(pair), self.stream(stream));
        let mut bad = null_mut();
        let answer = unsafe {
            match how % 3 {
                0 => gds_prepare_send(
                    qp,
                    first,
                    &raw mut bad,
                    &raw mut self.sends[usize::from(request) % REQUESTS],
                ),
                1 => gds_stream_queue_send(stream, qp, first, &raw mut bad),
                _ => gds_post_send(qp, first, &raw mut bad),
            }
        };
        fine(answer);
        assert!(answer != 0 || bad.is_null());
    }

    unsafe fn list(&mut self, stream: u8, by_cpu: bool, parts: Vec<Part>) {
        let words = self.machine.words.h_ptr.expose_provenance();
        // What a thread reads of it stays until it has ended.
        let requests: &'static mut Vec<Request> = Box::leak(Box::new(Vec::with_capacity(8)));
        let mut list: Vec<Descriptor> = Vec::new();
        for part in parts.into_iter().take(8) {
            let mut made: Descriptor = unsafe { std::mem::zeroed() };
            match part {
                Part::Send(which) | Part::Tag(0, which) => {
                    requests.push(self.sends[usize::from(which) % REQUESTS]);
                    made.tag = abi::TAG_SEND;
                    made.what.request = requests.last_mut().unwrap();
                }
                Part::Wait(which) | Part::Tag(1, which) => {
                    requests.push(self.waits[usize::from(which) % REQUESTS]);
                    made.tag = abi::TAG_WAIT;
                    made.what.request = requests.last_mut().unwrap();
                }
                Part::Write(which, value) => {
                    let word = without_provenance_mut(words + usize::from(which) * 4);
                    made.tag = abi::TAG_WRITE_VALUE32;
                    made.what.write32 =
                        abi::WriteValue32 { ptr: word, value, flags: abi::MEMORY_HOST };
                }
                // All zeroes of another sort: refused.
                Part::Tag(tag, _) => made.tag = tag.into(),
            }
            list.push(made);
        }
        if !by_cpu {
            fine(unsafe {
                gds_stream_post_descriptors(self.stream(stream), list.len(), list.as_mut_ptr(), 0)
            });
            // SAFETY: leaked above, and read while it was posted.
            drop(unsafe { Box::from_raw(requests) });
            return;
        }
        let (address, kept, context) = (
            list.as_mut_ptr().expose_provenance(),
            (&raw mut *requests).expose_provenance(),
            list.len(),
        );
        std::mem::forget(list);
        self.threads.push(std::thread::spawn(move || {
            // SAFETY: both are this thread's now.
            unsafe {
                let mut list = Vec::from_raw_parts(
                    std::ptr::with_exposed_provenance_mut::<Descriptor>(address),
                    context,
                    context,
                );
                fine(gds_post_descriptors(list.len(), list.as_mut_ptr(), 0));
                drop(Box::from_raw(std::ptr::with_exposed_provenance_mut::<Vec<Request>>(kept)));
            }
        }));
    }

    unsafe fn join(&self, local: Known, peer: Known) {
        let mut attributes = raw::ibv_qp_attr {
            port_num: 1,
            qp_access_flags: 0b1110,
            path_mtu: 3,
            max_dest_rd_atomic: 1,
            max_rd_atomic: 1,
            retry_cnt: 7,
            rnr_retry: 7,
            ..Default::default()
        };
        // SAFETY: both are alive, and the attributes this function's own.
        unsafe {
            attributes.dest_qp_num = (*(*peer.qp).qp).qp_num;
            attributes.ah_attr.dlid = self.machine.nics[peer.nic].lid;
            attributes.ah_attr.port_num = 1;
            // IBV_QP_…, of a reliable connection's three steps.
            for (state, mask) in [
                (1, 1 | 1 << 4 | 1 << 5 | 1 << 3),
                (2, 1 | 1 << 7 | 1 << 8 | 1 << 20 | 1 << 12 | 1 << 17 | 1 << 15),
                (3, 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 16 | 1 << 13),
            ] {
                attributes.qp_state = state;
                fine(gds_modify_qp(local.qp, &raw mut attributes, mask));
            }
        }
    }

    /// With every queue pair gone, nobody waits.
    fn end(mut self) {
        // SAFETY: as in `make`.
        unsafe {
            for known in self.pairs.iter().filter(|known| known.live) {
                assert_eq!(gds_destroy_qp(known.qp), 0);
            }
            for thread in self.threads.drain(..) {
                thread.join().unwrap();
            }
            self.machine.cuda.synchronize();
            assert_ne!(self.machine.cuda.context, 0);
            let stream = self.stream(0);
            for at in 0..REQUESTS {
                assert_eq!(gds_stream_post_send(stream, &raw mut self.sends[at]), libc::EINVAL);
                assert_eq!(gds_stream_post_wait_cq(stream, &raw mut self.waits[at]), libc::EINVAL);
            }
        }
    }
}

fn few(first: u8, count: i8) -> (usize, c_int) {
    let first = usize::from(first) % REQUESTS;
    (first, c_int::from(count).clamp(-2, (REQUESTS - first) as c_int))
}

/// 0 or a positive errno.
fn fine(answer: c_int) -> c_int {
    assert!((0..4096).contains(&answer), "{answer}");
    answer
}
