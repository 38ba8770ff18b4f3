//! An NVML library that is absent, unusable, fails or hangs.

use std::time::{Duration, Instant};

use fakes::Driver;
use gpu::nvml::Outcome;

use super::harness::{EVERYTHING, NOTHING, Test, changed, outcome, read_changed, reader};

#[test]
fn absent_library_is_not_an_error() -> Test {
    let temporary = tempfile::tempdir()?;
    let out = temporary.path().join("outcome.json");
    let mut command = reader(EVERYTHING, &out)?;
    command.env("NVML_TEST_LIBRARY", temporary.path().join("libnvidia-ml.so.1"));
    match outcome(command, &out)? {
        Outcome::Absent { reason } => assert!(reason.contains("No such file"), "{reason}"),
        other => panic!("{other:?}"),
    }
    Ok(())
}

#[test]
fn invalid_library_file() -> Test {
    let temporary = tempfile::tempdir()?;
    let library = temporary.path().join("libnvidia-ml.so.1");
    std::fs::write(&library, "no ELF header here")?;
    let out = temporary.path().join("outcome.json");
    let mut command = reader(EVERYTHING, &out)?;
    command.env("NVML_TEST_LIBRARY", &library);
    match outcome(command, &out)? {
        Outcome::Failed { code: None, name, .. } => assert_eq!(name, "library_unusable"),
        other => panic!("{other:?}"),
    }
    Ok(())
}

/// libc.so.6 is a library on every machine without NVML's symbols.
#[test]
fn library_without_nvml_symbols() -> Test {
    let temporary = tempfile::tempdir()?;
    let out = temporary.path().join("outcome.json");
    let mut command = reader(EVERYTHING, &out)?;
    command.env("NVML_TEST_LIBRARY", "libc.so.6");
    match outcome(command, &out)? {
        Outcome::Failed { code: None, name, .. } => assert_eq!(name, "symbol_missing"),
        other => panic!("{other:?}"),
    }
    Ok(())
}

#[test]
fn failed_initialisation_keeps_code() -> Test {
    for (code, expected) in [
        (18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH"),
        (9, "NVML_ERROR_DRIVER_NOT_LOADED"),
        (4, "NVML_ERROR_NO_PERMISSION"),
        (29, "NVML_ERROR_INVALID_STATE"),
        (4242, "NVML_ERROR_4242"),
    ] {
        match read_changed("h200-x2", &format!(r#"{{"init_error": {code}}}"#), EVERYTHING)? {
            Outcome::Failed { code: Some(found), name, reason } => {
                assert_eq!((found, name.as_str()), (code, expected));
                assert!(
                    reason.starts_with("nvmlInit_v2: ") && reason.ends_with(&format!("({code})")),
                    "{reason}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    Ok(())
}

/// The reader has no deadline; its parent process does, and needs this for tests.
#[test]
fn simulated_hang() -> Test {
    let directory = fakes::nvml::build(Driver::Current)?;
    let temporary = tempfile::tempdir()?;
    let machine = changed("h200-x2", r#"{"hang_in": "nvmlInit_v2"}"#, temporary.path())?;
    let out = temporary.path().join("outcome.json");
    let mut command = reader(NOTHING, &out)?;
    command
        .envs(fakes::nvml::environment(&directory, &machine))
        .stdout(std::process::Stdio::null());
    let mut child = command.spawn()?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        assert!(child.try_wait()?.is_none(), "it returned");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    assert!(!out.exists());
    Ok(())
}
