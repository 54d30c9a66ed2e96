//! Downloading package files, and comparing local ones.

use super::repos::refresh_with;
use super::root_arg;
use super::run::{ZypperOptions, to_args};
use crate::execution::declare::Result;
use crate::execution::pkg::common::{keywords, names, option_is_true};
use crate::execution::pkg::lowpkg;
use crate::execution::{Call, CallError};
use halite_wire::map;
use halite_wire::xml::Element;
use halite_wire::{Map, Value};

pub fn download(call: &mut Call<'_>) -> Result {
    let names = names(call);
    Ok(downloaded(call, &names)?.into())
}

fn downloaded(call: &mut Call<'_>, names: &[String]) -> Result<Map> {
    if names.is_empty() {
        return Err(CallError::Invocation("No packages specified".to_owned()));
    }
    let root = root_arg(call);
    if option_is_true(call, "refresh") {
        let keywords = keywords(call);
        refresh_with(call, root.clone(), keywords)?;
    }
    let mut args = to_args(&["download"]);
    args.extend_from_slice(names);
    let answer = ZypperOptions::new(&root).xml(call, &args)?;
    let mut ret = Map::new();
    for result in answer.all("download-result") {
        let (name, info) = downloaded_file(result)?;
        // Stock also checks rpm's checksum, but accepts any result.
        ret.set(name, info);
        call.retcode = 0.into();
    }
    if ret.is_empty() {
        return Err(CallError::Command(format!(
            "Unable to download packages: {}",
            names.join(", ")
        )));
    }
    let failed = names.iter().filter(|n| ret.get(n).is_none());
    let failed: Vec<&str> = failed.map(String::as_str).collect();
    if !failed.is_empty() {
        let text = format!(
            "The following package(s) failed to download: {}",
            failed.join(", ")
        );
        ret.set("_error", text);
    }
    Ok(ret)
}

fn downloaded_file(result: &Element) -> Result<(String, Map)> {
    let first = |name: &str| {
        let found = result.all(name).into_iter().next();
        found.ok_or_else(|| CallError::raised("IndexError", "list index out of range"))
    };
    let repository = first("repository")?;
    let info = map! {
        "repository-name" => repository.attribute("name"), "repository-alias" => repository.attribute("alias"),
        "path" => first("localfile")?.attribute("path"),
    };
    let name = result.all("name").first().and_then(|n| n.text.clone());
    Ok((name.unwrap_or_default(), info))
}

pub fn diff(call: &mut Call<'_>) -> Result {
    let root = root_arg(call);
    lowpkg::diff(call, &root, |call, packages| {
        let files = downloaded(call, packages)?;
        let path = |info: &Value| info.as_map()?.get("path").cloned();
        let paths = files.iter();
        Ok(paths
            .filter_map(|(name, info)| Some((name.clone(), path(info)?)))
            .collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::xml;

    #[test]
    fn outputs_are_read() {
        let text = "<stream><download-result><solvable><kind>package</kind><name>a</name><arch>noarch</arch>\
                    <edition version=\"2.0\" release=\"1\"/><repository name=\"Repo\" alias=\"r2\"/></solvable>\
                    <localfile path=\"/c/a.rpm\"/></download-result><download-result/></stream>";
        let document = xml::parse(text).unwrap();
        let results = document.all("download-result");
        let info =
            map! {"repository-name" => "Repo", "repository-alias" => "r2", "path" => "/c/a.rpm"};
        assert_eq!(downloaded_file(results[0]), Ok(("a".to_owned(), info)));
        assert!(downloaded_file(results[1]).is_err());
    }
}
