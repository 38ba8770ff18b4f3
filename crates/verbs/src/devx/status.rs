//! Command status values: `MLX5_CMD_STAT_*` of Linux `include/linux/mlx5/device.h`.

/// The kernel's text for a status (`cmd_status_str` in mlx5_core's `cmd.c`).
pub(crate) fn words(status: u8) -> &'static str {
    match status {
        0x00 => "no status",
        0x01 => "internal error",
        0x02 => "bad operation",
        0x03 => "bad parameter",
        0x04 => "bad system state",
        0x05 => "bad resource",
        0x06 => "resource busy",
        0x08 => "limits exceeded",
        0x09 => "bad resource state",
        0x0a => "bad index",
        0x0f => "no resources",
        0x10 => "bad queue pair state",
        0x30 => "bad packet",
        0x40 => "bad size, too many outstanding completions",
        0x50 => "bad input length",
        0x51 => "bad output length",
        _ => "unknown status",
    }
}
