//! Records as they are on the disk: pinned, by this version and by earlier ones, and damaged.

mod entity;
mod message;
mod subscription;
