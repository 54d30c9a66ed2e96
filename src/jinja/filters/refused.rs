//! Salt's filters that access the disk or network of the rendering host. The environment may offer them.

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Args, Obj};
use super::FilterFn;

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("dns_check", |cx, v, a| refuse(cx, v, a, "dns_check")),
    ("file_hashsum", |cx, v, a| refuse(cx, v, a, "file_hashsum")),
    ("get_uid", |cx, v, a| refuse(cx, v, a, "get_uid")),
    ("http_query", |cx, v, a| refuse(cx, v, a, "http_query")),
    ("is_bin_file", |cx, v, a| refuse(cx, v, a, "is_bin_file")),
    ("is_empty", |cx, v, a| refuse(cx, v, a, "is_empty")),
    ("is_text_file", |cx, v, a| refuse(cx, v, a, "is_text_file")),
    ("list_files", |cx, v, a| refuse(cx, v, a, "list_files")),
    ("which", |cx, v, a| refuse(cx, v, a, "which")),
];

fn refuse(cx: &mut Cx, value: &Obj, args: &Args, name: &str) -> Result<Obj, Error> {
    if let Some(host) = cx.options().host_filters {
        return host(name, value, args);
    }
    Err(Error::new(
        ErrorKind::Function,
        format!("the filter '{name}' is not offered here"),
    ))
}
