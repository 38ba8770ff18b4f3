//! The GPUs and their driver.

mod bar1;
mod driver;
mod flavour;
mod present;

pub use bar1::bar1;
pub use driver::driver;
pub use flavour::flavour;
pub use present::present;
