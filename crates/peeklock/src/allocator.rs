//! The memory allocator of the binary.

#![expect(unsafe_code, reason = "one function of the allocator that its crate does not offer")]

use mimalloc::MiMalloc;

/// Gives freed memory back to the system within a second, as long as its threads go on; see the workspace's Cargo.toml.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// Returns to the system now what this thread and those that ended have freed, and large blocks whichever thread freed them. That
/// takes some milliseconds, and memory that is needed again afterwards takes longer once.
pub(crate) fn give_back() {
    // SAFETY: the function of the allocator above, declared as in its header `mimalloc.h`; any thread may call it.
    unsafe { mi_collect(true) }
}
