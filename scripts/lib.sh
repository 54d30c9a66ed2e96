# Functions shared by the scripts here. Source it with `.`; do not run it.

# The top of the source tree, and cargo's target directory.
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$top/target}

say() { printf '%s\n' "$*"; }
die() {
    printf 'ERROR: %s\n' "$*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# Debian packages that the build needs and this system lacks.
missing_for_build() {
    has cc || echo gcc
    has c++ || echo g++
    has make || echo make
    has pkg-config || echo pkg-config
    pkg-config --exists openssl 2>/dev/null || echo libssl-dev
}

# Debian packages that tests need in addition, for the needs of groups in tests/groups.
missing_for_tests() {
    local need
    for need in "$@"; do
        case $need in
        salt | salt3008)
            python3 -c 'import venv, ensurepip' >/dev/null 2>&1 || echo python3-venv
            has ip || echo iproute2
            has git || echo git
            ;;
        databases)
            has redis-server || echo redis-server
            ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || has initdb || echo postgresql
            has setpriv || echo util-linux
            ;;
        brokers)
            [ -x /usr/sbin/nats-server ] || has nats-server || echo nats-server
            [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || echo rabbitmq-server
            [ -x /usr/sbin/mosquitto ] || has mosquitto || echo mosquitto
            ;;
        mcollective)
            [ -x /usr/sbin/mcollectived ] || echo mcollective
            has mco || echo mcollective-client
            has ruby || echo ruby
            ;;
        access)
            # External authentication: the tests start their own LDAP server, and use PAM.
            [ -x /usr/sbin/slapd ] || printf '%s\n' slapd ldap-utils
            [ -e /etc/pam.d ] || printf '%s\n' libpam0g libpam-modules
            has useradd || echo passwd
            ;;
        browser)
            has chromium || echo chromium
            has node || echo nodejs
            has npm || echo npm
            ;;
        tools)
            has setpriv || echo util-linux
            has ip || echo iproute2
            has pgrep || echo procps
            # In front of masters.
            [ -x /usr/sbin/haproxy ] || has haproxy || echo haproxy
            # Encrypted and git pillars.
            has gpg || echo gnupg
            has git || echo git
            has ssh-keygen || echo openssh-client
            # Recorded states.
            has augtool || echo augeas-tools
            # Completions are tested in these, and in bash.
            has zsh || echo zsh
            has fish || echo fish
            # Checks alerts, queries and metrics.
            has promtool || echo prometheus
            # Builds C programs for WASM.
            has clang || echo clang
            has wasm-ld || echo lld
            [ -e /usr/include/wasm32-wasi ] || echo wasi-libc
            ls /usr/lib/llvm-*/lib/clang/*/lib/wasi/libclang_rt.builtins-wasm32.a >/dev/null 2>&1 ||
                ls /usr/lib/clang/*/lib/wasi/libclang_rt.builtins-wasm32.a >/dev/null 2>&1 ||
                echo libclang-rt-dev-wasm32
            ;;
        host)
            # Programs that functions of the minion run.
            has dig || echo bind9-dnsutils
            has chattr || echo e2fsprogs
            has cpio || echo cpio
            has ethtool || echo ethtool
            has hdparm || echo hdparm
            has ping || echo iputils-ping
            has lsmod || echo kmod
            has lsof || echo lsof
            has netstat || echo net-tools
            has parted || echo parted
            has patch || echo patch
            has smartctl || echo smartmontools
            has iostat || echo sysstat
            has traceroute || echo traceroute
            has mkfs.xfs || echo xfsprogs
            has crontab || echo cron
            has systemctl || echo systemd
            has createrepo_c || echo createrepo-c
            has dnf || echo dnf
            ;;
        rpms)
            has createrepo_c || echo createrepo-c
            has dnf || echo dnf
            [ -e /usr/libexec/dnf-utils-3 ] || echo dnf-plugins-core
            has rpmbuild || echo rpm
            has cpio || echo cpio
            has gpg || echo gnupg
            ;;
        packages)
            missing_for_debs
            missing_for_rpms
            has strip || echo binutils
            has systemctl || echo systemd
            has dbus-daemon || echo dbus
            has ip || echo iproute2
            has lintian || echo lintian
            has debootstrap || [ -x /usr/sbin/debootstrap ] || echo debootstrap
            has apparmor_parser || [ -x /usr/sbin/apparmor_parser ] || echo apparmor
            ;;
        zypper) ;;
        *) die "tests/groups: unknown need '$need'" ;;
        esac
    done | sort -u
}

# Installs Debian packages, or prints what to install.
install_packages() {
    [ $# -gt 0 ] || return 0
    if ! has apt-get; then
        die "these Debian packages, or their equivalents, are missing: $*; install them and try again"
    fi
    if [ "$(id -u)" != 0 ]; then
        die "these packages are missing; as root, run: apt-get install -y $*"
    fi
    say "installing $*"
    # Without systemd, services that come with packages must not be started: nothing would stop them.
    local policy=/usr/sbin/policy-rc.d made=0
    if [ -d /run/systemd/system ]; then
        say "packages that contain services start them; systemctl disable --now stops them"
    elif [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && made=1
    fi
    # An outdated index names files that no longer exist, so it is updated first.
    DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null || say "the package index could not be updated; trying with the old one"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    local status=$?
    [ $made = 0 ] || rm -f $policy
    [ $status = 0 ] || die "apt-get could not install: $*"
}

# Finds cargo, even if its directory is not on PATH.
find_cargo() {
    has cargo || PATH="$HOME/.cargo/bin:$PATH"
    has cargo || die "there is no cargo; install Rust from https://rustup.rs and try again"
}

# Exports SOURCE_DATE_EPOCH, unless it is set: the time of the last change to the tree, for tools that would otherwise
# use the time of the build.
source_date() {
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || stat -c %Y "$top/CHANGELOG.md")}
    export SOURCE_DATE_EPOCH
}

# Builds the programs for packages into $target/release. They contain no paths of this machine, so the same tree and
# compilers give the same programs on any machine (docs/supply-chain.md).
build_programs() {
    find_cargo
    source_date
    # Sources whose paths are remapped below must be unpacked.
    (cd "$top" && cargo fetch --locked) || die "the crates cannot be fetched"
    local home=${CARGO_HOME:-$HOME/.cargo} dir maps cmaps separator=$'\x1f'
    # ZeroMQ's C++ code has the paths of its files in messages.
    maps="--remap-path-prefix=$top=/halite" cmaps="-ffile-prefix-map=$target=/target"
    for dir in "$home"/registry/src/*/; do
        maps+=$separator--remap-path-prefix=${dir%/}=/crates
        cmaps+=" -ffile-prefix-map=${dir%/}=/crates"
    done
    (
        cd "$top" || exit 1
        export CFLAGS="${CFLAGS:-} $cmaps" CXXFLAGS="${CXXFLAGS:-} $cmaps"
        export CARGO_ENCODED_RUSTFLAGS=${RUSTFLAGS:+${RUSTFLAGS// /$separator}$separator}$maps$(small "$separator")
        cargo build --release --locked $(programs | sed 's/^/--bin=/')
    ) || die "the build failed"
}

# Flags for smaller programs, each preceded by the separator $1, if this system supports them: rustc's own linker on x86_64,
# which merges identical functions, and a C library that reads packed relocations.
small() {
    [ "$(uname -m)" = x86_64 ] || return 0
    printf '%s' "$1-Clink-arg=-Wl,--icf=all"
    local libc
    libc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
    [ "$(printf '%s\n' "${libc#glibc }" 2.36 | sort -V | head -n 1)" != 2.36 ] || printf '%s' "$1-Clink-arg=-Wl,-z,pack-relative-relocs"
}

# program_of COMMAND: the program that this command is a name of (src/bin; src/cli/programs.rs).
program_of() {
    case $1 in
    halite-call) echo halite-minion ;;
    halite-cp | halite-key | halite-migrate | halite-run) echo halite ;;
    *) echo "$1" ;;
    esac
}

# The programs that packages install.
programs() {
    local file name
    for file in "$top"/src/bin/*.rs; do
        name=$(basename "$file" .rs)
        [ "$(program_of "$name")" != "$name" ] || echo "$name"
    done
}

# Packages that are needed to build Debian packages and that this system lacks.
missing_for_debs() {
    has dpkg-buildpackage || echo dpkg-dev
    has dh || echo debhelper
    has dh_apparmor || echo dh-apparmor
}

# The same for RPMs.
missing_for_rpms() {
    has rpmbuild || echo rpm
    has python3 || echo python3
}

# prepare_package MISSING OPTION...: parses the options of scripts/package and prepares the build of packages. MISSING is
# a command that lists what this type of package needs. Sets `binaries` (directory of the programs), `out` (directory for
# the packages), `version`, and `work` (a directory that is removed when the script exits).
prepare_package() {
    local missing=$1 lacking
    shift
    binaries=
    out=$target/package
    version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$top/Cargo.toml")
    while [ $# -gt 0 ]; do
        [ $# -ge 2 ] || die "$1 needs a value; see scripts/package"
        case $1 in
        --binaries) binaries=$2 ;;
        --out) out=$2 ;;
        --version) version=$2 ;;
        *) die "unknown option $1; see scripts/package" ;;
        esac
        shift 2
    done
    # Check these before a build that takes minutes.
    [[ $version =~ ^[0-9][0-9A-Za-z.+~]*$ ]] || die "--version '$version': letters, digits and .+~ with a digit first"
    mkdir -p "$out" || die "--out $out: cannot be made"
    out=$(cd "$out" && pwd)
    mapfile -t lacking < <([ -n "$binaries" ] || missing_for_build; "$missing")
    install_packages "${lacking[@]}"
    if [ -z "$binaries" ]; then
        build_programs
        binaries=$target/release
    fi
    [ -x "$binaries/halite-master" ] || die "there is no halite-master in $binaries"
    binaries=$(cd "$binaries" && pwd)
    work=$(mktemp -d "$out/.build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
}
