//! `memcpy` and `memmove` of the static binary for x86-64.
//!
//! Those of musl copy by `rep movsq`, and the bytes that are left one by one. To start that takes longer than most of a broker's copies, of
//! 10 to 400 bytes: they took a quarter of the CPU of sends (docs/performance.md). The linker takes the symbols defined here and leaves musl's
//! alone. On other systems and processors this crate is empty, since what they have is fast. A library that is kept well and has these
//! symbols was not found; others replaced them likewise (microsoft/openvmm, pull request 2297; astral-sh/uv, issue 10610).

// The compiler must not turn the code of `memcpy` into a call of `memcpy`.
#![no_builtins]
#![cfg_attr(not(test), no_std)]
#![cfg(target_arch = "x86_64")]
#![allow(
    unsafe_code,
    reason = "this is what copying is made of; tests compare it with the standard library's, byte by byte"
)]
#![cfg_attr(not(any(test, target_env = "musl")), allow(dead_code, reason = "only musl's are replaced"))]

use core::arch::x86_64::__m128i;

/// Four registers of 16 bytes, of which each processor for x86-64 has enough (SSE2).
type Block = [__m128i; 4];

const BLOCK_BYTES: usize = size_of::<Block>();
const REGISTER_BYTES: usize = size_of::<__m128i>();

#[cfg(target_env = "musl")]
mod symbols {
    /// As in C: copies bytes between places that don't overlap.
    ///
    /// # Safety
    /// `from` can be read and `to` be written for so many bytes, and they don't overlap.
    #[unsafe(no_mangle)]
    pub(crate) unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { super::copy_apart(to, from, bytes) };
        to
    }

    /// As in C: copies bytes between places that may overlap.
    ///
    /// # Safety
    /// `from` can be read and `to` be written for so many bytes.
    #[unsafe(no_mangle)]
    pub(crate) unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { super::copy(to, from, bytes) };
        to
    }
}

/// Copies bytes between places that don't overlap.
///
/// # Safety
/// `from` can be read and `to` be written for so many bytes, and they don't overlap.
#[inline(always)]
unsafe fn copy_apart(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if !copy_few(to, from, bytes) {
            copy_forward(to, from, bytes);
        }
    }
}

/// Copies bytes between places that may overlap.
///
/// # Safety
/// `from` can be read and `to` be written for so many bytes.
#[inline(always)]
unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if copy_few(to, from, bytes) {
            return;
        }
        // Less than `bytes` only if `to` lies within what is read.
        if to.addr().wrapping_sub(from.addr()) >= bytes {
            copy_forward(to, from, bytes);
        } else {
            copy_backward(to, from, bytes);
        }
    }
}

/// Copies up to two blocks, by reading all of it before anything is written. False if it is more, and nothing is done.
///
/// # Safety
/// `from` can be read and `to` be written for so many bytes.
#[inline(always)]
unsafe fn copy_few(to: *mut u8, from: *const u8, bytes: usize) -> bool {
    // SAFETY: the caller's promise; each size is at most `bytes`.
    unsafe {
        match bytes {
            0 => {}
            1 => to.write(from.read()),
            2..4 => copy_ends::<u16>(to, from, bytes),
            4..8 => copy_ends::<u32>(to, from, bytes),
            8..16 => copy_ends::<u64>(to, from, bytes),
            16..32 => copy_ends::<__m128i>(to, from, bytes),
            32..64 => copy_ends::<[__m128i; 2]>(to, from, bytes),
            64..=128 => copy_ends::<Block>(to, from, bytes),
            _ => return false,
        }
    }
    true
}

/// Copies the first and the last bytes of the size of `T`; they overlap where there are less than two of them.
///
/// # Safety
/// `from` can be read and `to` be written for so many bytes, of which `T` has no more.
#[inline(always)]
unsafe fn copy_ends<T>(to: *mut u8, from: *const u8, bytes: usize) {
    let end = bytes - size_of::<T>();
    // SAFETY: both lie within what the caller promises.
    unsafe {
        let (first, last) = (read::<T>(from), read::<T>(from.add(end)));
        write(to, first);
        write(to.add(end), last);
    }
}

/// Copies more than a block from the beginning to the end, a block at a time, each to an aligned place.
///
/// # Safety
/// `from` can be read and `to` be written for so many bytes, more than two blocks. `to` doesn't lie within what is read.
#[inline(always)]
unsafe fn copy_forward(to: *mut u8, from: *const u8, bytes: usize) {
    let end = bytes - BLOCK_BYTES;
    let mut at = REGISTER_BYTES - to.addr() % REGISTER_BYTES;
    // SAFETY: `at` is at most a register's size to begin with, and below `end` wherever it is used.
    unsafe {
        let first = read::<__m128i>(from);
        // Before it is written over, where the places overlap.
        let last = read::<Block>(from.add(end));
        while at < end {
            write_aligned(to.add(at), read::<Block>(from.add(at)));
            at += BLOCK_BYTES;
        }
        write(to.add(end), last);
        write(to, first);
    }
}

/// Copies more than a block from the end to the beginning, a block at a time, each to an aligned place.
///
/// # Safety
/// `from` can be read and `to` be written for so many bytes, more than two blocks. `from` doesn't lie within what is written.
#[inline(always)]
unsafe fn copy_backward(to: *mut u8, from: *const u8, bytes: usize) {
    let end = bytes - REGISTER_BYTES;
    let mut at = bytes - (to.addr() + bytes) % REGISTER_BYTES;
    // SAFETY: `at` is at most `bytes`, and a block or more wherever one is subtracted.
    unsafe {
        let last = read::<__m128i>(from.add(end));
        // Before it is written over.
        let first = read::<Block>(from);
        while at > BLOCK_BYTES {
            at -= BLOCK_BYTES;
            write_aligned(to.add(at), read::<Block>(from.add(at)));
        }
        write(to, first);
        write(to.add(end), last);
    }
}

/// # Safety
/// There is a `T` that can be read, which need not be aligned. Any bytes are one.
#[inline(always)]
unsafe fn read<T>(from: *const u8) -> T {
    // SAFETY: the caller's promise.
    unsafe { from.cast::<T>().read_unaligned() }
}

/// # Safety
/// There is room for a `T`, which need not be aligned.
#[inline(always)]
unsafe fn write<T>(to: *mut u8, value: T) {
    // SAFETY: the caller's promise.
    unsafe { to.cast::<T>().write_unaligned(value) }
}

/// # Safety
/// There is room for a block, aligned for a register.
#[inline(always)]
unsafe fn write_aligned(to: *mut u8, block: Block) {
    // SAFETY: the caller's promise.
    unsafe { to.cast::<Block>().write(block) }
}

#[cfg(test)]
mod tests;
