//! What the kernel knows of connections.

/// Established TCP connections to a local port, counted from `/proc/net/tcp` and `tcp6`.
pub fn established(port: u16) -> usize {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .map(|table| count(&table, port))
        .sum()
}

fn count(table: &str, port: u16) -> usize {
    let wanted = format!(":{port:04X}");
    table
        .lines()
        .skip(1)
        .filter(|line| {
            let mut words = line.split_whitespace().skip(1);
            let local = words.next().unwrap_or_default();
            let state = words.nth(1).unwrap_or_default();
            local.ends_with(&wanted) && state == "01"
        })
        .count()
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_established_local_ends_count() {
        let table = "  sl  local_address rem_address   st\n\
            0: 0100007F:1199 00000000:0000 0A 00000000\n\
            1: 0100007F:1199 0100007F:C350 01 00000000\n\
            2: 0100007F:C350 0100007F:1199 01 00000000\n";
        assert_eq!(super::count(table, 4505), 1);
    }
}
