//! `memcpy` and `memmove` of the static binary for x86-64.
//!
//! Musl's versions copy by `rep movsq` and then the remaining bytes one by one. The start of `rep movsq` takes longer
//! than most of a broker's copies of 10 to 400 bytes: copying took a quarter of the CPU time of sends
//! (docs/performance-internals.md). The linker takes the symbols defined here and ignores musl's. On other systems and
//! processors this crate is empty, since their versions are fast. No maintained library with these symbols was found;
//! others replaced them in the same way (microsoft/openvmm, pull request 2297; astral-sh/uv, issue 10610).

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

/// Four registers of 16 bytes, available on every x86-64 processor (SSE2).
type Block = [__m128i; 4];

const BLOCK_BYTES: usize = size_of::<Block>();
const REGISTER_BYTES: usize = size_of::<__m128i>();

#[cfg(target_env = "musl")]
mod symbols {
    /// As in C: copies bytes between areas that don't overlap.
    ///
    /// # Safety
    /// `bytes` bytes can be read from `from` and written to `to`, and the areas don't overlap.
    #[unsafe(no_mangle)]
    pub(crate) unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        unsafe { super::copy_apart(to, from, bytes) };
        to
    }

    /// As in C: copies bytes between areas that may overlap.
    ///
    /// # Safety
    /// `bytes` bytes can be read from `from` and written to `to`.
    #[unsafe(no_mangle)]
    pub(crate) unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        unsafe { super::copy(to, from, bytes) };
        to
    }
}

/// Copies bytes between areas that don't overlap.
///
/// # Safety
/// `bytes` bytes can be read from `from` and written to `to`, and the areas don't overlap.
#[inline(always)]
unsafe fn copy_apart(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if !copy_few(to, from, bytes) {
            copy_forward(to, from, bytes);
        }
    }
}

/// Copies bytes between areas that may overlap.
///
/// # Safety
/// `bytes` bytes can be read from `from` and written to `to`.
#[inline(always)]
unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if copy_few(to, from, bytes) {
            return;
        }
        // Less than `bytes` only if `to` is inside the area that is read.
        if to.addr().wrapping_sub(from.addr()) >= bytes {
            copy_forward(to, from, bytes);
        } else {
            copy_backward(to, from, bytes);
        }
    }
}

/// Copies up to two blocks, reading all bytes before any is written. Returns false without copying if there are more.
///
/// # Safety
/// `bytes` bytes can be read from `from` and written to `to`.
#[inline(always)]
unsafe fn copy_few(to: *mut u8, from: *const u8, bytes: usize) -> bool {
    // SAFETY: guaranteed by the caller; each size is at most `bytes`.
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

/// Copies the first and the last bytes of the size of `T`; they overlap if `bytes` is less than twice that size.
///
/// # Safety
/// `bytes` bytes can be read from `from` and written to `to`, and `T` is not larger.
#[inline(always)]
unsafe fn copy_ends<T>(to: *mut u8, from: *const u8, bytes: usize) {
    let end = bytes - size_of::<T>();
    // SAFETY: both are inside the areas guaranteed by the caller.
    unsafe {
        let (first, last) = (read::<T>(from), read::<T>(from.add(end)));
        write(to, first);
        write(to.add(end), last);
    }
}

/// Copies more than a block from start to end, one block at a time, each to an aligned address.
///
/// # Safety
/// `bytes` bytes, more than two blocks, can be read from `from` and written to `to`. `to` is not inside the area that
/// is read.
#[inline(always)]
unsafe fn copy_forward(to: *mut u8, from: *const u8, bytes: usize) {
    let end = bytes - BLOCK_BYTES;
    let mut at = REGISTER_BYTES - to.addr() % REGISTER_BYTES;
    // SAFETY: `at` is at first at most a register's size, and below `end` wherever it is used.
    unsafe {
        let first = read::<__m128i>(from);
        // Read before it is overwritten, if the areas overlap.
        let last = read::<Block>(from.add(end));
        while at < end {
            write_aligned(to.add(at), read::<Block>(from.add(at)));
            at += BLOCK_BYTES;
        }
        write(to.add(end), last);
        write(to, first);
    }
}

/// Copies more than a block from end to start, one block at a time, each to an aligned address.
///
/// # Safety
/// `bytes` bytes, more than two blocks, can be read from `from` and written to `to`. `from` is not inside the area that
/// is written.
#[inline(always)]
unsafe fn copy_backward(to: *mut u8, from: *const u8, bytes: usize) {
    let end = bytes - REGISTER_BYTES;
    let mut at = bytes - (to.addr() + bytes) % REGISTER_BYTES;
    // SAFETY: `at` is at most `bytes`, and at least a block wherever one is subtracted.
    unsafe {
        let last = read::<__m128i>(from.add(end));
        // Read before it is overwritten.
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
/// `from` points to a readable `T`, which need not be aligned. Any bytes are a valid `T`.
#[inline(always)]
unsafe fn read<T>(from: *const u8) -> T {
    // SAFETY: guaranteed by the caller.
    unsafe { from.cast::<T>().read_unaligned() }
}

/// # Safety
/// `to` has room for a `T`, which need not be aligned.
#[inline(always)]
unsafe fn write<T>(to: *mut u8, value: T) {
    // SAFETY: guaranteed by the caller.
    unsafe { to.cast::<T>().write_unaligned(value) }
}

/// # Safety
/// `to` has room for a block and is aligned for a register.
#[inline(always)]
unsafe fn write_aligned(to: *mut u8, block: Block) {
    // SAFETY: guaranteed by the caller.
    unsafe { to.cast::<Block>().write(block) }
}

#[cfg(test)]
mod tests;
