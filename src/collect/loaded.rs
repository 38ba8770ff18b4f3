//! Files of the NVIDIA driver that are missing although the driver is loaded: they were not read, so what they would say is
//! unknown. A snapshot, a copied directory or a container may lack them.

use crate::model::{Fact, Facts, Why};

/// Makes absent facts of a loaded driver unknown.
pub fn driver(facts: &mut Facts) {
    let binds_gpu = binds_gpu(facts);
    if !(binds_gpu || is_loaded(facts)) {
        return;
    }
    let driver = &mut facts.driver;
    if driver.version_line.is_absent() {
        driver.version_line = Fact::Unknown(Why::NotCovered);
    }
    if driver.params.is_absent() {
        driver.params = Fact::Unknown(Why::NotCovered);
    }
    if binds_gpu && driver.gpus.known().is_some_and(|gpus| gpus.is_empty()) {
        driver.gpus = Fact::Unknown(Why::NotCovered);
    }
}

fn binds_gpu(facts: &Facts) -> bool {
    facts.gpus().any(|gpu| {
        let attributes = gpu.attributes.as_ref();
        let driver = attributes.and_then(|attributes| attributes.driver.present());
        driver.is_some_and(|driver| driver == "nvidia")
    })
}

fn is_loaded(facts: &Facts) -> bool {
    let driver = &facts.driver;
    let modules = facts.kernel.modules.known().into_iter().flatten();
    driver.version_line.present().is_some()
        || driver.module_version.present().is_some()
        || driver.params.present().is_some()
        || driver.gpus.known().is_some_and(|gpus| !gpus.is_empty())
        || modules
            .map(|module| &module.name)
            .any(|name| name == "nvidia" || name.starts_with("nvidia_current"))
}
