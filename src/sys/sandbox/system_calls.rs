//! Filtering system calls, by seccomp.
//!
//! The filters name what is denied, not what is allowed: which calls libraries make depends on the C library and the processor. The
//! units of the packages have lists of what is allowed.

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;

/// What no process of a master does, nor a program that it starts: the system's state, namespaces, memory of others.
const KERNEL: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// What is denied besides to a process that starts no programs: these, other accounts, and parts of the kernel that it has no use
/// for. Processes (`clone`) are in [`filter`].
const PROGRAMS: &[i64] = &[
    libc::SYS_add_key,
    libc::SYS_capset,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_keyctl,
    libc::SYS_personality,
    libc::SYS_request_key,
    libc::SYS_setfsgid,
    libc::SYS_setfsuid,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_setuid,
    libc::SYS_syslog,
];

#[cfg(target_arch = "x86_64")]
const OF_PROCESSOR: &[i64] = &[libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const OF_PROCESSOR: &[i64] = &[];

#[cfg(target_arch = "x86_64")]
const FORKS: &[i64] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKS: &[i64] = &[];

/// x86_64 has a second table of system calls, for programs with short pointers (x32): the same numbers with this bit, and some of
/// their own (`arch/x86/entry/syscalls/syscall_64.tbl`): execve, ptrace, kexec_load, process_vm_readv and writev, execveat.
const X32: i64 = 0x4000_0000;
const OF_X32: &[i64] = &[520, 521, 528, 539, 540, 545];

/// Filters the system calls of this thread, and of threads and processes that it starts.
///
/// # Errors
/// The processor is unknown to the crate, or the kernel has no filters.
pub(super) fn filter(programs: bool) -> Result<(), Box<dyn std::error::Error>> {
    let mut denied: Vec<i64> = [KERNEL, OF_PROCESSOR].concat();
    if !programs {
        denied.extend([PROGRAMS, FORKS].concat());
    }
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        denied.into_iter().map(|n| (n, Vec::new())).collect();
    if !programs {
        // Threads, but no processes.
        let thread = libc::CLONE_THREAD as u64;
        let process = SeccompCmpOp::MaskedEq(thread);
        let process = SeccompCondition::new(0, SeccompCmpArgLen::Qword, process, 0)?;
        rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![process])?]);
        // Its flags are in memory, where no filter can look. The C library falls back to `clone`.
        let both = [libc::SYS_clone3, libc::SYS_clone3 | X32];
        apply(both.map(|n| (n, Vec::new())).into(), libc::ENOSYS)?;
    }
    if cfg!(target_arch = "x86_64") {
        let twins: Vec<_> = rules.iter().map(|(n, r)| (n | X32, r.clone())).collect();
        rules.extend(twins);
        rules.extend(OF_X32.iter().map(|n| (n | X32, Vec::new())));
    }
    apply(rules, libc::EPERM)
}

fn apply(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    error: i32,
) -> Result<(), Box<dyn std::error::Error>> {
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(error.cast_unsigned()),
        TargetArch::try_from(std::env::consts::ARCH)?,
    )?;
    apply_filter(&BpfProgram::try_from(filter)?)?;
    Ok(())
}
