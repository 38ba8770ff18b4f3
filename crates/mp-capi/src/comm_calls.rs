//! The comm library's functions.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::comm::Credits;
use engine::mpi::Mpi;
use engine::{Bootstrap, Communicator};
use gdr_sys::exports;
use gdsync::{MappedMemory, MemoryLocation};

use crate::abi::{CudaStream, DevDescs, Handle, MpiHandle};
use crate::call_error::CallError;
use crate::library::{Library, OpenRequest, library, slot};
use crate::message_calls::{Content, Message, send};
use crate::stream::ForeignStream;
use crate::wait_calls::{has_ended, wait_all};
use crate::{buffer, environment, guard, handles, init_calls};

/// Credits, requests that are not waited for, and descriptors for kernels.
#[derive(Debug)]
pub(crate) struct Comm {
    pub credits: Credits,
    /// Handles, oldest first.
    requests: Mutex<VecDeque<usize>>,
    descriptors: Mutex<Descriptors>,
}

/// Descriptors for kernels, in host memory that they read.
#[derive(Debug)]
pub(crate) struct Descriptors {
    pub ring: MappedMemory,
    /// The slot to return next.
    pub slot: usize,
    pub collected: Box<DevDescs>,
}

/// Slots of the ring.
pub(crate) const SLOTS: usize = 128;

impl Descriptors {
    fn new(ranks: &Communicator) -> Result<Self, CallError> {
        let bytes = SLOTS * size_of::<DevDescs>();
        let ring = ranks.allocator().place(MemoryLocation::Host, bytes);
        Ok(Self { ring: ring.map_err(engine::Error::from)?, slot: 0, collected: Box::default() })
    }
}

/// `COMM_USE_COMM`.
#[unsafe(no_mangle)]
pub extern "C" fn comm_use_comm() -> c_int {
    environment::is_set("COMM_USE_COMM").into()
}

/// `COMM_USE_ASYNC_SA`: streams send and wait.
#[unsafe(no_mangle)]
pub extern "C" fn comm_use_model_sa() -> c_int {
    environment::is_set("COMM_USE_ASYNC_SA").into()
}

/// `COMM_USE_ASYNC_KI`: kernels send and wait.
#[unsafe(no_mangle)]
pub extern "C" fn comm_use_model_ki() -> c_int {
    environment::is_set("COMM_USE_ASYNC_KI").into()
}

exports!(
    use guard::number;

    /// The GPU for a rank. 0 without CUDA.
    pub fn comm_select_device(rank: c_int) -> c_int {
        if let Some(named) = environment::value("COMM_USE_GPU_ID") {
            return Ok(c_int::try_from(named).unwrap_or(0));
        }
        let count = gpu::devices().map_or(1, |devices| devices.len().max(1));
        let count = c_int::try_from(count).unwrap_or(c_int::MAX);
        Ok(rank.rem_euclid(count))
    }

    /// Polls. Returns the number of requests that have ended since the last [`comm_flush`].
    pub fn comm_progress() -> c_int {
        let library = library()?;
        let comm = library.comm()?;
        let requests = comm.requests();
        let handles = requests.iter().map(|number| std::ptr::without_provenance_mut(*number));
        let ended = handles.filter(|handle| has_ended(&library, *handle)).count();
        Ok(c_int::try_from(ended).unwrap_or(c_int::MAX))
    }
);

exports!(
    use guard::call;

    /// Connects to all other ranks, and creates the table of credits.
    ///
    /// # Safety
    ///
    /// `comm` is a communicator of the MPI library in this process.
    pub unsafe fn comm_init(comm: MpiHandle, gpu_id: c_int) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { init_calls::init(comm, None, 0, gpu_id) }?;
        add_comm()
    }

    /// Tells a rank that one more receive is posted for it.
    ///
    /// # Safety
    ///
    /// `req` is NULL, misaligned or writable.
    pub unsafe fn comm_send_ready(rank: c_int, req: *mut Handle) -> c_int {
        let library = library()?;
        let comm = library.comm()?;
        handles::check("req", req)?;
        let request = comm.credits.give(&library.ranks, buffer::rank(rank)?)?;
        let handle = library.requests.add(OpenRequest { request, has_completion: false });
        let _ = library.requests.remove(handle);
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { handles::put(req, handle) };
        Ok(())
    }

    /// [`comm_send_ready`] when the stream reaches it.
    ///
    /// # Safety
    ///
    /// As [`comm_send_ready`]; `stream` is live or a default one.
    pub unsafe fn comm_send_ready_on_stream(
        rank: c_int,
        req: *mut Handle,
        stream: CudaStream,
    ) -> c_int {
        let library = library()?;
        let comm = library.comm()?;
        handles::check("req", req)?;
        // SAFETY: the caller's promise.
        let stream = unsafe { ForeignStream::new(stream) };
        let rank = buffer::rank(rank)?;
        let request = comm.credits.give_on(&library.ranks, &stream, rank)?;
        let handle = library.requests.add(OpenRequest { request, has_completion: true });
        comm.track(handle);
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { handles::put(req, handle) };
        Ok(())
    }

    /// Makes the stream wait until a rank has posted one more receive.
    ///
    /// # Safety
    ///
    /// `stream` is live or a default one.
    pub unsafe fn comm_wait_ready_on_stream(rank: c_int, stream: CudaStream) -> c_int {
        let library = library()?;
        let comm = library.comm()?;
        // SAFETY: the caller's promise.
        let stream = unsafe { ForeignStream::new(stream) };
        let rank = buffer::rank(rank)?;
        Ok(comm.credits.take_on(&library.ranks, &stream, rank)?)
    }

    /// Writes 1 if a rank has posted one more receive, else 0.
    ///
    /// # Safety
    ///
    /// `ready` is NULL, misaligned or writable.
    pub unsafe fn comm_test_ready(rank: c_int, ready: *mut c_int) -> c_int {
        let library = library()?;
        let comm = library.comm()?;
        handles::check("ready", ready)?;
        let is_ready = comm.credits.try_take(buffer::rank(rank)?)?;
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { ready.write(is_ready.into()) };
        Ok(())
    }

    /// Posts a receive of `size` elements.
    ///
    /// # Safety
    ///
    /// As [`comm_isend_on_stream`], without a stream.
    pub unsafe fn comm_irecv(
        buf: *mut c_void,
        size: usize,
        kind: MpiHandle,
        reg: *mut Handle,
        rank: c_int,
        req: *mut Handle,
    ) -> c_int {
        let receive = |_: &Comm, message: &Message| message.receive();
        // SAFETY: the caller's promise.
        unsafe { message(buf, size, kind, reg, rank, req, receive) }
    }

    /// Sends `size` elements.
    ///
    /// # Safety
    ///
    /// As [`comm_isend_on_stream`], without a stream.
    pub unsafe fn comm_isend(
        buf: *mut c_void,
        size: usize,
        kind: MpiHandle,
        reg: *mut Handle,
        rank: c_int,
        req: *mut Handle,
    ) -> c_int {
        let send = |_: &Comm, message: &Message| send(message);
        // SAFETY: the caller's promise.
        unsafe { message(buf, size, kind, reg, rank, req, send) }
    }

    /// Sends `size` elements when the stream reaches it.
    ///
    /// # Safety
    ///
    /// `kind` is a datatype of the MPI library in this process; `reg` is NULL, misaligned, or readable and writable, `req` is NULL, misaligned
    /// or writable; `buf` stays allocated while it is registered; `stream` is live or a default one.
    pub unsafe fn comm_isend_on_stream(
        buf: *mut c_void,
        size: usize,
        kind: MpiHandle,
        reg: *mut Handle,
        rank: c_int,
        req: *mut Handle,
        stream: CudaStream,
    ) -> c_int {
        let send = |_: &Comm, message: &Message| {
            // SAFETY: the caller's promise.
            let stream = unsafe { ForeignStream::new(stream) };
            let request = message.library.ranks.start_on(&stream, &message.send())?;
            Ok(OpenRequest { request, has_completion: true })
        };
        // SAFETY: as above.
        unsafe { message(buf, size, kind, reg, rank, req, send) }
    }

    /// Waits for requests, frees them, and sets them to NULL.
    ///
    /// # Safety
    ///
    /// `reqs` is NULL, misaligned, or has `count` handles that are writable.
    pub unsafe fn comm_wait_all(count: c_int, reqs: *mut Handle) -> c_int {
        let library = library()?;
        library.comm()?;
        // SAFETY: the caller's promise.
        let handles = unsafe { taken(count, reqs) }?;
        wait_all(&library, handles)
    }

    /// Waits for a request, frees it, and sets it to NULL.
    ///
    /// # Safety
    ///
    /// As [`comm_wait_all`], of one.
    pub unsafe fn comm_wait(req: *mut Handle) -> c_int {
        let library = library()?;
        library.comm()?;
        // SAFETY: the caller's promise.
        let handles = unsafe { taken(1, req) }?;
        wait_all(&library, handles)
    }

    /// Makes the stream wait for requests, and sets them to NULL. [`comm_flush`] frees them.
    ///
    /// # Safety
    ///
    /// As [`comm_wait_all`]; `stream` is live or a default one.
    pub unsafe fn comm_wait_all_on_stream(
        count: c_int,
        reqs: *mut Handle,
        stream: CudaStream,
    ) -> c_int {
        let library = library()?;
        library.comm()?;
        // SAFETY: the caller's promise.
        let handles = unsafe { taken(count, reqs) }?;
        let requests = crate::stream_calls::requests(&library, &handles)?;
        // SAFETY: as above.
        let stream = unsafe { ForeignStream::new(stream) };
        let all = requests.iter().map(|open| &open.request);
        Ok(library.ranks.wait_on(&stream, all)?)
    }

    /// Registers memory, unless `*reg` is not NULL.
    ///
    /// # Safety
    ///
    /// `buf` is NULL, or memory of `size` bytes that stays allocated until it is deregistered; `reg` is NULL, misaligned, or readable and
    /// writable.
    pub unsafe fn comm_register(buf: *mut c_void, size: usize, reg: *mut Handle) -> c_int {
        let library = library()?;
        library.comm()?;
        // SAFETY: the caller's promise.
        unsafe { register(&library, buf, size, reg) }
    }

    /// Deregisters memory and sets `*reg` to NULL, unless it is NULL.
    ///
    /// # Safety
    ///
    /// `reg` is NULL, misaligned, or readable and writable.
    pub unsafe fn comm_deregister(reg: *mut Handle) -> c_int {
        let library = library()?;
        library.comm()?;
        // SAFETY: the caller's promise.
        let handle = unsafe { handles::at("reg", reg) }?;
        if !handle.is_null() {
            library.regions.remove(handle)?.region.revoke();
            // SAFETY: checked; the caller promises that it is writable.
            unsafe { handles::put(reg, std::ptr::null_mut()) };
        }
        Ok(())
    }
);

/// [`comm_init`] with another bootstrap, for fuzzing.
#[doc(hidden)]
pub fn comm_init_with(bootstrap: Box<dyn Bootstrap>) -> c_int {
    guard::call("comm_init", || {
        init_calls::connect(bootstrap, None, 0, 0)?;
        add_comm()
    })
}

/// Adds the comm part to a new library.
fn add_comm() -> Result<(), CallError> {
    let library = library()?;
    let made = Comm::new(&library.ranks).inspect_err(|_| {
        // Without its comm part it could not be used, nor made again.
        slot().take();
    });
    // Ignored: the library has just been made, without one.
    let _ = library.comm.set(made?);
    Ok(())
}

/// Ends what [`comm_init`] has made.
#[unsafe(no_mangle)]
pub extern "C" fn comm_finalize() {
    guard::call("comm_finalize", init_calls::finalize);
}

impl Comm {
    fn new(ranks: &Communicator) -> Result<Self, CallError> {
        Ok(Self {
            credits: Credits::new(ranks)?,
            requests: Mutex::default(),
            descriptors: Mutex::new(Descriptors::new(ranks)?),
        })
    }

    fn track(&self, handle: Handle) {
        self.requests().push_back(handle.addr());
    }

    fn requests(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn descriptors(&self) -> MutexGuard<'_, Descriptors> {
        self.descriptors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

exports!(
    use guard::call;

    /// Waits until a rank has posted one more receive.
    pub fn comm_wait_ready(rank: c_int) -> c_int {
        let library = library()?;
        let comm = library.comm()?;
        Ok(comm.credits.take(&library.ranks, buffer::rank(rank)?)?)
    }

    /// Waits for all requests that nobody has waited for, and frees them.
    pub fn comm_flush() -> c_int {
        let library = library()?;
        let comm = library.comm()?;
        let open = std::mem::take(&mut *comm.requests());
        let open = open.into_iter().map(std::ptr::without_provenance_mut);
        wait_all(&library, open.filter(|handle| library.requests.get(*handle).is_ok()))
    }
);

/// Registers the buffer if needed, and starts a message.
///
/// # Safety
///
/// `kind` is a datatype of the MPI library in this process; `reg` is NULL, misaligned, or readable and writable, `req` is NULL, misaligned
/// or writable; `buf` stays allocated while it is registered.
pub(crate) unsafe fn message(
    buf: *mut c_void,
    size: usize,
    kind: MpiHandle,
    reg: *mut Handle,
    rank: c_int,
    req: *mut Handle,
    start: impl FnOnce(&Comm, &Message) -> Result<OpenRequest, CallError>,
) -> Result<(), CallError> {
    let library = library()?;
    let comm = library.comm()?;
    handles::check("req", req)?;
    // SAFETY: the caller's promise.
    let element = unsafe { Mpi::find()?.type_size(kind) }?;
    let bytes = size.checked_mul(element).and_then(|bytes| c_int::try_from(bytes).ok());
    let bytes = bytes.ok_or(CallError::Range { address: buf.addr(), bytes: size })?;
    // SAFETY: as above.
    unsafe { register(&library, buf, bytes as usize, reg) }?;
    // SAFETY: as above.
    let message = unsafe { Message::of(Content::Buffer(buf, bytes), rank, reg) }?;
    let handle = library.requests.add(start(comm, &message)?);
    comm.track(handle);
    // SAFETY: checked; the caller promises that it is writable.
    unsafe { handles::put(req, handle) };
    Ok(())
}

/// The handles of an array, which becomes NULL.
///
/// # Safety
///
/// As [`comm_wait_all`].
unsafe fn taken(count: c_int, reqs: *mut Handle) -> Result<Vec<Handle>, CallError> {
    let count = buffer::size(count)?;
    // SAFETY: the caller's promise.
    let handles = unsafe { handles::all("reqs", reqs, count) }?;
    for position in 0..count {
        // SAFETY: checked; within the caller's array.
        unsafe { handles::put(reqs.add(position), std::ptr::null_mut()) };
    }
    Ok(handles)
}

/// # Safety
///
/// As [`comm_register`].
unsafe fn register(
    library: &Library,
    buf: *mut c_void,
    size: usize,
    reg: *mut Handle,
) -> Result<(), CallError> {
    // SAFETY: the caller's promise.
    if !unsafe { handles::at("reg", reg) }?.is_null() {
        return Ok(());
    }
    // SAFETY: as above.
    let registered = unsafe { buffer::register(library, buf, size) }?;
    // SAFETY: checked; the caller promises that it is writable.
    unsafe { handles::put(reg, library.regions.add(registered)) };
    Ok(())
}
