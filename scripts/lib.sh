# Shared by the scripts here; read it with `.`, do not run it.

# The top of the source tree, and where cargo puts what it builds.
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$top/target}

say() { printf '%s\n' "$*"; }
die() {
    printf 'ERROR: %s\n' "$*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# Debian packages that building needs and this system lacks.
missing_for_build() {
    has cc || echo gcc
    has c++ || echo g++
    has make || echo make
    has pkg-config || echo pkg-config
    pkg-config --exists openssl 2>/dev/null || echo libssl-dev
}

# Debian packages that the tests need on top of those.
missing_for_tests() {
    python3 -c 'import venv, ensurepip' >/dev/null 2>&1 || echo python3-venv
    has ip || echo iproute2
    has redis-server || echo redis-server
    # Brokers of collectives, and the programs of MCollective.
    [ -x /usr/sbin/nats-server ] || has nats-server || echo nats-server
    [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || echo rabbitmq-server
    [ -x /usr/sbin/mcollectived ] || echo mcollective
    has mco || echo mcollective-client
    has ruby || echo ruby
    # A broker for ARENA, and what C programs for WASM are built with.
    [ -x /usr/sbin/mosquitto ] || has mosquitto || echo mosquitto
    has clang || echo clang
    has wasm-ld || echo lld
    [ -e /usr/include/wasm32-wasi ] || echo wasi-libc
    ls /usr/lib/llvm-*/lib/clang/*/lib/wasi/libclang_rt.builtins-wasm32.a >/dev/null 2>&1 ||
        ls /usr/lib/clang/*/lib/wasi/libclang_rt.builtins-wasm32.a >/dev/null 2>&1 ||
        echo libclang-rt-dev-wasm32
    has setpriv || echo util-linux
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || has initdb || echo postgresql
    # External authentication: an LDAP server of the tests' own, and PAM.
    [ -x /usr/sbin/slapd ] || printf '%s\n' slapd ldap-utils
    [ -e /etc/pam.d ] || printf '%s\n' libpam0g libpam-modules
    has useradd || echo passwd
    has pgrep || echo procps
    # What functions of the minion run.
    has dig || echo bind9-dnsutils
    has chattr || echo e2fsprogs
    has cpio || echo cpio
    has createrepo_c || echo createrepo-c
    has dnf || echo dnf
    [ -e /usr/libexec/dnf-utils-3 ] || echo dnf-plugins-core
    has ethtool || echo ethtool
    has hdparm || echo hdparm
    has ping || echo iputils-ping
    has lsmod || echo kmod
    has lsof || echo lsof
    has netstat || echo net-tools
    has parted || echo parted
    has patch || echo patch
    has rpmbuild || echo rpm
    has smartctl || echo smartmontools
    has iostat || echo sysstat
    has traceroute || echo traceroute
    has mkfs.xfs || echo xfsprogs
    has crontab || echo cron
    has ssh-keygen || echo openssh-client
    has systemctl || echo systemd
    # Secrets and repositories of pillars.
    has gpg || echo gnupg
    has git || echo git
}

# Installs Debian packages, or says what to install.
install_packages() {
    [ $# -gt 0 ] || return 0
    if ! has apt-get; then
        die "this system lacks what Debian calls: $*; please install it and call me again"
    fi
    if [ "$(id -u)" != 0 ]; then
        die "this system lacks: $*; as root, run: apt-get install -y $*"
    fi
    say "installing $*"
    # Where nothing looks after services, none that came with a package is to stay behind.
    local policy=/usr/sbin/policy-rc.d made=0
    if [ -d /run/systemd/system ]; then
        say "those of them that are services are started by their packages; systemctl disable --now ends them"
    elif [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && made=1
    fi
    # An index that is out of date names files that are gone, so it is fetched first.
    DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null || say "the package index could not be fetched; trying with the old one"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    local status=$?
    [ $made = 0 ] || rm -f $policy
    [ $status = 0 ] || die "apt-get could not install: $*"
}

# Cargo, also where a login shell has not put it on the path.
find_cargo() {
    has cargo || PATH="$HOME/.cargo/bin:$PATH"
    has cargo || die "there is no cargo; get Rust from https://rustup.rs and call me again"
}
