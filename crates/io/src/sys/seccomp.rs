//! A filter that refuses system calls which no chain makes: seccomp(2).

use std::io;

use libc::{c_long, sock_filter, sock_fprog};

/// Calls that change the machine, other processes, or the namespaces of this one.
const REFUSED: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];
/// The same, of x86-64 only.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[c_long] = &[libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[c_long] = &[];

/// `AUDIT_ARCH` of the calls above. Other calls of the processor are refused: numbers differ there.
const ARCHITECTURE: Option<u32> = match () {
    () if cfg!(target_arch = "x86_64") => Some(0xc000_003e),
    () if cfg!(target_arch = "aarch64") => Some(0xc000_00b7),
    () => None,
};
/// x86-64 numbers from here on are those of the x32 interface.
const X32: u32 = 1 << 30;
/// Offsets in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;

/// Which threads a filter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    /// Those of the process, and their children.
    All,
    /// The calling one.
    #[cfg(test)]
    Caller,
}

/// Refuses these calls in the process from now on, with `EPERM`. The process must have set
/// `no_new_privs`.
///
/// # Errors
/// The system's, such as `ENOSYS` or `EINVAL` of a kernel without filters.
pub fn refuse_calls(needs_bpf: bool) -> io::Result<()> {
    install(needs_bpf, Threads::All)
}

fn install(needs_bpf: bool, threads: Threads) -> io::Result<()> {
    let Some(architecture) = ARCHITECTURE else {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    };
    let mut program = program(architecture, needs_bpf);
    let len = program.len() as u16;
    let program = sock_fprog { len, filter: program.as_mut_ptr() };
    // Without the second flag older kernels slow down all code of a process that has a filter.
    let all = match threads {
        Threads::All => libc::SECCOMP_FILTER_FLAG_TSYNC,
        #[cfg(test)]
        Threads::Caller => 0,
    };
    let flags = all | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the system reads the program, which outlives the call.
    let outcome = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    match outcome {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!("thread {thread} has a filter of its own"))),
    }
}

/// The filter: each refused number jumps to the last instruction.
fn program(architecture: u32, needs_bpf: bool) -> Vec<sock_filter> {
    let bpf = (!needs_bpf).then_some(libc::SYS_bpf);
    let numbers: Vec<c_long> = REFUSED.iter().chain(REFUSED_HERE).copied().chain(bpf).collect();
    let load = |at| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), at);
    let refuse = || answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
    let is =
        |number, jumps| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jumps, number);
    let mut all = vec![load(ARCHITECTURE_AT), is(architecture, (1, 0)), refuse(), load(NUMBER_AT)];
    if cfg!(target_arch = "x86_64") {
        let from = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
        all.extend([instruction(from, (0, 1), X32), refuse()]);
    }
    for (at, number) in numbers.iter().enumerate() {
        let to_refusal = (numbers.len() - at) as u8;
        all.push(is(*number as u32, (to_refusal, 0)));
    }
    all.extend([answer(libc::SECCOMP_RET_ALLOW), refuse()]);
    all
}

fn answer(action: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, (0, 0), action)
}

fn instruction(code: u32, (jt, jf): (u8, u8), k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of each refused call and `bpf`, with arguments that are wrong for all.
    fn errors() -> Vec<(c_long, Option<i32>)> {
        let all = REFUSED.iter().chain(REFUSED_HERE).chain(&[libc::SYS_bpf]);
        let bad: c_long = -1;
        let call = |number: &c_long| {
            // SAFETY: no memory is at these addresses, and the numbers name nothing.
            let outcome = unsafe { libc::syscall(*number, bad, bad, bad, bad, bad) };
            let error = io::Error::last_os_error().raw_os_error();
            (*number, error.filter(|_| outcome == -1))
        };
        all.map(call).collect()
    }

    #[test]
    fn calls_are_refused_and_others_made() {
        for needs_bpf in [false, true] {
            let filtered = std::thread::spawn(move || {
                crate::rights::keep(crate::rights::Rights::None).expect("rights");
                install(needs_bpf, Threads::Caller).expect("a filter");
                // A child has it, too. Without namespaces to leave, the call needs no rights.
                let child = std::process::Command::new("unshare").arg("true").status();
                (errors(), std::fs::read("/proc/thread-self/status").is_ok(), child)
            });
            let (errors, reads, child) = filtered.join().expect("a thread");
            for (number, error) in errors {
                let is_allowed = needs_bpf && number == libc::SYS_bpf;
                if is_allowed && !crate::rights::is_root() {
                    continue;
                }
                assert_eq!(error == Some(libc::EPERM), !is_allowed, "{number}: {error:?}");
            }
            assert!(reads, "files are read");
            assert!(child.is_ok_and(|status| !status.success()), "a child makes no such call");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_by_other_numbers_are_refused() {
        let filtered = std::thread::spawn(|| {
            crate::rights::keep(crate::rights::Rights::None).expect("rights");
            install(true, Threads::Caller).expect("a filter");
            // SAFETY: `getpid` of x32 takes no arguments.
            unsafe { libc::syscall(libc::SYS_getpid | c_long::from(X32)) };
            io::Error::last_os_error().raw_os_error()
        });
        assert_eq!(filtered.join().expect("a thread"), Some(libc::EPERM));
    }
}
