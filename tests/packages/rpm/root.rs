//! The root of a machine whose packages are those of rpm. What is in it comes from one package, `host-base`, made of files of
//! this Debian host: a shell and its tools, the C library, libssl, systemd, D-Bus and rpm itself. rpm finds out what that package
//! provides, so that what the packages of halite require is compared with real libraries.

use super::run;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian packages whose files the root has, beside those that they depend on.
const PACKAGES: &str = "base-files bash coreutils dash dbus findutils grep libc-bin libssl3 mount passwd procps rpm sed systemd util-linux";

/// What `host-base` has of its own.
const OWN: [(&str, &str); 7] = [
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nmessagebus:x:100:100::/nonexistent:/usr/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\nmessagebus:x:100:\n"),
    ("etc/hostname", "machine\n"),
    ("etc/hosts", "127.0.0.1 localhost machine\n"),
    ("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
    // Debian's rpm has its database in the home of whoever asks.
    ("etc/rpm/macros", "%_dbpath /var/lib/rpm\n"),
    // As distributions with RPM have it: nothing is enabled by its installation.
    (
        "usr/lib/systemd/system-preset/00-none.preset",
        "disable *\n",
    ),
];

/// Makes such a root in `dir`, with its package database, and returns where it is.
pub fn make(dir: &Path) -> PathBuf {
    let files = dir.join("files");
    copy_host(&files);
    for (path, text) in OWN {
        let path = files.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let package = package(dir, &files);
    let root = dir.join("root");
    fs::create_dir(&root).unwrap();
    let words = ["--dbpath", "/var/lib/rpm", "--noscripts", "-i"];
    let mut rpm = Command::new("rpm");
    rpm.arg("--root").arg(&root).args(words).arg(&package);
    run(&mut rpm);
    run(Command::new("chroot").arg(&root).arg("/sbin/ldconfig"));
    root
}

/// The files of [`PACKAGES`] and of what they depend on, without documentation.
fn copy_host(files: &Path) {
    fs::create_dir(files).unwrap();
    let script = r#"
        set -e -o pipefail
        cd "$1"
        mkdir -p usr/bin usr/sbin usr/lib usr/lib64
        for dir in bin sbin lib lib64; do ln -s usr/$dir $dir; done
        todo=$2 seen=' '
        while [ -n "$todo" ]; do
            next=
            for package in $todo; do
                case $seen in *" $package "*) continue ;; esac
                # What has no files on this host is provided by something else.
                dpkg -s "$package" >/dev/null 2>&1 || continue
                seen="$seen$package "
                next="$next $(dpkg-query -W -f '${Pre-Depends},${Depends}' "$package" | tr , '\n' | sed 's/[|(:].*//; s/ //g')"
            done
            todo=$(echo $next)
        done
        for package in $seen; do dpkg-query -L "$package"; done |
            grep -v -E '^/(\.|bin|sbin|lib|lib64)$|^/usr/share/(doc|man|locale|info|zoneinfo|bash-completion|lintian|bug)|diverts|diverted|^/usr/lib/file/|/(perl|perl-base|perl5|gconv)/' |
            sort -u >../list
        tar -C / --no-recursion -c -f - -T ../list --ignore-failed-read 2>../tar.log | tar -x -f - --keep-directory-symlink
    "#;
    let mut shell = Command::new("bash");
    run(shell.args(["-c", script, "copy"]).arg(files).arg(PACKAGES));
}

/// Makes a package of the files.
fn package(dir: &Path, files: &Path) -> PathBuf {
    // All of it as it lies there, with root as its owner.
    let spec = format!(
        "Name: host-base\nVersion: 1\nRelease: 1\nSummary: What a host has\nLicense: none\nAutoReq: no\n\
         Provides: systemd = 252\nProvides: rtld(GNU_HASH)\n\
         %global debug_package %{{nil}}\n%global _build_id_links none\n%global __os_install_post %{{nil}}\n\
         %global _binary_payload w1.zstdio\n\
         %description\nFiles of this host.\n\
         %install\nmv '{}'/* %{{buildroot}}/\n\
         find %{{buildroot}} -mindepth 1 -printf '%%y \"/%%P\"\\n' | sed 's/^d /%%dir /; t; s/^. //' >files\n\
         %files -f files\n%defattr(-,root,root)\n",
        files.display()
    );
    let path = dir.join("host-base.spec");
    fs::write(&path, spec).unwrap();
    let mut build = Command::new("rpmbuild");
    build.arg("-bb").arg("--define");
    build.arg(format!("_topdir {}", dir.display()));
    run(build.arg(&path));
    let packages = dir.join("RPMS");
    let machine = fs::read_dir(packages).unwrap().next().unwrap().unwrap();
    machine.path().join(format!(
        "host-base-1-1.{}.rpm",
        machine.file_name().to_string_lossy()
    ))
}
