//! Listening sockets of the ports for minions.

use crate::sockets::{KeepAlive, cannot_bind, tcp_url};
use nix::errno::Errno;
use nix::sys::socket::{
    self, AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};

/// Binds `port` on `interface`: an address, `*`, or the name of an interface, as in ZeroMQ. Accepted
/// connections inherit the options set on the socket.
///
/// # Errors
/// The address cannot be bound: which and why.
pub(super) fn bind(
    interface: &str,
    port: u16,
    ipv6: bool,
    backlog: i32,
    keepalive: KeepAlive,
) -> io::Result<TcpListener> {
    let refused = |e: Errno| cannot_bind(&tcp_url(interface, port), zmq::Error::from_raw(e as i32));
    let address = address(interface, ipv6).ok_or_else(|| refused(Errno::ENODEV))?;
    open(SocketAddr::new(address, port), backlog, keepalive).map_err(refused)
}

fn open(at: SocketAddr, backlog: i32, keepalive: KeepAlive) -> nix::Result<TcpListener> {
    let family = match at {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd: OwnedFd = socket::socket(family, SockType::Stream, flags, None)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    if at.is_ipv6() {
        setsockopt(&fd, sockopt::Ipv6V6Only, &false)?;
    }
    setsockopt(&fd, sockopt::TcpNoDelay, &true)?;
    keepalive.apply_to(&fd)?;
    socket::bind(fd.as_raw_fd(), &SockaddrStorage::from(at))?;
    socket::listen(&fd, Backlog::new(backlog).unwrap_or(Backlog::MAXALLOWABLE))?;
    Ok(TcpListener::from(fd))
}

fn address(interface: &str, ipv6: bool) -> Option<IpAddr> {
    if interface == "*" {
        return Some(match ipv6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        });
    }
    let bare = interface
        .strip_prefix('[')
        .and_then(|i| i.strip_suffix(']'));
    bare.unwrap_or(interface)
        .parse()
        .ok()
        .or_else(|| of_device(interface, ipv6))
}

/// The address of an interface of this host.
fn of_device(name: &str, ipv6: bool) -> Option<IpAddr> {
    let mut found = nix::ifaddrs::getifaddrs()
        .ok()?
        .filter(|i| i.interface_name == name)
        .filter_map(|i| i.address)
        .collect::<Vec<_>>();
    found.sort_by_key(|a| (a.as_sockaddr_in6().is_some()) != ipv6);
    found.iter().find_map(|a| {
        let v4 = a.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        v4.or_else(|| a.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stars_and_devices_can_be_bound() {
        let bound = |interface, ipv6| {
            bind(interface, 0, ipv6, 10, KeepAlive::REQUEST_SERVER).map(|l| l.local_addr().unwrap())
        };
        for (interface, address) in [
            ("127.0.0.1", "127.0.0.1"),
            ("*", "0.0.0.0"),
            ("lo", "127.0.0.1"),
        ] {
            let expected: IpAddr = address.parse().unwrap();
            assert_eq!(
                bound(interface, false).unwrap().ip(),
                expected,
                "{interface}"
            );
        }
        assert_eq!(address("[::1]", true), Some(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(address("*", true), Some(Ipv6Addr::UNSPECIFIED.into()));
        let why = bound("no-such-device", false).unwrap_err().to_string();
        assert!(why.contains("check the option `interface`"), "{why}");
        let taken = bound("127.0.0.1", false).unwrap();
        let held = bind("127.0.0.1", 0, false, 1_000_000, KeepAlive::REQUEST_SERVER).unwrap();
        let port = held.local_addr().unwrap().port();
        assert_ne!(taken.port(), port);
        let why = bind("127.0.0.1", port, false, 10, KeepAlive::REQUEST_SERVER).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::AddrInUse);
        assert!(why.to_string().contains("another process uses it"), "{why}");
    }
}
