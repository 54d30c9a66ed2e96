//! `crypt` from the system's library, loaded when first used: all hash methods of `/etc/shadow` that the host
//! supports.

use libloading::{Library, Symbol};
use nix::libc::c_char;
use std::ffi::{CStr, CString};

/// Names of the library, the common one first.
const LIBRARIES: [&str; 2] = ["libcrypt.so.1", "libcrypt.so.2"];
/// Size of `struct crypt_data` in bytes: 32 KiB in libxcrypt, a little over 128 KiB in old glibc.
const DATA: usize = 256 << 10;

type Crypt = unsafe extern "C" fn(*const c_char, *const c_char, *mut u64) -> *const c_char;

/// Hashes a password with `crypt_r`; `None` if that fails. The setting is a method with a salt, such as
/// `$6$salt`.
///
/// # Errors
/// The library cannot be loaded, or an argument contains NUL.
#[allow(unsafe_code)]
pub fn crypt(password: &str, setting: &str) -> Result<Option<String>, String> {
    let c = |text: &str| CString::new(text).map_err(|_| "embedded null character".to_owned());
    let (password, setting) = (c(password)?, c(setting)?);
    let library = load()?;
    // SAFETY: this is the type of `crypt_r` in `crypt.h`.
    let run: Symbol<Crypt> =
        unsafe { library.get(b"crypt_r") }.map_err(|e| format!("libcrypt has no crypt_r: {e}"))?;
    let mut data = vec![0u64; DATA / 8];
    // SAFETY: both texts end in NUL; `data` is zeroed as `crypt.h` demands, larger than any
    // `struct crypt_data`, aligned for it, and outlives the result, which may lie in it.
    let hash = unsafe {
        let hash = run(password.as_ptr(), setting.as_ptr(), data.as_mut_ptr());
        (!hash.is_null()).then(|| CStr::from_ptr(hash).to_string_lossy().into_owned())
    };
    Ok(hash)
}

#[allow(unsafe_code)]
fn load() -> Result<Library, String> {
    // SAFETY: libcrypt runs no code of its own when it is loaded; its names are constants.
    let mut found = LIBRARIES.iter().map(|name| unsafe { Library::new(*name) });
    found
        .find_map(Result::ok)
        .ok_or_else(|| "the library libcrypt cannot be loaded; install libcrypt1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes() {
        let hash = crypt("x", "$1$saltsalt").unwrap().unwrap();
        assert_eq!(hash, "$1$saltsalt$4px9i58NU2Z2/vZOUlGjq.");
        assert!(crypt("x\0", "ab").is_err());
    }
}
