//! PAM, through the system's library, which is loaded when it is used.
//!
//! PAM modules may block, print, and change the process that loads them: call [`check`] in a process that does
//! nothing else.

use libloading::{Library, Symbol};
use nix::libc::{c_char, c_int, c_void, calloc, free, strdup};
use std::ffi::{CStr, CString};

const SUCCESS: c_int = 0;
const CONV_ERR: c_int = 19;
const PROMPT_ECHO_OFF: c_int = 1;
const PROMPT_ECHO_ON: c_int = 2;
const DISALLOW_NULL_AUTHTOK: c_int = 1;
/// `PAM_MAX_NUM_MSG`.
const MOST_MESSAGES: c_int = 32;

#[repr(C)]
struct Message {
    style: c_int,
    text: *const c_char,
}

#[repr(C)]
struct Response {
    text: *mut c_char,
    code: c_int,
}

type Talk = extern "C" fn(c_int, *mut *const Message, *mut *mut Response, *mut c_void) -> c_int;

#[repr(C)]
struct Conversation {
    talk: Talk,
    data: *mut c_void,
}

struct Answers {
    user: CString,
    password: CString,
}

type Start = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const Conversation,
    *mut *mut c_void,
) -> c_int;
type Step = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type Describe = unsafe extern "C" fn(*mut c_void, c_int) -> *const c_char;

/// Checks the user's password with PAM and whether the account may be used (not locked or expired). Both must
/// hold. The error says why not, without the password.
pub fn check(service: &str, user: &str, password: &str) -> Result<(), String> {
    let c = |what: &str, text: &str| CString::new(text).map_err(|_| format!("NUL in the {what}"));
    let service = c("service", service)?;
    let answers = Answers {
        user: c("user name", user)?,
        password: c("password", password)?,
    };
    let library = load()?;
    converse(&library, &service, &answers)
}

#[allow(unsafe_code)]
fn load() -> Result<Library, String> {
    // SAFETY: libpam runs no code when it is loaded; its name is a constant.
    unsafe { Library::new("libpam.so.0") }
        .map_err(|e| format!("the PAM library cannot be loaded ({e}); install libpam0g"))
}

#[allow(unsafe_code)]
fn symbol<'a, T>(library: &'a Library, name: &str) -> Result<Symbol<'a, T>, String> {
    // SAFETY: callers pass the type that `security/pam_appl.h` declares for the function.
    unsafe { library.get(name.as_bytes()) }.map_err(|e| format!("libpam has no {name}: {e}"))
}

#[allow(unsafe_code)]
fn converse(library: &Library, service: &CStr, answers: &Answers) -> Result<(), String> {
    let start: Symbol<Start> = symbol(library, "pam_start")?;
    let authenticate: Symbol<Step> = symbol(library, "pam_authenticate")?;
    let account: Symbol<Step> = symbol(library, "pam_acct_mgmt")?;
    let end: Symbol<Step> = symbol(library, "pam_end")?;
    let describe: Symbol<Describe> = symbol(library, "pam_strerror")?;
    let conversation = Conversation {
        talk: answer,
        data: std::ptr::from_ref(answers).cast_mut().cast(),
    };
    let mut handle = std::ptr::null_mut();
    // SAFETY: strings and conversation outlive the handle, which `pam_end` frees below.
    let begun = unsafe {
        start(
            service.as_ptr(),
            answers.user.as_ptr(),
            &raw const conversation,
            &raw mut handle,
        )
    };
    if begun != SUCCESS {
        return Err(format!("cannot start PAM (error {begun})"));
    }
    // SAFETY: the handle is live until `pam_end`.
    let mut status = unsafe { authenticate(handle, DISALLOW_NULL_AUTHTOK) };
    let mut step = "authentication";
    if status == SUCCESS {
        step = "account";
        // SAFETY: as above.
        status = unsafe { account(handle, DISALLOW_NULL_AUTHTOK) };
    }
    // SAFETY: PAM returns a static string, or null, for any number while the handle is live.
    let why = unsafe {
        let text = describe(handle, status);
        if text.is_null() {
            String::new()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    };
    // SAFETY: the last use of the handle.
    unsafe { end(handle, status) };
    match status {
        SUCCESS => Ok(()),
        _ => Err(format!("{step}: {why}")),
    }
}

/// Answers PAM's prompts: hidden ones with the password, visible ones with the user's name.
#[allow(unsafe_code)]
extern "C" fn answer(
    count: c_int,
    messages: *mut *const Message,
    responses: *mut *mut Response,
    data: *mut c_void,
) -> c_int {
    if !(1..=MOST_MESSAGES).contains(&count) || messages.is_null() || data.is_null() {
        return CONV_ERR;
    }
    let count = count as usize;
    // SAFETY: `data` is the `Answers` that `converse` holds while PAM may call this.
    let answers = unsafe { &*data.cast::<Answers>() };
    // SAFETY: PAM frees the array and its strings with `free`, so they come from `calloc` and `strdup`.
    let array: *mut Response = unsafe { calloc(count, size_of::<Response>()) }.cast();
    if array.is_null() {
        return CONV_ERR;
    }
    for n in 0..count {
        // SAFETY: Linux-PAM passes an array of `count` pointers to messages.
        let style = unsafe {
            let message = *messages.add(n);
            if message.is_null() {
                0
            } else {
                (*message).style
            }
        };
        let text = match style {
            PROMPT_ECHO_OFF => answers.password.as_ptr(),
            PROMPT_ECHO_ON => answers.user.as_ptr(),
            _ => continue,
        };
        // SAFETY: `array` has `count` elements; the string ends with NUL.
        unsafe { (*array.add(n)).text = strdup(text) };
    }
    if responses.is_null() {
        // SAFETY: from `calloc` above; nobody else has it.
        unsafe { free(array.cast()) };
        return CONV_ERR;
    }
    // SAFETY: PAM passes a place for the pointer and takes ownership of the array.
    unsafe { *responses = array };
    SUCCESS
}

/// The groups of a system account by name; empty if there is no such account.
///
/// # Errors
/// The account has another name: services such as SSSD find it in other spellings, which permissions do not name.
pub fn groups(user: &str) -> Result<Vec<String>, String> {
    use nix::unistd::{Group, User, getgrouplist};
    let Ok(Some(account)) = User::from_name(user) else {
        return Ok(Vec::new());
    };
    if account.name != user {
        return Err(format!("the account is called {:?}", account.name));
    }
    let Ok(name) = CString::new(user) else {
        return Ok(Vec::new());
    };
    let ids = getgrouplist(&name, account.gid).unwrap_or_default();
    let mut names: Vec<String> = ids
        .into_iter()
        .filter_map(|id| Group::from_gid(id).ok().flatten())
        .map(|group| group.name)
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_in_with_nonsense() {
        assert!(check("other", "no such user", "x").is_err());
        assert!(check("other", "a\0b", "x").unwrap_err().contains("NUL"));
    }

    #[test]
    fn groups_of_root() {
        assert!(groups("root").unwrap().contains(&"root".to_owned()));
        assert!(groups("no such user").unwrap().is_empty());
    }
}
