//! Giving up capabilities.

use nix::errno::Errno;
use nix::libc;
use std::io;

/// What a process that starts no programs keeps if it has it: access to the files of a master that runs as root, low ports and
/// locked memory. The numbers are those of `linux/capability.h`: CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, NET_BIND_SERVICE,
/// IPC_LOCK.
const KEPT: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 10 | 1 << 14;
/// `_LINUX_CAPABILITY_VERSION_3`: sets of 64 bits in two halves.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives up all capabilities of this thread except [`KEPT`], also for programs that it might execute.
pub(super) fn keep_few() -> io::Result<()> {
    let mut header = Header {
        version: VERSION,
        pid: 0,
    };
    let mut sets = [Half::default(); 2];
    // SAFETY: both are laid out as the kernel wants them for this version, and live during the call.
    #[allow(unsafe_code)]
    let read = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
    Errno::result(read)?;
    // Only a process that may change it has something to lose there: others cannot gain privileges by executing a file.
    for capability in (0..64).filter(|n| KEPT & 1 << n == 0) {
        // SAFETY: takes numbers.
        #[allow(unsafe_code)]
        let dropped =
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability as libc::c_ulong, 0, 0, 0) };
        if dropped != 0 {
            break;
        }
    }
    // SAFETY: takes numbers.
    #[allow(unsafe_code)]
    let cleared = unsafe {
        let all = libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong;
        libc::prctl(libc::PR_CAP_AMBIENT, all, 0, 0, 0)
    };
    Errno::result(cleared)?;
    let before = sets;
    for (half, kept) in sets.iter_mut().zip([KEPT as u32, (KEPT >> 32) as u32]) {
        half.permitted &= kept;
        half.effective = half.permitted;
        half.inheritable = 0;
    }
    // A unit without capabilities may forbid the call as well.
    if sets == before {
        return Ok(());
    }
    // SAFETY: as above.
    #[allow(unsafe_code)]
    let written = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) };
    Errno::result(written)?;
    Ok(())
}
