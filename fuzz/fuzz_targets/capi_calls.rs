//! Any sequence of calls of the C library on SIMULATED device memory, with any handle, session, address and size, some of
//! them from several threads: no crash, every answer 0 or a positive errno, what is gone stays gone, and bytes that were
//! copied in come out.
//!
//! `cargo +nightly fuzz run capi_calls`

#![no_main]

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use arbitrary::Arbitrary;
use gdrapi::abi::{Gdr, Handle, InfoV1, InfoV2};
use gdrapi::*;
use gpu::{Allocation, DeviceMemory, Gpu};
use libfuzzer_sys::fuzz_target;

/// Larger than any allocation, so that whatever the library lets through fits the host's side.
const HOST: usize = 1 << 20;
const LARGEST: usize = 512 << 10;

#[derive(Debug, Arbitrary)]
enum Call {
    Allocate { kilobytes: u16, whole: bool },
    Free { which: u8 },
    Open,
    Close { session: Session },
    Pin { session: Session, memory: u8, offset: Offset, bytes: Size, flags: u8, v2: bool },
    PinAnywhere { session: Session, address: u64, bytes: u64 },
    Unpin { session: Session, handle: Which },
    Map { session: Session, handle: Which, bytes: Size, flags: i8 },
    Unmap { session: Session, handle: Which, bytes: Size, shift: u8 },
    CopyTo { handle: Which, offset: Offset, bytes: Size, skew: u8 },
    CopyFrom { handle: Which, offset: Offset, bytes: Size, skew: u8 },
    CopyAnywhere { handle: Which, address: usize, bytes: usize, null: bool },
    Info { session: Session, handle: Which, nowhere: bool },
    Flag { session: Session, handle: Which },
    Ask { session: Session, attribute: u32, mapping_type: u32 },
    Race { session: Session, handle: Which },
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Session {
    One(u8),
    Raw(u64),
    Null,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Which {
    One(u8),
    Near(u8, u64),
    Raw(u64),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Offset {
    Start,
    Page(u8),
    Bytes(u32),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Size {
    Pages(u8),
    Bytes(u16),
    Any(u64),
}

impl Offset {
    fn bytes(self) -> usize {
        match self {
            Self::Start => 0,
            Self::Page(pages) => usize::from(pages % 8) << 16,
            Self::Bytes(bytes) => bytes as usize % LARGEST,
        }
    }
}

impl Size {
    fn bytes(self) -> usize {
        match self {
            Self::Pages(pages) => usize::from(pages % 9) << 16,
            Self::Bytes(bytes) => bytes.into(),
            Self::Any(bytes) => bytes as usize,
        }
    }
}

static OUT: OnceLock<Vec<u8>> = OnceLock::new();

/// One handle that was given out: whose, where it is mapped, and whether it is still there.
struct Pinned {
    session: usize,
    handle: Handle,
    mapped: *mut c_void,
    live: bool,
}

struct Objects {
    gpu: Gpu,
    memory: Vec<DeviceMemory>,
    sessions: Vec<(*mut Gdr, bool)>,
    pinned: Vec<Pinned>,
    out: &'static [u8],
    back: Vec<u8>,
}

fuzz_target!(
    init: {
        // SAFETY: nothing else runs yet.
        unsafe {
            std::env::set_var("GDR_BACKEND", "sim");
            // Sharing copies is another matter, and helpers that spin take the fuzzer's time.
            std::env::set_var("GDR_COPY_THREADS", "1");
        }
    },
    |calls: Vec<Call>| {
        let mut objects = Objects {
            gpu: Gpu::sim(),
            memory: Vec::new(),
            sessions: Vec::new(),
            pinned: Vec::new(),
            out: OUT.get_or_init(|| (0..HOST).map(|i| (i * 31 + i / 257) as u8).collect()),
            // Untouched pages cost nothing.
            back: vec![0; HOST],
        };
        // Something to begin with, so that short inputs already meet a mapping.
        for call in [
            Call::Open,
            Call::Allocate { kilobytes: 256, whole: true },
            Call::Pin {
                session: Session::One(0),
                memory: 0,
                offset: Offset::Start,
                bytes: Size::Pages(2),
                flags: 0,
                v2: false,
            },
            Call::Map { session: Session::One(0), handle: Which::One(0), bytes: Size::Pages(2), flags: 0 },
        ] {
            // SAFETY: as below.
            unsafe { objects.make(call) };
        }
        assert!(!objects.mapped(Some(0)).is_null());
        for call in calls.into_iter().take(200) {
            // SAFETY: pointers to write to or read from are NULL or the objects' own and large enough; everything else is
            // what this target tries.
            unsafe { objects.make(call) };
        }
        for &(session, open) in &objects.sessions {
            assert_eq!(gdr_close(session), if open { 0 } else { libc::EINVAL });
        }
        for pinned in &objects.pinned {
            // SAFETY: no byte is copied.
            let answer = unsafe { gdr_copy_to_mapping(pinned.handle, null_mut(), null(), 0) };
            assert_eq!(answer, libc::EINVAL);
        }
    }
);

impl Objects {
    unsafe fn make(&mut self, call: Call) {
        match call {
            Call::Allocate { kilobytes, whole } if self.memory.len() < 8 => {
                let bytes = (usize::from(kilobytes) << 10).clamp(1, LARGEST);
                let kind = if whole {
                    Allocation::Create { exportable: false, rdma: true }
                } else {
                    Allocation::Malloc
                };
                self.memory.extend(self.gpu.allocate(kind, bytes));
            }
            Call::Allocate { .. } => {}
            Call::Free { which } => {
                if !self.memory.is_empty() {
                    self.memory.swap_remove(usize::from(which) % self.memory.len());
                }
            }
            Call::Open if self.sessions.len() < 6 => {
                let session = gdr_open();
                assert!(!session.is_null());
                self.sessions.push((session, true));
            }
            Call::Open => {}
            Call::Close { session } => self.close(session),
            Call::Pin { session, memory, offset, bytes, flags, v2 } => {
                let start = match self.memory.len() {
                    0 => 0,
                    count => self.memory[usize::from(memory) % count].address().get(),
                };
                let address = match offset {
                    Offset::Page(_) => start.next_multiple_of(1 << 16),
                    _ => start,
                };
                let flags = if v2 { u32::from(flags) } else { 0 };
                unsafe { self.pin(session, address + offset.bytes() as u64, bytes.bytes(), flags) };
            }
            Call::PinAnywhere { session, address, bytes } => unsafe {
                self.pin(session, address, bytes as usize, 0)
            },
            Call::Unpin { session, handle } => {
                let (session, at) = self.session(session);
                let (handle, which) = self.handle(handle);
                let answer = fine(gdr_unpin_buffer(session, handle));
                let expected = which.is_some_and(|which| {
                    self.pinned[which].live && at == Some(self.pinned[which].session)
                });
                assert_eq!(answer == 0, expected);
                if answer == 0 {
                    self.pinned[which.unwrap()].live = false;
                }
            }
            Call::Map { session, handle, bytes, flags } => {
                let (session, _) = self.session(session);
                let (handle, which) = self.handle(handle);
                let mut va = null_mut();
                let answer = unsafe {
                    fine(gdr_map_v2(session, handle, &raw mut va, bytes.bytes(), flags.into()))
                };
                assert_eq!(answer == 0, !va.is_null());
                if answer == 0 {
                    let pinned = &mut self.pinned[which.unwrap()];
                    assert!(pinned.live && pinned.mapped.is_null());
                    pinned.mapped = va;
                }
            }
            Call::Unmap { session, handle, bytes, shift } => {
                let (session, _) = self.session(session);
                let (handle, which) = self.handle(handle);
                let va = which.map_or(null_mut(), |which| self.pinned[which].mapped);
                let va = va.wrapping_byte_add(usize::from(shift / 200));
                if fine(gdr_unmap(session, handle, va, bytes.bytes())) == 0 {
                    let pinned = &mut self.pinned[which.unwrap()];
                    assert!(pinned.live && !pinned.mapped.is_null());
                    pinned.mapped = null_mut();
                }
            }
            Call::CopyTo { handle, offset, bytes, skew } => {
                let (handle, which) = self.handle(handle);
                let at = self.mapped(which).wrapping_byte_add(offset.bytes());
                let (out, back) = (self.out[usize::from(skew)..].as_ptr(), self.back.as_mut_ptr());
                let bytes = sane(bytes.bytes());
                let answer = unsafe { fine(gdr_copy_to_mapping(handle, at, out.cast(), bytes)) };
                assert!(answer == 0 || answer == libc::EINVAL);
                if answer == 0 {
                    self.expect_mapped(which);
                    assert_eq!(unsafe { gdr_copy_from_mapping(handle, back.cast(), at, bytes) }, 0);
                    assert!(self.back[..bytes] == self.out[usize::from(skew)..][..bytes]);
                }
            }
            Call::CopyFrom { handle, offset, bytes, skew } => {
                let (handle, which) = self.handle(handle);
                let at = self.mapped(which).wrapping_byte_add(offset.bytes());
                let back = self.back[usize::from(skew)..].as_mut_ptr();
                let answer = unsafe {
                    fine(gdr_copy_from_mapping(handle, back.cast(), at, sane(bytes.bytes())))
                };
                assert!(answer == 0 || answer == libc::EINVAL);
                if answer == 0 {
                    self.expect_mapped(which);
                }
            }
            Call::CopyAnywhere { handle, address, bytes, null: nowhere } => {
                let (handle, _) = self.handle(handle);
                let at = std::ptr::without_provenance_mut(address);
                let host = if nowhere { null_mut() } else { self.back.as_mut_ptr() };
                let bytes = sane(bytes);
                let there = unsafe { fine(gdr_copy_to_mapping(handle, at, host.cast(), bytes)) };
                let back = unsafe { fine(gdr_copy_from_mapping(handle, host.cast(), at, bytes)) };
                assert_eq!(there, back);
                assert!(!nowhere || bytes == 0 || there == libc::EINVAL);
            }
            Call::Info { session, handle, nowhere } => {
                let (session, _) = self.session(session);
                let (handle, _) = self.handle(handle);
                let (mut v1, mut v2) = (InfoV1::default(), InfoV2::default());
                let old = if nowhere { null_mut() } else { &raw mut v1 };
                let new = if nowhere { null_mut() } else { &raw mut v2 };
                let answers = unsafe {
                    [gdr_get_info(session, handle, old), gdr_get_info_v2(session, handle, new)]
                };
                assert_eq!(fine(answers[0]), fine(answers[1]));
                assert_eq!(v1, v2.v1);
                assert!(!nowhere || answers[0] != 0);
            }
            Call::Flag { session, handle } => {
                let (session, _) = self.session(session);
                let (handle, _) = self.handle(handle);
                let mut flag = -1;
                let answer = unsafe { fine(gdr_get_callback_flag(session, handle, &raw mut flag)) };
                assert_eq!(flag, if answer == 0 { 0 } else { -1 });
            }
            Call::Ask { session, attribute, mapping_type } => {
                let (session, at) = self.session(session);
                let (mut value, mut minor, mut name) = (-1, -1, null());
                let answer = unsafe { fine(gdr_get_attribute(session, attribute, &raw mut value)) };
                assert_eq!(answer == 0, at.is_some() && (1..=3).contains(&attribute));
                let answer = unsafe {
                    fine(gdr_driver_get_version(session, &raw mut value, &raw mut minor))
                };
                assert_eq!(answer == 0, at.is_some());
                let answer =
                    unsafe { fine(gdr_get_mapping_type_string(mapping_type, &raw mut name)) };
                assert_eq!(answer == 0, mapping_type < 4);
                unsafe { gdr_runtime_get_version(null_mut(), &raw mut minor) };
                assert_eq!(minor, 6);
            }
            Call::Race { session, handle } => self.race(session, handle),
        }
    }

    fn close(&mut self, session: Session) {
        let (session, at) = self.session(session);
        assert_eq!(fine(gdr_close(session)), if at.is_some() { 0 } else { libc::EINVAL });
        let Some(at) = at else { return };
        self.sessions[at].1 = false;
        for pinned in self.pinned.iter_mut().filter(|pinned| pinned.session == at) {
            pinned.live = false;
        }
    }

    unsafe fn pin(&mut self, session: Session, address: u64, bytes: usize, flags: u32) {
        if self.pinned.len() >= 64 {
            return;
        }
        let (session, at) = self.session(session);
        let mut handle = Handle::default();
        let answer =
            unsafe { fine(gdr_pin_buffer_v2(session, address, bytes, flags, &raw mut handle)) };
        assert_eq!(answer == 0, handle.h != 0);
        if answer == 0 {
            assert!(self.pinned.iter().all(|pinned| pinned.handle != handle));
            self.pinned.push(Pinned {
                session: at.unwrap(),
                handle,
                mapped: null_mut(),
                live: true,
            });
        }
    }

    /// Four threads undo one handle at a time while others ask about it: one of them does.
    fn race(&mut self, session: Session, handle: Which) {
        let (session, at) = self.session(session);
        let (handle, which) = self.handle(handle);
        let (address, va) = (session.addr(), self.mapped(which).addr());
        let undone: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(move || {
                        let session = std::ptr::with_exposed_provenance_mut(address);
                        let mut info = InfoV2::default();
                        let mut other = null_mut();
                        // SAFETY: the places written to are this thread's.
                        unsafe {
                            fine(gdr_get_info_v2(session, handle, &raw mut info));
                            fine(gdr_map(session, handle, &raw mut other, 1 << 16));
                        }
                        let va = if other.is_null() {
                            std::ptr::with_exposed_provenance_mut(va)
                        } else {
                            other
                        };
                        fine(gdr_unmap(session, handle, va, 1 << 16));
                        usize::from(fine(gdr_unpin_buffer(session, handle)) == 0)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let expected = which
            .is_some_and(|which| self.pinned[which].live && at == Some(self.pinned[which].session));
        assert_eq!(undone, usize::from(expected));
        if let Some(which) = which.filter(|_| expected) {
            self.pinned[which].live = false;
        }
    }

    /// The pointer, and which session it is if that is open.
    fn session(&self, session: Session) -> (*mut Gdr, Option<usize>) {
        match session {
            Session::One(which) if !self.sessions.is_empty() => {
                let at = usize::from(which) % self.sessions.len();
                (self.sessions[at].0, self.sessions[at].1.then_some(at))
            }
            Session::Raw(address) => {
                let known = |&(session, open): &(*mut Gdr, bool)| {
                    open && session.addr() == address as usize
                };
                (
                    std::ptr::without_provenance_mut(address as usize),
                    self.sessions.iter().position(known),
                )
            }
            Session::One(_) | Session::Null => (null_mut(), None),
        }
    }

    /// The handle, and which of those given out it is.
    fn handle(&self, which: Which) -> (Handle, Option<usize>) {
        let given = |which: u8| match self.pinned.len() {
            0 => Handle::default(),
            count => self.pinned[usize::from(which) % count].handle,
        };
        let handle = match which {
            Which::One(which) => given(which),
            Which::Near(which, bits) => Handle { h: given(which).h ^ bits },
            Which::Raw(h) => Handle { h },
        };
        (handle, self.pinned.iter().position(|pinned| pinned.handle == handle))
    }

    fn mapped(&self, which: Option<usize>) -> *mut c_void {
        which.map_or(null_mut(), |which| self.pinned[which].mapped)
    }

    fn expect_mapped(&self, which: Option<usize>) {
        let pinned = &self.pinned[which.expect("only handles that were given out copy")];
        assert!(pinned.live && !pinned.mapped.is_null());
    }
}

/// 0 or a positive errno.
fn fine(answer: c_int) -> c_int {
    assert!((0..4096).contains(&answer), "{answer}");
    answer
}

/// A size that fits the host's buffers, or none that any mapping has.
fn sane(bytes: usize) -> usize {
    if bytes > LARGEST + (2 << 16) { usize::MAX - bytes % 4096 } else { bytes }
}
