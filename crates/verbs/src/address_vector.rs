//! The mlx5 address vector of a datagram WQE, for programs that write WQEs themselves.

use std::ptr::NonNull;

use ibverbs_sys::{self as raw, mlx5dv_obj_type as object};

use crate::{Context, Datagram, Error};

/// A destination in an mlx5 WQE: the 48 bytes of `struct mlx5_wqe_av` of `infiniband/mlx5dv.h`, big-endian.
///
/// The first twelve bytes (Q_Key and queue pair number) are not set: they belong to each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressVector([u8; BYTES]);

const BYTES: usize = 48;

const _: () =
    assert!(size_of::<raw::mlx5_wqe_av>() == BYTES && align_of::<raw::mlx5_wqe_av>() >= 4);

impl AddressVector {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }
}

impl Datagram {
    /// The address vector, for programs that write WQEs themselves.
    ///
    /// # Errors
    ///
    /// [`Error::NotMlx5`], [`Error::Library`] without libmlx5, [`Error::Missing`], [`Error::Call`].
    pub fn direct(&self) -> Result<AddressVector, Error> {
        // SAFETY: this value's handle, of its domain's device, alive as long as `self`.
        unsafe { self.domain().context().address_vector(self.handle()) }
    }
}

impl Context {
    /// The address vector of an address handle that the program created.
    ///
    /// # Errors
    ///
    /// As [`Datagram::direct`]; [`Error::Layout`] if the provider returns no address.
    ///
    /// # Safety
    ///
    /// The handle belongs to this context, comes from the machine's libibverbs, and is not destroyed during the call.
    pub unsafe fn address_vector(
        &self,
        handle: NonNull<raw::ibv_ah>,
    ) -> Result<AddressVector, Error> {
        let mut attributes = raw::mlx5dv_ah::default();
        let mut object_pointers = raw::mlx5dv_obj {
            ah_in: handle.as_ptr(),
            ah_out: &raw mut attributes,
            ..raw::mlx5dv_obj::default()
        };
        let what = "an address handle";
        self.init_object(&mut object_pointers, object::MLX5DV_OBJ_AH.0, what)?;
        let vector = NonNull::new(attributes.av).ok_or(Error::Layout { what, bytes: BYTES })?;
        // SAFETY: the provider returned an address vector, which is constant and lives as long as the handle.
        Ok(AddressVector(unsafe { vector.cast::<[u8; BYTES]>().read() }))
    }
}
