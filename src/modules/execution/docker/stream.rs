//! The outputs of containers and commands in one stream of the engine.

/// What a stream of the engine holds: everything, standard output, standard error.
pub fn parted(stream: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let (mut all, mut out, mut err) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = stream;
    while let Some((head, after)) = rest.split_first_chunk::<8>() {
        let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (part, next) = after.split_at(length.min(after.len()));
        all.extend_from_slice(part);
        match head[0] {
            2 => err.extend_from_slice(part),
            _ => out.extend_from_slice(part),
        }
        rest = next;
    }
    (all, out, err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams() {
        let stream = b"\x01\0\0\0\0\0\0\x02ab\x02\0\0\0\0\0\0\x01c\x01\0\0\0\xff\xff\xff\xffd";
        let (all, out, err) = parted(stream);
        assert_eq!(
            (&all[..], &out[..], &err[..]),
            (&b"abcd"[..], &b"abd"[..], &b"c"[..])
        );
    }
}
