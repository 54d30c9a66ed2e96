//! Sources of managed files (`file.get_managed`), and templates.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::diff::IgnoredChanges;
use super::os::{self, TempFile};
use super::paths;
use super::source::{self, REMOTE_PROTOS, Signature, VALID_PROTOS, urlparse};
use super::{sums, text};
use crate::execution::templates;
use crate::files::{FileHash, url};
use crate::render;
use halite_wire::map;
use halite_wire::{Map, Value};

/// Arguments of `file.get_managed`.
#[derive(Clone, Debug, Default)]
pub struct GetManagedArgs {
    /// The managed file.
    pub name: String,
    /// Template engine; nil for none.
    pub template: Value,
    /// Where the content comes from.
    pub source: Value,
    /// The hash, or a file of hashes.
    pub source_hash: Value,
    /// The name to look for in a file of hashes.
    pub source_hash_name: Value,
    /// Owner, for templates.
    pub user: Value,
    /// Group, for templates.
    pub group: Value,
    /// Mode, for templates.
    pub mode: Value,
    /// Attributes, for templates.
    pub attrs: Value,
    /// The environment.
    pub saltenv: String,
    /// Variables of the template.
    pub context: Value,
    /// Template variables of lower priority.
    pub defaults: Value,
    /// Do not require a hash.
    pub skip_verify: bool,
    /// Verify certificates of web sources.
    pub verify_ssl: Value,
    /// Let the web server decide by `ETag` whether a file is new.
    pub use_etag: bool,
    /// Required signatures of the file of hashes.
    pub signature: Signature,
    /// Changes to ignore.
    pub ignore: IgnoredChanges,
    /// More template variables.
    pub kwargs: Map,
}

impl GetManagedArgs {
    /// From the arguments of a call.
    pub fn from_call(call: &Call<'_>) -> GetManagedArgs {
        let arg = |name: &str| call.arg(name).clone();
        let text = |name: &str| call.text(name).unwrap_or_default();
        // `check_managed` passes these as keywords.
        let more = |name: &str| match call.bound.kwargs.get(name) {
            Some(value) => value.clone(),
            None => arg(name),
        };
        let mut signature = Signature::from_call(call, "source_hash_sig");
        signature.signature = more("source_hash_sig");
        signature.signed_by_any = more("signed_by_any");
        signature.signed_by_all = more("signed_by_all");
        signature.keyring = more("keyring");
        signature.gnupghome = more("gnupghome");
        signature.backend = match more("sig_backend") {
            Value::Nil => "gpg".to_owned(),
            other => python::str(&other),
        };
        GetManagedArgs {
            name: text("name"),
            template: arg("template"),
            source: arg("source"),
            source_hash: arg("source_hash"),
            source_hash_name: arg("source_hash_name"),
            user: arg("user"),
            group: arg("group"),
            mode: arg("mode"),
            attrs: arg("attrs"),
            saltenv: text("saltenv"),
            context: arg("context"),
            defaults: arg("defaults"),
            skip_verify: call.flag("skip_verify"),
            verify_ssl: match more("verify_ssl") {
                Value::Nil => true.into(),
                other => other,
            },
            use_etag: more("use_etag").truthy(),
            signature,
            ignore: IgnoredChanges::from_call(call),
            kwargs: call.bound.kwargs.clone(),
        }
    }
}

/// Content: its local path, its hash, and the error if any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManagedContent {
    /// A local file; empty if not fetched yet.
    pub sfn: String,
    /// The content, if it was rendered and is in no file ([`get_managed_text`]).
    pub text: Option<String>,
    /// The hash of the content.
    pub sum: Option<FileHash>,
    /// The error message; empty if none.
    pub comment: String,
}

fn failed(sfn: &str, comment: String) -> Result<ManagedContent> {
    Ok(ManagedContent {
        sfn: sfn.to_owned(),
        text: None,
        sum: None,
        comment,
    })
}

/// Gets the content of a managed file and renders it.
///
/// # Errors
/// Rendering fails, or the source is the file itself.
pub fn get_managed(call: &mut Call<'_>, g: &GetManagedArgs) -> Result<ManagedContent> {
    let mut out = get_managed_text(call, g)?;
    if let Some(text) = out.text.take() {
        out.sfn = TempFile::with(text.as_bytes())?.persist();
    }
    Ok(out)
}

/// Like [`get_managed`], but rendered content stays in memory: most files have it already.
///
/// # Errors
/// Those of [`get_managed`].
pub fn get_managed_text(call: &mut Call<'_>, g: &GetManagedArgs) -> Result<ManagedContent> {
    let mut out = ManagedContent::default();
    if !g.source.truthy() {
        return Ok(out);
    }
    let url = python::str(&g.source);
    let parsed = urlparse(&url);
    let scheme = if VALID_PROTOS.contains(&parsed.scheme.as_str()) {
        parsed.scheme.as_str()
    } else {
        ""
    };
    if matches!(scheme, "" | "file") {
        out.sfn = match scheme {
            "" => url.clone(),
            _ => parsed.host_and_path(),
        };
        if !paths::exists(&out.sfn) {
            return failed("", format!("Local file source {} does not exist", out.sfn));
        }
    }
    match find_sum(call, g, &url, scheme, &out.sfn)? {
        Ok(sum) => out.sum = sum,
        Err(comment) => return failed("", comment),
    }
    if !(g.template.truthy() || REMOTE_PROTOS.contains(&scheme)) {
        return Ok(out);
    }
    if let Err(comment) = fetch(call, g, &url, &mut out)? {
        return failed("", comment);
    }
    if out.sfn.is_empty() || !paths::exists(&out.sfn) {
        let shown = source::redacted(&url);
        return failed(&out.sfn, format!("Source file '{shown}' not found"));
    }
    if out.sfn == g.name {
        return os::invocation("Source file cannot be the same as destination");
    }
    if g.template.truthy() {
        return rendered(call, g, out);
    }
    Ok(out)
}

/// The actual or expected hash of the content.
fn find_sum(
    call: &mut Call<'_>,
    g: &GetManagedArgs,
    url: &str,
    scheme: &str,
    here: &str,
) -> Result<Result<Option<FileHash>, String>> {
    if scheme == "salt" {
        return Ok(match sums::hash_file(call, url, &g.saltenv)? {
            Some(sum) => Ok(Some(sum)),
            None => Err(format!(
                "Source file {url} not found in saltenv '{}'",
                g.saltenv
            )),
        });
    }
    if !g.source_hash.truthy() && matches!(scheme, "" | "file") {
        return Ok(Ok(Some(FileHash::new(
            sums::get_hash(here, "sha256")?,
            "sha256",
        ))));
    }
    if g.skip_verify {
        return Ok(Ok(None));
    }
    if g.source_hash.truthy() {
        let want = sums::SourceHash {
            file_name: g.name.clone(),
            source: url.to_owned(),
            hash: g.source_hash.clone(),
            hash_name: g.source_hash_name.clone(),
            saltenv: g.saltenv.clone(),
            verify_ssl: g.verify_ssl.clone(),
            signature: g.signature.clone(),
        };
        return match sums::get_source_sum(call, &want) {
            Ok(sum) => Ok(Ok(Some(sum))),
            Err(CallError::Command(text)) => Ok(Err(format!("Unable to manage file: {text}"))),
            Err(e) => Err(e),
        };
    }
    Ok(if g.use_etag {
        Ok(None)
    } else {
        Err(format!(
            "Unable to verify upstream hash of source file {}, please set source_hash or set skip_verify to \
             True",
            source::redacted(url)
        ))
    })
}

/// Fetches the content unless a cached copy is valid.
fn fetch(
    call: &mut Call<'_>,
    g: &GetManagedArgs,
    url: &str,
    out: &mut ManagedContent,
) -> Result<Result<(), String>> {
    let mut again = false;
    let reuse = g.source_hash.truthy() || g.skip_verify || g.use_etag;
    if reuse && let Some(cached) = source::is_cached(call, url, &g.saltenv)? {
        let kind = out.sum.as_ref().map_or("sha256", |s| &s.hash_type);
        let there = sums::get_hash(&cached, kind)?;
        if g.skip_verify {
            out.sum = Some(FileHash::new(there, kind));
            out.sfn = cached;
        } else if g.use_etag || out.sum.as_ref().is_none_or(|s| s.hsum != there) {
            again = true;
        } else {
            out.sfn = cached;
        }
    }
    if out.sfn.is_empty() || again {
        let with = map! {
            "source_hash" => out.sum.as_ref().map(|s| s.hsum.clone()),
            "verify_ssl" => g.verify_ssl.clone(), "use_etag" => g.use_etag,
        };
        let found = match &out.sum {
            Some(sum) if url.starts_with(url::SCHEME) => {
                source::cache_known(call, url, &g.saltenv, sum)
            }
            _ => source::cache_file(call, url, &g.saltenv, with),
        };
        match found {
            Ok(found) => out.sfn = found.unwrap_or_default(),
            Err(e) => {
                let shown = source::redacted(url);
                return Ok(Err(format!("Failed to cache {shown}: {e}")));
            }
        }
    }
    Ok(Ok(()))
}

/// `defaults` overridden by `context`.
fn variables(context: &Value, defaults: &Value) -> Map {
    let mut all = defaults.as_map().cloned().unwrap_or_default();
    for (key, value) in context.as_map().into_iter().flat_map(Map::iter) {
        all.set(python::str(key), value.clone());
    }
    all
}

fn rendered(
    call: &mut Call<'_>,
    g: &GetManagedArgs,
    mut out: ManagedContent,
) -> Result<ManagedContent> {
    let template = python::str(&g.template);
    if !render::is_template(&template) {
        return failed(
            &out.sfn,
            format!("Specified template format {template} is not supported"),
        );
    }
    let data = os::read(&out.sfn)?;
    let Ok(text) = String::from_utf8(data) else {
        if text::is_binary_file(&out.sfn) {
            // Stock uses non-text as it is.
            out.sum = Some(FileHash::new(sums::get_hash(&out.sfn, "sha256")?, "sha256"));
            return Ok(out);
        }
        return os::read_text(&out.sfn).map(|_| out);
    };
    let mut given = map! {
        "name" => g.name.as_str(), "source" => g.source.clone(), "user" => g.user.clone(),
        "group" => g.group.clone(), "mode" => g.mode.clone(), "attrs" => g.attrs.clone(),
    };
    for (key, value) in g.kwargs.iter() {
        given.set(python::str(key), value.clone());
    }
    for (key, value) in variables(&g.context, &g.defaults).iter() {
        given.set(python::str(key), value.clone());
    }
    let request = render::Template {
        format: &template,
        text: &text,
        saltenv: &g.saltenv,
        variables: &given,
    };
    match templates::template(call.ctx, &request)? {
        Ok(text) => {
            source::clean_tmp(call, &out.sfn);
            out.sum = Some(FileHash::of_text(&text));
            out.sfn.clear();
            out.text = Some(text);
            Ok(out)
        }
        Err(text) => {
            source::clean_tmp(call, &out.sfn);
            failed(&out.sfn, text)
        }
    }
}

pub fn get_managed_function(call: &mut Call<'_>) -> Result {
    let request = GetManagedArgs::from_call(call);
    let found = get_managed(call, &request)?;
    let sum = found.sum.map_or_else(Map::new, |s| s.map());
    Ok(Value::Array(vec![
        found.sfn.into(),
        sum.into(),
        found.comment.into(),
    ]))
}

pub fn apply_template_on_contents(call: &mut Call<'_>) -> Result {
    let template = call.text("template").unwrap_or_default();
    if !render::is_template(&template) {
        return Ok(map! {
            "result" => false,
            "comment" => format!("Specified template format {template} is not supported"),
        }
        .into());
    }
    let contents = python::str(call.arg("contents"));
    let saltenv = call.text("saltenv").unwrap_or_default();
    let request = render::Template {
        format: &template,
        text: &contents,
        saltenv: &saltenv,
        variables: &variables(call.arg("context"), call.arg("defaults")),
    };
    let (Ok(text) | Err(text)) = templates::template(call.ctx, &request)?;
    Ok(text.into())
}
