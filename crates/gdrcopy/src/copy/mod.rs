//! Copies by the CPU between host memory and a mapping of device memory.
