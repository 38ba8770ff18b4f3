//! Any sequence of calls of libmp's C functions and its comm library, on a SIMULATED CUDA and the software HCA. The other rank is a thread
//! that sends, receives, puts, or ends without notice. No crash, every answer an errno, handles are written on success only; and after
//! mp_finalize no stream waits any more and no handle is known.
//!
//! `cargo +nightly fuzz run mp_calls`

#![no_main]
// Nearly every line of it calls C.
#![allow(unsafe_op_in_unsafe_fn)]

use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::iovec;
use libfuzzer_sys::fuzz_target;
use mp::bootstrap::Local;
use mp_capi::abi::{Handle, Sem32, SendDesc, WaitDesc};
use mp_capi::*;

#[path = "mp_calls/calls.rs"]
mod calls;
#[path = "support/cuda.rs"]
mod cuda;
#[path = "mp_calls/peer.rs"]
mod peer;

use calls::{Ask, Call, Message};
use cuda::Cuda;
use peer::Peer;

/// Of every wait, in milliseconds.
const TIMEOUT: u64 = 200;
/// Bytes of the program's memory. Calls may name some before and after it.
const BYTES: usize = 1 << 15;
const WORDS: usize = 16;
/// Requests, and objects of each other kind.
const REQUESTS: usize = 8;
const OBJECTS: usize = 2;
/// Calls that may wait for the timeout.
const WAITS: usize = 4;

struct Machine {
    cuda: Cuda<2>,
    memory: *mut u8,
    words: *mut u32,
}

// SAFETY: pointers to what lives as long as the process.
unsafe impl Send for Machine {}
unsafe impl Sync for Machine {}

/// Inputs in a row that did not connect.
static MISSED: AtomicU32 = AtomicU32::new(0);

static MACHINE: OnceLock<Machine> = OnceLock::new();

const CONFIG: &str =
    r#"{"gpu": {"memory": 1073741824, "attributes": {"122": 1, "123": 1}}, "gpus": [{}]}"#;

impl Machine {
    fn new() -> Self {
        let file = std::env::temp_dir().join(format!("mp_calls-{}.json", std::process::id()));
        std::fs::write(&file, CONFIG).unwrap();
        // SAFETY: nothing else runs yet.
        let cuda = unsafe {
            std::env::set_var("FAKE_CUDA", &file);
            std::env::set_var("MP_HCA", "sim");
            std::env::set_var("MP_TIMEOUT_MS", TIMEOUT.to_string());
            Cuda::new()
        };
        simulate();
        silence();
        assert_ne!(cuda.context, 0);
        std::fs::remove_file(&file).unwrap();
        // Whole pages, because words are registered by pages.
        let pages = |bytes: usize| {
            let layout = std::alloc::Layout::from_size_align(bytes, 4096).unwrap();
            // SAFETY: not of size 0; never freed.
            unsafe { std::alloc::alloc_zeroed(layout) }
        };
        Self { cuda, memory: pages(BYTES), words: pages(4096).cast() }
    }
}

struct Objects<'m> {
    machine: &'m Machine,
    peer: Peer,
    requests: [Handle; REQUESTS],
    regions: [Handle; OBJECTS],
    windows: [Handle; OBJECTS],
    queues: [Handle; OBJECTS],
    waits: usize,
}

fuzz_target!(init: { MACHINE.get_or_init(Machine::new); }, |input: (bool, Vec<Call>)| {
    let (has_comm, calls) = input;
    let machine = MACHINE.get_or_init(Machine::new);
    let mut ranks = Local::ranks(2);
    let (far, near) = (ranks.pop().unwrap(), ranks.pop().unwrap());
    let mut peer = Peer::start(far, has_comm);
    let connected = if has_comm { comm_init_with(Box::new(near)) } else { mp_init_with(Box::new(near), vec![1]) };
    // A busy machine may miss the timeout now and then.
    let missed = MISSED.fetch_add(1, Ordering::Relaxed);
    if connected != 0 {
        assert!(missed < 20, "{connected}");
        mp_finalize();
        peer.join();
        return;
    }
    MISSED.store(0, Ordering::Relaxed);
    let mut objects = Objects {
        machine,
        peer,
        requests: [null_mut(); REQUESTS],
        regions: [null_mut(); OBJECTS],
        windows: [null_mut(); OBJECTS],
        queues: [null_mut(); OBJECTS],
        waits: 0,
    };
    // Something to begin with, so that short inputs already send.
    objects.make(Call::Register { region: 0, offset: 64, bytes: BYTES as u16 - 64, comm: false });
    objects.make(Call::Queue { how: 0, queue: 0, request: 0, word: 0, value: 0, flags: 0, stream: 0 });
    for call in calls.into_iter().take(60) {
        objects.make(call);
    }
    objects.end();
});

/// A place of an array: of 255 none, of 254 one that is misaligned.
fn place<T>(places: &mut [T], which: u8) -> *mut T {
    match which {
        255 => null_mut(),
        254 => places.as_mut_ptr().wrapping_byte_add(1),
        which => {
            let which = usize::from(which) % places.len();
            &raw mut places[which]
        }
    }
}

/// 0 or a positive errno.
fn fine(answer: c_int) -> c_int {
    assert!((0..4096).contains(&answer), "{answer}");
    answer
}

impl Objects<'_> {
    fn make(&mut self, call: Call) {
        // SAFETY: pointers are NULL, misaligned, or the objects' own and large enough; registered memory and words live as long as the
        // process; handles that are gone are named, and only named, on purpose.
        unsafe { self.call(call) }
    }

    unsafe fn call(&mut self, call: Call) {
        match call {
            Call::Register { region, offset, bytes, comm } => {
                let at = self.at(offset);
                let bytes = usize::from(bytes).min(BYTES - usize::from(offset).min(BYTES));
                let reg = place(&mut self.regions, region);
                fine(if comm {
                    comm_register(at, bytes, reg)
                } else {
                    mp_register(at, bytes, reg)
                });
            }
            Call::Deregister { region, comm } => {
                let reg = place(&mut self.regions, region);
                fine(if comm { comm_deregister(reg) } else { mp_deregister(reg) });
            }
            Call::Message { how, message } => self.message(how, message),
            Call::Vector { how, message, count, blocks } => {
                self.vector(how, message, count, &blocks);
            }
            Call::OneSided { how, message, window, place, flags } => {
                self.one_sided(how, message, window, place as usize, flags.into());
            }
            Call::CreateWindow { window, offset, bytes } if self.may_wait() => {
                let at = self.at(offset);
                let bytes = usize::from(bytes).min(BYTES - usize::from(offset).min(BYTES));
                let window = place(&mut self.windows, window);
                self.peer.window();
                fine(mp_window_create(at, bytes, window));
            }
            Call::CreateWindow { .. } => {}
            Call::DestroyWindow { window } => {
                fine(mp_window_destroy(place(&mut self.windows, window)));
            }
            Call::Requests { how, request, count, stream } => {
                self.several(how, request, count, stream);
            }
            Call::Queue { how, queue, request, word, value, flags, stream } => {
                let stream = self.machine.cuda.stream(stream);
                let (word, flags) = (self.word(word), flags.into());
                let dq = place(&mut self.queues, queue);
                let req = place(&mut self.requests, request);
                fine(match how % 8 {
                    0 => mp_desc_queue_alloc(dq),
                    1 => mp_desc_queue_free(dq),
                    2 => mp_desc_queue_add_send(dq, req),
                    3 => mp_desc_queue_add_wait_send(dq, req),
                    4 => mp_desc_queue_add_wait_recv(dq, req),
                    5 => mp_desc_queue_add_wait_value32(dq, word, value, flags),
                    6 => mp_desc_queue_add_write_value32(dq, word, value),
                    _ => mp_desc_queue_post_on_stream(stream, dq, flags),
                });
            }
            Call::Word { how, word, value, flags, stream } => {
                let stream = self.machine.cuda.stream(stream);
                let word = self.word(word);
                match how % 3 {
                    0 if self.may_wait() => {
                        fine(mp_wait32(word, value, flags.into()));
                    }
                    1 => {
                        fine(mp_wait32_on_stream(word, value, flags.into(), stream));
                    }
                    _ if !word.is_null() && word.is_aligned() => {
                        // As a program ends the waits of its streams.
                        AtomicU32::from_ptr(word).store(value, Ordering::Release);
                    }
                    _ => {}
                }
            }
            Call::Describe { how, request, word, nowhere } => {
                let (mut send, mut wait) = (SendDesc::default(), WaitDesc::default());
                let mut sem = Sem32::default();
                let req = place(&mut self.requests, request);
                fine(match how % 3 {
                    0 if nowhere => get_send_descriptor(null_mut(), req),
                    0 => get_send_descriptor(&raw mut send, req),
                    1 if nowhere => get_wait_descriptor(null_mut(), req),
                    1 => get_wait_descriptor(&raw mut wait, req),
                    _ => get_word_descriptor(&raw mut sem, self.word(word), 1),
                });
            }
            Call::Credit { how, rank, request, stream } => self.credit(how, rank, request, stream),
            Call::Initialize { peers, flags, gpu } => {
                // It is initialized, and there is no MPI.
                let mut peers: Vec<c_int> = peers.into_iter().map(c_int::from).collect();
                let (count, flags, gpu) = (peers.len() as c_int, flags.into(), gpu.into());
                let comm = without_provenance_mut(0x4400_0000);
                assert_ne!(fine(mp_init(comm, peers.as_mut_ptr(), count, flags, gpu)), 0);
                assert_ne!(fine(comm_init(comm, gpu)), 0);
            }
            Call::Query { parameter, nowhere } => {
                let mut value = -1;
                let to = if nowhere { null_mut() } else { &raw mut value };
                let answer = fine(mp_query_param(parameter.into(), to));
                assert_eq!(answer == 0, parameter == 0 && !nowhere);
                assert_eq!(value, if answer == 0 { 2 << 16 } else { -1 });
                fine(comm_select_device(parameter.into()));
            }
            Call::Peer(ask) => self.peer.ask(ask),
        }
    }

    unsafe fn message(&mut self, how: u8, message: Message) {
        let (buffer, size, peer) =
            (self.at(message.offset), message.size.into(), message.peer.into());
        let stream = self.machine.cuda.stream(message.stream);
        let reg = place(&mut self.regions, message.region);
        let mut handle = null_mut();
        let req = if message.request == 255 { null_mut() } else { &raw mut handle };
        let answer = fine(match how % 6 {
            0 => mp_irecv(buffer, size, peer, reg, req),
            1 => mp_irecv_on_stream(buffer, size, peer, reg, req, stream),
            2 => mp_isend(buffer, size, peer, reg, req),
            3 => mp_isend_on_stream(buffer, size, peer, reg, req, stream),
            4 => mp_send_on_stream(buffer, size, peer, reg, req, stream),
            _ => mp_send_prepare(buffer, size, peer, reg, req),
        });
        self.keep(answer, message.request, handle);
    }

    unsafe fn vector(&mut self, how: u8, message: Message, count: i8, blocks: &[(u16, u8)]) {
        let mut blocks: Vec<iovec> = blocks
            .iter()
            .map(|&(offset, length)| iovec { iov_base: self.at(offset), iov_len: length.into() })
            .collect();
        // More than there are only if that is too many for any vector.
        let count = match c_int::from(count) {
            count if count > 30 => count,
            count => count.min(blocks.len() as c_int),
        };
        let v = if message.offset == u16::MAX { null_mut() } else { blocks.as_mut_ptr() };
        let peer = message.peer.into();
        let stream = self.machine.cuda.stream(message.stream);
        let reg = place(&mut self.regions, message.region);
        let mut handle = null_mut();
        let req = &raw mut handle;
        let answer = fine(match how % 4 {
            0 => mp_irecvv(v, count, peer, reg, req),
            1 => mp_isendv(v, count, peer, reg, req),
            2 => mp_isendv_on_stream(v, count, peer, reg, req, stream),
            _ => mp_sendv_prepare(v, count, peer, reg, req),
        });
        self.keep(answer, message.request, handle);
    }

    unsafe fn one_sided(
        &mut self,
        how: u8,
        message: Message,
        window: u8,
        displ: usize,
        flags: c_int,
    ) {
        let (buffer, size, peer) =
            (self.at(message.offset), message.size.into(), message.peer.into());
        let stream = self.machine.cuda.stream(message.stream);
        let reg = place(&mut self.regions, message.region);
        let window = place(&mut self.windows, window);
        // Mostly within a window.
        let displ = if how < 250 { displ % BYTES } else { displ };
        let mut handle = null_mut();
        let req = if message.request == 255 { null_mut() } else { &raw mut handle };
        let answer = fine(match how % 5 {
            0 => mp_iput(buffer, size, reg, peer, displ, window, req, flags),
            1 => mp_iput_on_stream(buffer, size, reg, peer, displ, window, req, flags, stream),
            2 => mp_put_prepare(buffer, size, reg, peer, displ, window, req, flags),
            3 => mp_iget(buffer, size, reg, peer, displ, window, req),
            _ => mp_iget_on_stream(buffer, size, reg, peer, displ, window, req, stream),
        });
        self.keep(answer, message.request, handle);
    }

    unsafe fn several(&mut self, how: u8, request: u8, count: i8, stream: u8) {
        let stream = self.machine.cuda.stream(stream);
        let first = place(&mut self.requests, request);
        let most = match request {
            254 | 255 => 0,
            request => REQUESTS - usize::from(request) % REQUESTS,
        };
        // Of no place any number.
        let count = match most {
            0 => u32::from(count.unsigned_abs()),
            most => u32::from(count.unsigned_abs()) % (most as u32 + 1),
        };
        match how % 13 {
            0 if self.may_wait() => fine(mp_wait(first)),
            1 if self.may_wait() => fine(mp_wait_all(count, first)),
            2 if self.may_wait() => fine(comm_wait_all(count as c_int, first)),
            3 => fine(mp_wait_on_stream(first, stream)),
            4 => fine(mp_wait_all_on_stream(count, first, stream)),
            5 => fine(comm_wait_all_on_stream(count as c_int, first, stream)),
            6 => fine(mp_send_post_on_stream(first, stream)),
            7 => fine(mp_isend_post_on_stream(first, stream)),
            8 => fine(mp_send_post_all_on_stream(count, first, stream)),
            9 => fine(mp_isend_post_all_on_stream(count, first, stream)),
            10 => fine(mp_iput_post_on_stream(first, stream)),
            11 => fine(mp_iput_post_all_on_stream(count, first, stream)),
            _ => fine(mp_progress_all(count, first)),
        };
    }

    unsafe fn credit(&mut self, how: u8, rank: i8, request: u8, stream: u8) {
        let (rank, stream) = (rank.into(), self.machine.cuda.stream(stream));
        let req = place(&mut self.requests, request);
        let mut ready = -1;
        match how % 10 {
            0 => fine(comm_send_ready(rank, req)),
            1 => fine(comm_send_ready_on_stream(rank, req, stream)),
            2 if self.may_wait() => fine(comm_wait_ready(rank)),
            3 => fine(comm_wait_ready_on_stream(rank, stream)),
            4 => {
                let answer = fine(comm_test_ready(rank, &raw mut ready));
                assert_eq!(answer == 0, (0..=1).contains(&ready));
                answer
            }
            5 => fine(comm_prepare_wait_ready(rank)),
            6 => fine(comm_prepare_wait_all(1, req)),
            7 if self.may_wait() => fine(comm_flush()),
            8 => {
                let found = comm_prepared_requests();
                if let Some(found) = found.as_ref() {
                    assert!(found.ready.count <= 32 && found.wait.count <= 32);
                }
                0
            }
            _ => fine(comm_progress()),
        };
    }

    /// After mp_finalize nothing waits, and nothing is known.
    fn end(mut self) {
        self.peer.end();
        mp_finalize();
        self.peer.join();
        self.machine.cuda.synchronize();
        // SAFETY: as in `make`.
        unsafe {
            for request in &mut self.requests {
                assert_eq!(mp_wait(request), libc::EINVAL);
            }
            assert_eq!(mp_deregister(&raw mut self.regions[0]), libc::EINVAL);
        }
        mp_finalize();
    }

    /// Keeps a request's handle. A handle is written on success only.
    fn keep(&mut self, answer: c_int, request: u8, handle: Handle) {
        assert_eq!(answer == 0, !handle.is_null());
        if answer == 0 {
            self.requests[usize::from(request) % REQUESTS] = handle;
        }
    }

    /// An address in the memory or around it; of the largest offset NULL.
    fn at(&self, offset: u16) -> *mut c_void {
        match offset {
            u16::MAX => null_mut(),
            offset => self.machine.memory.wrapping_add(offset.into()).cast(),
        }
    }

    fn word(&self, word: u8) -> *mut u32 {
        match word {
            255 => null_mut(),
            254 => self.machine.words.wrapping_byte_add(2),
            word => self.machine.words.wrapping_add(usize::from(word) % WORDS),
        }
    }

    /// A few calls of an input may take the timeout.
    fn may_wait(&mut self) -> bool {
        self.waits += 1;
        self.waits <= WAITS
    }
}

impl Drop for Objects<'_> {
    fn drop(&mut self) {
        // Ends the other rank after a failure too.
        self.peer.ask(Ask::Die);
    }
}
