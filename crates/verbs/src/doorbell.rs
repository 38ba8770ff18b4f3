//! A doorbell register page of an mlx5 device, to test whether it can be mapped.

use crate::{Error, ProtectionDomain, QueuePairOptions, Transport, Words};

impl ProtectionDomain {
    /// A page of doorbell registers: that of a new queue pair, in a thread domain if the provider has them, which lives as long as the page.
    /// The caller must not ring it.
    ///
    /// Any type of device may be passed.
    ///
    /// # Errors
    ///
    /// [`Error::NotMlx5`]; [`Error::Library`] or [`Error::Missing`] if libmlx5 is missing or too old; [`Error::Call`] if the device creates
    /// no queue pair; [`Error::Layout`].
    pub fn doorbell(&self) -> Result<Words, Error> {
        let queue = self.context().direct_completions(1)?;
        // The only call that is valid for other devices.
        queue.layout()?;
        let domain = self.of_one_thread().unwrap_or_else(|_| self.clone());
        let options = QueuePairOptions::of(Transport::Rc, 1);
        Ok(domain.direct_queue_pair(options, &queue, &queue)?.layout()?.register)
    }
}
