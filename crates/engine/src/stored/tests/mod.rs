//! Stored records: pinned bytes of this version and earlier ones, and damaged records.

mod entity;
mod message;
mod subscription;
