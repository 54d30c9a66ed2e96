use super::*;
use nix::errno::Errno;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::thread;

/// Runs `work` in a thread that has entered the sandbox; other tests are not affected.
fn inside<T: Send>(sandbox: &Sandbox, work: impl FnOnce(Enforced) -> T + Send) -> T {
    thread::scope(|scope| {
        let entered = scope.spawn(|| work(sandbox.enter().unwrap()));
        entered.join().unwrap()
    })
}

fn start_program() -> io::Result<Child> {
    Command::new("/bin/true").spawn()
}

fn number<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|e| e.raw_os_error())
}

#[test]
fn no_program_and_no_process() {
    let sandbox = Sandbox::default();
    inside(&sandbox, |enforced| {
        if !enforced.system_calls {
            eprintln!("skipped: this kernel has no filters");
            return;
        }
        assert_eq!(number(start_program()), Some(Errno::EPERM as i32));
        // SAFETY: no process is created, as is asserted.
        #[allow(unsafe_code)]
        let forked = unsafe { nix::unistd::fork() };
        assert_eq!(forked.err(), Some(Errno::EPERM));
        // Nor in place of this one.
        let argument = c"/bin/true";
        assert_eq!(nix::unistd::execv(argument, &[argument]), Err(Errno::EPERM));
        assert_eq!(
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER),
            Err(Errno::EPERM)
        );
        // Threads are nothing to fear, and are in the sandbox as well.
        let inner = thread::spawn(|| number(start_program()));
        assert_eq!(inner.join().unwrap(), Some(Errno::EPERM as i32));
    });
    // The thread of the test is not.
    assert!(start_program().unwrap().wait().unwrap().success());
}

#[test]
fn files_outside_and_ports_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (own, other) = (dir.path().join("own"), dir.path().join("other"));
    for path in [&own, &other] {
        fs::create_dir(path).unwrap();
        fs::write(path.join("old"), "x").unwrap();
    }
    // Part of a directory may be on another disk.
    let moved = dir.path().join("moved");
    fs::create_dir(&moved).unwrap();
    std::os::unix::fs::symlink(&moved, own.join("link")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sandbox = Sandbox {
        writes: Some(vec![own.clone(), dir.path().join("missing")]),
        ..Sandbox::default()
    };
    inside(&sandbox, |enforced| {
        if !enforced.files {
            eprintln!("skipped: this kernel has no Landlock");
            return;
        }
        fs::write(own.join("old"), "y").unwrap();
        fs::create_dir(own.join("below")).unwrap();
        fs::rename(own.join("old"), own.join("below/new")).unwrap();
        fs::write(own.join("link/x"), "x").unwrap();
        let refused = Some(Errno::EACCES as i32);
        assert_eq!(number(fs::write(other.join("old"), "y")), refused);
        assert_eq!(number(fs::write(other.join("new"), "y")), refused);
        assert_eq!(number(fs::remove_file(other.join("old"))), refused);
        assert_eq!(fs::read_to_string(other.join("old")).unwrap(), "x");
        if number(TcpStream::connect(address)) == refused {
            assert_eq!(number(TcpListener::bind("127.0.0.1:0")), refused);
        } else {
            eprintln!("skipped: Landlock knows no ports here");
        }
    });
}

#[test]
fn what_is_allowed_works() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let sandbox = Sandbox {
        writes: None,
        binds: vec![0],
        connects: true,
        programs: false,
    };
    inside(&sandbox, |_| {
        TcpStream::connect(address).unwrap();
        TcpListener::bind("127.0.0.1:0").unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("b"), "").unwrap();
        fs::rename(dir.path().join("b"), dir.path().join("a/b")).unwrap();
    });
}

#[test]
fn programs_are_restricted_where_they_cannot_gain_privileges() {
    let sandbox = Sandbox {
        programs: true,
        ..Sandbox::default()
    };
    inside(&sandbox, |enforced| {
        assert_eq!(
            enforced.system_calls,
            nix::sys::prctl::get_no_new_privs().unwrap()
        );
    });
    inside(&sandbox, |_| {
        nix::sys::prctl::set_no_new_privs().unwrap();
        let enforced = sandbox.enter().unwrap();
        assert!(start_program().unwrap().wait().unwrap().success());
        let unshared = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER);
        assert_eq!(unshared.is_err(), enforced.system_calls);
    });
}
