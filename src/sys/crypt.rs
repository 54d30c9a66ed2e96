//! Password hashes, by the system's own `crypt(3)`, which is looked for when it is used.

use libloading::{Library, Symbol};
use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, PoisonError};

/// Names of the library on Linux.
const NAMES: [&str; 3] = ["libcrypt.so.1", "libcrypt.so.2", "libcrypt.so"];

/// `crypt` keeps its answer in one place for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// `crypt(password, setting)`; nothing when the setting means nothing to it.
///
/// # Errors
/// There is no library, or a NUL in the arguments.
#[allow(unsafe_code)]
pub fn crypt(password: &str, setting: &str) -> Result<Option<String>, String> {
    let c = |text: &str| CString::new(text).map_err(|_| "embedded null byte".to_owned());
    let (password, setting) = (c(password)?, c(setting)?);
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the library has no code that runs on loading beyond the C library's own.
    let library = NAMES
        .iter()
        .find_map(|name| unsafe { Library::new(*name) }.ok())
        .ok_or("libcrypt is not installed, which makes password hashes")?;
    // SAFETY: this is the type of `crypt` in `crypt.h`; the answer is copied before the lock goes.
    unsafe {
        let crypt: Symbol<unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char> =
            library.get(b"crypt").map_err(|e| e.to_string())?;
        let hash = crypt(password.as_ptr(), setting.as_ptr());
        if hash.is_null() {
            return Ok(None);
        }
        Ok(Some(CStr::from_ptr(hash).to_string_lossy().into_owned()))
    }
}
