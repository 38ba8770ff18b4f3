//! Hostile arguments, files and environments of the built binary.
