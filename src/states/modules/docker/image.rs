//! `docker_image`.

use super::{texts, told, watched, with_engine, words};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::docker::{self, Building, Engine};
use halite_modules::execution::python;
use halite_wire::{Map, Value};

const PRESENT: StateFunction = StateFunction::new(
    "present",
    |s| with_engine(s, |s, engine| present(s, engine).or_else(told)),
    "Ensures that there is an image: pulled, built from a directory or loaded from an archive.",
)
.args(args![
    tag = None,
    build = None,
    load = None,
    force = False,
    insecure_registry = False,
    client_timeout = { 60 },
    dockerfile = None,
    sls = None,
    base = "opensuse/python",
    saltenv = "base",
    pillarenv = None,
    pillar = None
])
.keywords();

pub const MODULE: StateModule = StateModule {
    name: "docker_image",
    functions: &[
        PRESENT,
        StateFunction::new(
            "absent",
            |s| with_engine(s, absent),
            "Ensures that there are no such images.",
        )
        .args(args![images = None, force = False]),
        StateFunction::new(
            "mod_watch",
            |s| watched(s, &[("present", &PRESENT, true)]),
            "Pulls, builds or loads the image again.",
        )
        .args(args![sfun = None])
        .keywords(),
    ],
};

fn present(s: &mut State<'_, '_>, engine: &Engine) -> Result {
    let sources =
        ["build", "load", "sls"].map(|name| s.text(name).filter(|_| !s.arg(name).is_nil()));
    let given = sources.iter().flatten().count();
    if given > 1 {
        return Ok(StateOutcome::bad(
            "Only one of 'build', 'load', or 'sls' is permitted.",
        ));
    }
    let (repository, tag) = (s.name(), s.text("tag"));
    if given == 1 && tag.is_none() {
        return Ok(StateOutcome::bad(
            "The 'tag' argument is required if any one of 'build', 'load', or 'sls' is used.",
        ));
    }
    let image = match &tag {
        Some(tag) => format!("{repository}:{tag}"),
        None => repository.clone(),
    };
    let before = docker::find_image(engine, &image)?;
    if before.is_some() && !s.flag("force") {
        return Ok(StateOutcome::good(format!("Image {image} already present")));
    }
    let [build, load, sls] = sources;
    if s.test {
        let verb = match (&build, &load, &sls) {
            (Some(_), _, _) | (_, _, Some(_)) => "built",
            (_, Some(_), _) => "loaded",
            _ => "pulled",
        };
        return Ok(StateOutcome::would(format!("Image {image} will be {verb}")));
    }
    if sls.is_some() {
        return Ok(StateOutcome::bad(
            "This minion builds no images with sls: use build with a Dockerfile",
        ));
    }
    let done = match (&build, &load) {
        (Some(path), _) => {
            let what = Building {
                path,
                name: Some(image.clone()),
                dockerfile: s.text("dockerfile"),
                args: s
                    .kwargs
                    .get("buildargs")
                    .and_then(Value::as_map)
                    .cloned()
                    .unwrap_or_default(),
                fresh: s.kwargs.get("cache").is_some_and(|v| !v.truthy()),
                keep: s.kwargs.get("rm").is_some_and(|v| !v.truthy()),
            };
            let built = docker::build_image(engine, &what).map(|(ret, _)| ret);
            (
                built,
                format!("Encountered error building {path} as {image}"),
                "built",
            )
        }
        (None, Some(path)) => {
            let name = tag.as_deref().map(|tag| (repository.as_str(), tag));
            let loaded = docker::load_image(s.call, engine, path, name);
            (
                loaded,
                format!("Encountered error loading {path} as {image}"),
                "loaded",
            )
        }
        (None, None) => {
            let silence = docker::timeout(Some(s.arg("client_timeout")))?;
            let pulled = docker::pull_image(s.call, engine, &image, silence);
            (
                pulled,
                format!("Encountered error pulling {image}"),
                "pulled",
            )
        }
    };
    let (done, trouble, verb) = done;
    let changes = match done {
        Ok(changes) => changes,
        Err(fault) => return Ok(StateOutcome::bad(format!("{trouble}: {}", words(fault)?))),
    };
    let after = docker::find_image(engine, &image)?;
    let id = |info: &Option<Map>| info.as_ref().and_then(|i| i.str("Id")).map(str::to_owned);
    let changed = id(&before).is_none() || id(&before) != id(&after);
    outcome(&image, verb, changes, changed, verb == "pulled")
}

/// What is told of an image that was made or fetched.
fn outcome(image: &str, verb: &str, changes: Map, changed: bool, pulled: bool) -> Result {
    if pulled && !changed {
        return Ok(StateOutcome::good(format!(
            "Image '{image}' was {verb}, but there were no changes"
        )));
    }
    Ok(StateOutcome::good(format!("Image '{image}' was {verb}")).changes(changes))
}

fn absent(s: &mut State<'_, '_>, engine: &Engine) -> Result {
    let one = s.arg("images").is_nil();
    let names = match s.arg("images") {
        Value::Nil => vec![s.name()],
        Value::Array(list) => texts(list),
        other => vec![python::str(other)],
    };
    let mut found = Vec::new();
    for name in &names {
        let tags = docker::image_tags(engine, name).unwrap_or_default();
        // Stock names the first tag of the image, and removes it with all of its tags.
        let latest = format!("{name}:latest");
        let own = tags.iter().find(|tag| *tag == name || **tag == latest);
        if let Some(tag) = own.or(tags.first()) {
            found.push(tag.clone());
        }
    }
    if found.is_empty() {
        return Ok(StateOutcome::good(match (one, &names[..]) {
            (true, [name]) => format!("Image {name} is not present"),
            _ => "All specified images are not present".to_owned(),
        }));
    }
    if s.test {
        return Ok(StateOutcome::would(match &found[..] {
            [name] => format!("Image {name} will be removed"),
            all => format!("The following images will be removed: {}", all.join(", ")),
        }));
    }
    let gone = docker::remove_images(engine, &found, s.flag("force"), true)?;
    let errors = gone
        .get("Errors")
        .and_then(Value::as_array)
        .unwrap_or_default();
    let errors = texts(errors).join("; ");
    let mut left = Vec::new();
    for name in &found {
        if docker::find_image(engine, name)?.is_some() {
            left.push(name.clone());
        }
    }
    if !errors.is_empty() && left.len() == found.len() {
        return Ok(StateOutcome::bad(format!(
            "None of the specified images were removed. The following errors were encountered: {errors}"
        )));
    }
    if !errors.is_empty() {
        let removed: Vec<String> = found.into_iter().filter(|n| !left.contains(n)).collect();
        let text = format!(
            "The following image(s) were removed: {}. The following errors were encountered: {errors}",
            removed.join(", ")
        );
        return Ok(StateOutcome::bad(text).changes(gone));
    }
    let text = match &found[..] {
        [name] => format!("Image {name} was removed"),
        all => format!("The following images were removed: {}", all.join(", ")),
    };
    Ok(StateOutcome::good(text).changes(gone))
}
