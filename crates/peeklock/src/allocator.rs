//! The memory allocator of the binary.

#![expect(unsafe_code, reason = "one function of the allocator that its crate does not offer")]

use mimalloc::MiMalloc;

/// Returns memory to the system when memory is freed and some has been free for a second; see the workspace's Cargo.toml.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Maps all memory of this process in pages of the usual size. The allocator asks for huge pages, and the first access to
/// one clears 2 MiB: under load it held up all messages of a runtime thread by 4 ms and more.
pub(crate) fn disable_huge_pages() {
    #[cfg(target_os = "linux")]
    // Kernels without huge pages refuse it.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// Returns to the system memory that this thread and ended threads have freed, and large blocks freed by any thread.
/// That takes some milliseconds, and the first reuse of the memory takes longer.
pub(crate) fn give_back() {
    // SAFETY: the function of the allocator above, declared as in its header `mimalloc.h`; any thread may call it.
    unsafe { mi_collect(true) }
}

/// Returns to the system memory that has been free for a second. Takes milliseconds on a thread with much memory of its own.
pub(crate) fn give_back_unused() {
    // SAFETY: as above.
    unsafe { mi_collect(false) }
}
