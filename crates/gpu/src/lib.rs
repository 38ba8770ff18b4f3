//! Safe access to NVIDIA GPUs.
