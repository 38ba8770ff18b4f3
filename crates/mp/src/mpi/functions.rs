//! Finds the functions and recognises the ABI.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gdr_sys::loader::{LoadError, Opened};

use super::{Communicator, Error};

/// A handle: a pointer, or an integer in its lower half.
pub(crate) type Handle = usize;

/// How an MPI library represents its handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abi {
    /// Pointers.
    OpenMpi,
    /// Integers.
    Mpich,
}

type Test = unsafe extern "C" fn(*mut Handle, *mut c_int, usize) -> c_int;
type Iallgather = unsafe extern "C" fn(
    *const c_void,
    c_int,
    Handle,
    *mut c_void,
    c_int,
    Handle,
    Handle,
    *mut Handle,
) -> c_int;
pub(crate) type Start =
    unsafe extern "C" fn(*mut c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle) -> c_int;
type SetHandler = unsafe extern "C" fn(Handle, Handle) -> c_int;
type Text = unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int;
/// `MPIX_Query_cuda_support`.
type QueryCuda = unsafe extern "C" fn() -> c_int;
/// `MPIX_GPU_query_support`: the kind of GPU, and the answer.
type QueryGpu = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
type OfHandle = unsafe extern "C" fn(Handle, *mut c_int) -> c_int;
type Flag = unsafe extern "C" fn(*mut c_int) -> c_int;
type Version = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
type Finalize = unsafe extern "C" fn() -> c_int;
type InitThread = unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int;

#[derive(Debug)]
pub(crate) struct Functions {
    pub abi: Abi,
    pub version: String,
    pub world: Handle,
    pub byte: Handle,
    /// `MPI_STATUS_IGNORE`.
    pub no_status: usize,
    pub initialized: Flag,
    pub finalized: Flag,
    pub init_thread: InitThread,
    pub finalize: Finalize,
    pub comm_rank: OfHandle,
    pub comm_size: OfHandle,
    pub type_size: OfHandle,
    pub iallgather: Iallgather,
    pub test: Test,
    pub isend: Start,
    pub irecv: Start,
    /// `MPI_ERRORS_RETURN`.
    errors_return: Handle,
    set_error_handler: SetHandler,
    error_string: Text,
    query_cuda: Option<QueryCuda>,
    query_gpu: Option<QueryGpu>,
}

/// Whether the library takes GPU pointers, as it answers itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudaSupport {
    /// The function that answered.
    pub function: &'static str,
    /// Its answer.
    pub supported: bool,
}

/// MPI in this process.
#[derive(Debug, Clone, Copy)]
pub struct Mpi(pub(crate) &'static Functions);

static FOUND: OnceLock<Functions> = OnceLock::new();

/// Sonames of Open MPI 2 to 5, of the MPICH ABI initiative, and of Debian's MPICH.
const NAMES: [&CStr; 3] = [c"libmpi.so.40", c"libmpi.so.12", c"libmpich.so.12"];
/// MPICH's handles, which its header defines as constants.
const MPICH_WORLD: Handle = 0x4400_0000;
const MPICH_BYTE: Handle = 0x4c00_010d;
const MPICH_NO_STATUS: usize = 1;
const MPICH_ERRORS_RETURN: Handle = 0x5400_0001;
/// `MPIX_GPU_SUPPORT_CUDA`.
const CUDA: c_int = 0;
/// `MPI_THREAD_SINGLE`: calls come from one thread.
const THREAD_SINGLE: c_int = 0;

impl Mpi {
    /// The library that the process has already loaded.
    ///
    /// # Errors
    ///
    /// [`Error::Absent`], [`Error::Unknown`], [`Error::Missing`].
    pub fn find() -> Result<Self, Error> {
        Self::among(libc::RTLD_NOLOAD, "is loaded in this process", &NAMES)
    }

    /// Loads a library, if the process has none: of the implementation whose launcher started this process.
    ///
    /// # Errors
    ///
    /// As [`Self::find`].
    pub fn open() -> Result<Self, Error> {
        let mut names = NAMES;
        if std::env::var_os("OMPI_COMM_WORLD_RANK").is_none() {
            names.rotate_left(1);
        }
        Self::find().or_else(|_| Self::among(libc::RTLD_GLOBAL, "can be loaded", &names))
    }

    /// Loads the library in this file, unless the process has one.
    ///
    /// # Errors
    ///
    /// [`Error::Load`], [`Error::Unknown`], [`Error::Missing`].
    pub fn open_file(path: &Path) -> Result<Self, Error> {
        if let Some(found) = FOUND.get() {
            return Ok(Self(found));
        }
        // Open MPI's components need its symbols: RTLD_GLOBAL.
        // SAFETY: the constructors of an MPI library have no preconditions.
        let opened = unsafe { Opened::open(path, libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        let opened = opened.map_err(|error| Error::Load {
            file: path.to_owned(),
            why: match error {
                LoadError::Absent(why) | LoadError::Unusable(why) => why,
            },
        })?;
        let functions = Functions::of(opened.keep())?;
        Ok(Self(FOUND.get_or_init(|| functions)))
    }

    fn among(flags: c_int, what: &'static str, names: &[&CStr]) -> Result<Self, Error> {
        if let Some(found) = FOUND.get() {
            return Ok(Self(found));
        }
        let mut library = libc::RTLD_DEFAULT;
        if symbol(library, c"MPI_Init").is_null() {
            // Loaded without RTLD_GLOBAL, as Python's modules are, or not loaded.
            // SAFETY: the names are strings; the constructors of an MPI library have no preconditions.
            let open =
                |name: &&CStr| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | flags) };
            let opened = names.iter().map(open).find(|handle| !handle.is_null());
            library = opened.ok_or(Error::Absent(what))?;
        }
        let functions = Functions::of(library)?;
        Ok(Self(FOUND.get_or_init(|| functions)))
    }

    /// Its ABI.
    #[must_use]
    pub fn abi(&self) -> Abi {
        self.0.abi
    }

    /// The first line of what the library says of itself.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// The file that the library was loaded from.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        // SAFETY: Dl_info contains only pointers, so all zero is a valid value.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is valid for the write; dladdr takes any address.
        let found = unsafe { libc::dladdr(self.0.init_thread as *const c_void, &raw mut info) };
        if found == 0 || info.dli_fname.is_null() {
            return None;
        }
        // SAFETY: dladdr returned a NUL-terminated string that lives while the library is open.
        let name = unsafe { CStr::from_ptr(info.dli_fname) };
        Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
    }

    /// Asks the library whether it takes GPU pointers; `None` if it has no function for that.
    ///
    /// # Errors
    ///
    /// [`Error::NotInitialized`], [`Error::Failed`].
    pub fn cuda_support(&self) -> Result<Option<CudaSupport>, Error> {
        if !self.is_initialized() {
            return Err(Error::NotInitialized);
        }
        if let Some(query) = self.0.query_cuda {
            // SAFETY: MPI is initialized; the function has no arguments.
            let supported = unsafe { query() } == 1;
            return Ok(Some(CudaSupport { function: "MPIX_Query_cuda_support", supported }));
        }
        let Some(query) = self.0.query_gpu else {
            return Ok(None);
        };
        let (function, mut answer) = ("MPIX_GPU_query_support", 0);
        // SAFETY: MPI is initialized; the pointer is valid for the write.
        check(function, unsafe { query(CUDA, &raw mut answer) })?;
        Ok(Some(CudaSupport { function, supported: answer != 0 }))
    }

    /// Lets errors of a communicator of this process be returned instead of ending it.
    pub(crate) fn return_errors(self, communicator: Handle) -> Result<(), Error> {
        let functions = self.0;
        // SAFETY: a communicator of this MPI and its own error handler.
        let code = unsafe { (functions.set_error_handler)(communicator, functions.errors_return) };
        check("MPI_Comm_set_errhandler", code)
    }

    /// What an error code means.
    #[must_use]
    pub fn meaning(&self, code: i32) -> String {
        text(|text, length| {
            // SAFETY: the buffer is larger than MPI_MAX_ERROR_STRING of any implementation.
            unsafe { (self.0.error_string)(code, text, length) };
        })
    }

    /// True between `MPI_Init` and `MPI_Finalize`.
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        let mut flags = [0; 2];
        // SAFETY: both may be called at any time, and the pointers are valid for the calls.
        unsafe {
            (self.0.initialized)(&raw mut flags[0]);
            (self.0.finalized)(&raw mut flags[1]);
        }
        flags[0] != 0 && flags[1] == 0
    }

    /// Calls `MPI_Init_thread` for one thread, if MPI is not initialized.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`].
    pub fn init(&self) -> Result<(), Error> {
        if self.is_initialized() {
            return Ok(());
        }
        let mut provided = 0;
        let (argc, argv) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: MPI accepts NULL for both arguments of main.
        let code = unsafe { (self.0.init_thread)(argc, argv, THREAD_SINGLE, &raw mut provided) };
        check("MPI_Init_thread", code)
    }

    /// Calls `MPI_Finalize`.
    ///
    /// # Errors
    ///
    /// [`Error::NotInitialized`], [`Error::Failed`].
    pub fn finalize(&self) -> Result<(), Error> {
        if !self.is_initialized() {
            return Err(Error::NotInitialized);
        }
        // SAFETY: initialized and not finalized.
        check("MPI_Finalize", unsafe { (self.0.finalize)() })
    }

    /// `MPI_COMM_WORLD`.
    ///
    /// # Errors
    ///
    /// [`Error::NotInitialized`], [`Error::Failed`].
    pub fn world(&self) -> Result<Communicator, Error> {
        // SAFETY: MPI's own handle.
        unsafe { self.communicator(std::ptr::without_provenance_mut(self.0.world)) }
    }

    /// A program's `MPI_Comm`, as a C function receives it: of MPICH only the lower half counts.
    ///
    /// # Errors
    ///
    /// [`Error::NotInitialized`], [`Error::Failed`].
    ///
    /// # Safety
    ///
    /// It is a communicator of this MPI, and not freed while the result lives.
    pub unsafe fn communicator(&self, raw: *mut c_void) -> Result<Communicator, Error> {
        // SAFETY: the caller's promise.
        unsafe { Communicator::new(*self, self.handle(raw)) }
    }

    /// `MPI_Type_size` of a program's `MPI_Datatype`, as a C function receives it.
    ///
    /// # Errors
    ///
    /// [`Error::NotInitialized`], [`Error::Failed`].
    ///
    /// # Safety
    ///
    /// It is a datatype of this MPI.
    pub unsafe fn type_size(&self, raw: *mut c_void) -> Result<usize, Error> {
        if !self.is_initialized() {
            return Err(Error::NotInitialized);
        }
        let mut size = 0;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.0.type_size)(self.handle(raw), &raw mut size) };
        check("MPI_Type_size", code)?;
        usize::try_from(size).map_err(|_| Error::Failed { function: "MPI_Type_size", code: size })
    }

    fn handle(&self, raw: *mut c_void) -> Handle {
        let handle = raw.expose_provenance();
        match self.0.abi {
            Abi::OpenMpi => handle,
            Abi::Mpich => handle & 0xffff_ffff,
        }
    }
}

pub(crate) fn check(function: &'static str, code: c_int) -> Result<(), Error> {
    match code {
        0 => Ok(()),
        code => Err(Error::Failed { function, code }),
    }
}

fn symbol(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: an open library or RTLD_DEFAULT, and a string.
    unsafe { libc::dlsym(library, name.as_ptr()) }
}

/// Looks a function up that not every library has.
macro_rules! optional {
    ($library:expr, $name:literal, $type:ty) => {{
        let name = CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes());
        let address = name.map_or(std::ptr::null_mut(), |name| symbol($library, name));
        (!address.is_null()).then(|| {
            // SAFETY: the function of this name has the type of its field, by MPI's standard; handles are register-sized.
            unsafe { std::mem::transmute::<*mut c_void, $type>(address) }
        })
    }};
}

/// Looks a function up.
macro_rules! find {
    ($library:expr, $name:literal, $type:ty) => {
        optional!($library, $name, $type).ok_or(Error::Missing($name))?
    };
}

impl Functions {
    fn of(library: *mut c_void) -> Result<Self, Error> {
        let version = version(find!(library, "MPI_Get_library_version", Version));
        let open_mpi = |name| symbol(library, name).expose_provenance();
        let (world, byte) = (open_mpi(c"ompi_mpi_comm_world"), open_mpi(c"ompi_mpi_byte"));
        let is_mpich =
            ["MPICH", "Intel(R) MPI", "MVAPICH"].iter().any(|name| version.contains(name));
        let (abi, world, byte, no_status) = match (world, byte) {
            (1.., 1..) => (Abi::OpenMpi, world, byte, 0),
            _ if is_mpich => (Abi::Mpich, MPICH_WORLD, MPICH_BYTE, MPICH_NO_STATUS),
            _ => return Err(Error::Unknown { version }),
        };
        Ok(Self {
            abi,
            version,
            world,
            byte,
            no_status,
            initialized: find!(library, "MPI_Initialized", Flag),
            finalized: find!(library, "MPI_Finalized", Flag),
            init_thread: find!(library, "MPI_Init_thread", InitThread),
            finalize: find!(library, "MPI_Finalize", Finalize),
            comm_rank: find!(library, "MPI_Comm_rank", OfHandle),
            comm_size: find!(library, "MPI_Comm_size", OfHandle),
            type_size: find!(library, "MPI_Type_size", OfHandle),
            iallgather: find!(library, "MPI_Iallgather", Iallgather),
            test: find!(library, "MPI_Test", Test),
            isend: find!(library, "MPI_Isend", Start),
            irecv: find!(library, "MPI_Irecv", Start),
            errors_return: match abi {
                Abi::OpenMpi => open_mpi(c"ompi_mpi_errors_return"),
                Abi::Mpich => MPICH_ERRORS_RETURN,
            },
            set_error_handler: find!(library, "MPI_Comm_set_errhandler", SetHandler),
            error_string: find!(library, "MPI_Error_string", Text),
            query_cuda: optional!(library, "MPIX_Query_cuda_support", QueryCuda),
            query_gpu: optional!(library, "MPIX_GPU_query_support", QueryGpu),
        })
    }
}

/// Bytes for a text: MPI's limit in all implementations is 8192 or less.
const LONGEST: usize = 16 << 10;

/// A text that a function writes.
fn text(function: impl FnOnce(*mut c_char, *mut c_int)) -> String {
    let mut text = vec![0_u8; LONGEST];
    let mut length = 0;
    function(text.as_mut_ptr().cast(), &raw mut length);
    let text = CStr::from_bytes_until_nul(&text).map_or_else(|_| "".into(), CStr::to_string_lossy);
    text.trim().to_owned()
}

fn version(function: Version) -> String {
    let text = text(|text, length| {
        // SAFETY: the buffer is larger than any implementation's limit; the function may be called before MPI_Init.
        unsafe { function(text, length) };
    });
    let words = text.lines().next().unwrap_or_default().split_whitespace();
    words.collect::<Vec<_>>().join(" ")
}
