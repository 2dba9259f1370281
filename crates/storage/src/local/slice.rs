//! The scheduler's time slice of a thread. Every acknowledgement waits for the writer thread, so its slices are short:
//! on Linux since 6.12, a thread with a short slice runs soon after it was woken, even if others use all processors. It
//! gets no larger share of a processor than before, and needs no privilege.

/// The shortest slice that Linux grants; 1.4 ms are usual on two processors.
#[cfg(target_os = "linux")]
const SLICE_NS: u64 = 100_000;

/// Gives the calling thread short slices. They are an optimization only: failures are logged and otherwise ignored. A
/// policy set for the process from outside (idle, realtime) is kept, and so is its niceness.
#[cfg(target_os = "linux")]
pub(super) fn shorten() {
    match linux::set(SLICE_NS) {
        Ok(true) => {}
        Ok(false) => tracing::debug!("the thread that writes the log keeps its scheduling policy"),
        Err(error) => {
            tracing::debug!(%error, "the thread that writes the log gets slices of the usual length");
        }
    }
}

/// Other systems have no such setting.
#[cfg(not(target_os = "linux"))]
pub(super) fn shorten() {}

#[cfg(target_os = "linux")]
mod linux {
    #![allow(unsafe_code, reason = "no library that is kept well has these two system calls")]

    use std::io;

    use libc::{
        SCHED_BATCH, SCHED_OTHER, SYS_sched_getattr, SYS_sched_setattr, c_long, c_uint, pid_t, sched_attr,
    };

    const THIS_THREAD: pid_t = 0;
    const NO_FLAGS: c_uint = 0;

    /// Sets the slice of the calling thread; false if its policy has none.
    pub(super) fn set(slice_ns: u64) -> io::Result<bool> {
        let mut attributes = get()?;
        let policies = [SCHED_OTHER, SCHED_BATCH];
        if !policies.iter().any(|policy| u32::try_from(*policy) == Ok(attributes.sched_policy)) {
            return Ok(false);
        }
        attributes.sched_runtime = slice_ns;
        // SAFETY: the kernel reads `size` bytes of a structure that outlives the call.
        checked(unsafe { libc::syscall(SYS_sched_setattr, THIS_THREAD, &raw const attributes, NO_FLAGS) })?;
        Ok(true)
    }

    /// The scheduling attributes of the calling thread.
    pub(super) fn get() -> io::Result<sched_attr> {
        let mut attributes = sched_attr {
            size: size_of::<sched_attr>() as u32,
            sched_policy: 0,
            sched_flags: 0,
            sched_nice: 0,
            sched_priority: 0,
            sched_runtime: 0,
            sched_deadline: 0,
            sched_period: 0,
        };
        let size = attributes.size;
        // SAFETY: the kernel writes at most `size` bytes to a structure of that size.
        checked(unsafe {
            libc::syscall(SYS_sched_getattr, THIS_THREAD, &raw mut attributes, size, NO_FLAGS)
        })?;
        Ok(attributes)
    }

    fn checked(result: c_long) -> io::Result<()> {
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_short_slices_and_keeps_its_policy_and_niceness() {
        let (before, after) = std::thread::spawn(|| {
            let before = linux::get().unwrap();
            shorten();
            (before, linux::get().unwrap())
        })
        .join()
        .unwrap();
        assert_eq!((before.sched_policy, before.sched_nice), (after.sched_policy, after.sched_nice));
        // Kernels before 6.12 return 0 and ignore the setting.
        assert!([0, SLICE_NS].contains(&after.sched_runtime), "{}", after.sched_runtime);
    }

    #[test]
    fn other_threads_keep_their_slices() {
        let before = linux::get().unwrap().sched_runtime;
        std::thread::spawn(shorten).join().unwrap();
        assert_eq!(linux::get().unwrap().sched_runtime, before);
    }
}
