//! Images: what there are, their tags, and removing them.

use super::super::{Call, python};
use super::containers::{self, as_map, filter_text, keywords, maps, named, segment};
use super::engine::{Engine, query};
use crate::execution::declare::Result;
use halite_wire::{Map, Value, map};

/// What the engine tells about an image; nothing if there is none.
///
/// # Errors
/// The engine has another reason.
pub fn find(engine: &Engine, name: &str) -> Result<Option<Map>> {
    match engine.get(&format!("/images/{}/json", segment(name)?))? {
        Ok(info) => Ok(Some(as_map(info))),
        Err(refusal) if refusal.status == 404 => Ok(None),
        Err(refusal) => Err(refusal.into()),
    }
}

/// The id of an image.
///
/// # Errors
/// As [`find`].
pub fn id(engine: &Engine, name: &str) -> Result<Option<String>> {
    Ok(find(engine, name)?.and_then(|info| info.str("Id").map(str::to_owned)))
}

/// The tags of an image.
///
/// # Errors
/// As [`find`].
pub fn tags(engine: &Engine, name: &str) -> Result<Vec<String>> {
    let info = find(engine, name)?.unwrap_or_default();
    Ok(info
        .get("RepoTags")
        .map(Value::str_list)
        .unwrap_or_default())
}

/// The images, as the engine lists them.
///
/// # Errors
/// The engine does not answer.
pub fn list(engine: &Engine, filters: Option<&Value>) -> Result<Vec<Map>> {
    let mut parts = vec![("all", "1".to_owned())];
    if let Some(filters) = filters.filter(|f| f.truthy()) {
        parts.push(("filters", filter_text(filters)?));
    }
    Ok(maps(
        engine.get(&format!("/images/json?{}", query(&parts)))??,
    ))
}

/// The ids of the images that no other one is made from.
///
/// # Errors
/// The engine does not answer.
pub fn top_level(engine: &Engine) -> Result<Vec<String>> {
    let all = list(engine, None)?;
    let parents: Vec<&str> = all.iter().filter_map(|one| one.str("ParentId")).collect();
    let ids = all.iter().filter_map(|one| one.str("Id"));
    Ok(ids
        .filter(|id| !parents.contains(id))
        .map(str::to_owned)
        .collect())
}

/// What depends on an image: containers and images.
pub struct Dependents {
    /// Containers.
    pub containers: Vec<String>,
    /// Images, by the start of their ids.
    pub images: Vec<String>,
}

/// What depends on an image.
///
/// # Errors
/// There is none.
pub fn dependents(engine: &Engine, name: &str) -> Result<Dependents> {
    let info = as_map(engine.get(&format!("/images/{}/json", segment(name)?))??);
    let id = info.str("Id").unwrap_or_default();
    let all = containers::list(engine, None)?;
    let using = all.iter().filter(|one| one.str("ImageID") == Some(id));
    let made = list(engine, None)?;
    let made = made.iter().filter(|one| one.str("ParentId") == Some(id));
    let short = |one: &Map| one.str("Id").unwrap_or_default().chars().take(12).collect();
    let mut found = Dependents {
        containers: using.flat_map(containers::names).collect(),
        images: made.map(short).collect(),
    };
    found.containers.sort();
    Ok(found)
}

/// Removes images and tells what became of them.
///
/// # Errors
/// The engine does not answer, or there is no such image.
pub fn remove(engine: &Engine, names: &[String], force: bool, prune: bool) -> Result<Map> {
    let (mut layers, mut tags, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        let query = query(&[
            ("force", force.to_string()),
            ("noprune", (!prune).to_string()),
        ]);
        let info = find(engine, name)?.unwrap_or_default();
        let wanted = info.str("Id").map(str::to_owned);
        let tags_of = info
            .get("RepoTags")
            .map(Value::str_list)
            .unwrap_or_default();
        // By its id, an image goes with all of its names.
        let target = match (&wanted, tags_of.len()) {
            (Some(id), 0 | 1) => id,
            _ => name,
        };
        match engine.delete(&format!("/images/{}?{query}", segment(target)?))? {
            Ok(gone) => {
                for one in maps(gone) {
                    if let Some(tag) = one.get("Untagged") {
                        tags.push(tag.clone());
                    }
                    if let Some(layer) = one.get("Deleted") {
                        layers.push(layer.clone());
                    }
                }
            }
            Err(refusal) if refusal.status == 404 && wanted.is_none() => return Err(refusal.into()),
            Err(refusal) => {
                errors.push(Value::from(refusal.message));
                let using = dependents(engine, name)?;
                if !using.containers.is_empty() || !using.images.is_empty() {
                    let mut what = Vec::new();
                    if !using.containers.is_empty() {
                        what.push(format!("container(s): {}", using.containers.join(", ")));
                    }
                    if !using.images.is_empty() {
                        what.push(format!("image(s): {}", using.images.join(", ")));
                    }
                    errors.push(format!("Image is in use by {}", what.join(" and ")).into());
                }
            }
        }
    }
    let code = i64::from(!errors.is_empty());
    let mut ret = map! {"Layers" => layers, "Tags" => tags, "retcode" => code};
    if !errors.is_empty() {
        ret.set("Errors", errors);
    }
    Ok(ret)
}

/// Gives an image another name.
///
/// # Errors
/// There is none, or the name cannot be one.
pub fn tag_as(engine: &Engine, name: &str, repository: &str, tag: &str, force: bool) -> Result<()> {
    let found = id(engine, name)?;
    let Some(id) = found else {
        engine.get(&format!("/images/{}/json", segment(name)?))??;
        return Ok(());
    };
    let query = query(&[
        ("repo", repository.to_owned()),
        ("tag", tag.to_owned()),
        ("force", i64::from(force).to_string()),
    ]);
    engine.post(&format!("/images/{}/tag?{query}", segment(&id)?), None)??;
    Ok(())
}

pub(super) fn inspect_image(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let info = as_map(engine.get(&format!("/images/{}/json", segment(&named(call))?))??);
    Ok(super::human::human(info, &[]).into())
}

pub(super) fn images(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let options = keywords(call);
    let everything = options.get("all").is_some_and(Value::truthy);
    let verbose = call.flag("verbose");
    let mut found = Map::new();
    for one in list(&engine, None)? {
        let tags = one.get("RepoTags").map(Value::str_list).unwrap_or_default();
        let unnamed = tags.is_empty() || tags.iter().any(|t| t == "<none>:<none>");
        if unnamed && !everything {
            continue;
        }
        let id = one.str("Id").unwrap_or_default().to_owned();
        let mut shown = super::human::human(one, &["Id"]);
        if verbose {
            let info = find(&engine, &id)?.unwrap_or_default();
            shown.set("Info", super::human::human(info, &[]));
        }
        found.set(id, shown);
    }
    Ok(found.into())
}

pub(super) fn list_tags(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let mut found: Vec<String> = list(&engine, None)?
        .iter()
        .flat_map(|one| one.get("RepoTags").map(Value::str_list).unwrap_or_default())
        .filter(|tag| tag != "<none>:<none>")
        .collect();
    found.sort();
    found.dedup();
    Ok(found
        .into_iter()
        .map(Value::from)
        .collect::<Vec<_>>()
        .into())
}

pub(super) fn resolve_image_id(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    Ok(match id(&engine, &named(call))? {
        Some(id) => id.into(),
        None => false.into(),
    })
}

pub(super) fn resolve_tag(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let mut found = tags(&engine, &named(call))?;
    found.sort();
    if keywords(call).get("all").is_some_and(Value::truthy) {
        return Ok(found
            .into_iter()
            .map(Value::from)
            .collect::<Vec<_>>()
            .into());
    }
    Ok(match found.into_iter().next() {
        Some(tag) => tag.into(),
        None => false.into(),
    })
}

pub(super) fn rmi(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let options = keywords(call);
    let is = |name: &str, default: bool| options.get(name).map_or(default, Value::truthy);
    let names: Vec<String> = call.bound.varargs.iter().map(python::str).collect();
    let ret = remove(&engine, &names, is("force", false), is("prune", true))?;
    Ok(ret.into())
}

pub(super) fn tag(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let text = |name: &str| call.text(name).unwrap_or_default();
    tag_as(
        &engine,
        &named(call),
        &text("repository"),
        &text("tag"),
        call.flag("force"),
    )?;
    Ok(true.into())
}

fn layers_of(engine: &Engine, name: &str) -> Result<Vec<Map>> {
    let mut all = maps(engine.get(&format!("/images/{}/history", segment(name)?))??);
    // The engine tells the newest one first.
    all.reverse();
    Ok(all)
}

pub(super) fn history(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let quiet = call.flag("quiet");
    let mut found = Vec::new();
    for layer in layers_of(&engine, &named(call))? {
        let mut layer = layer;
        let command = layer.remove("CreatedBy").unwrap_or_default();
        let command = python::str(&command);
        let command = command.strip_prefix("/bin/sh -c ").unwrap_or(&command);
        let command = command.strip_prefix("#(nop) ").unwrap_or(command);
        layer.set("Command", command);
        found.push(match quiet {
            true => Value::from(command),
            false => super::human::human(layer, &[]).into(),
        });
    }
    Ok(found.into())
}

pub(super) fn layers(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let name = named(call);
    let all = layers_of(&engine, &name)?;
    let short = |one: &Map| {
        let id = one.str("Id").unwrap_or_default();
        let id = id.rsplit(':').next().unwrap_or_default();
        Value::from(id.chars().take(12).collect::<String>())
    };
    Ok(all.iter().map(short).collect::<Vec<_>>().into())
}

pub(super) fn depends(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let found = dependents(&engine, &named(call))?;
    let list = |texts: Vec<String>| texts.into_iter().map(Value::from).collect::<Vec<_>>();
    Ok(map! {"Containers" => list(found.containers), "Images" => list(found.images)}.into())
}

pub(super) fn dangling(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let filters = Value::from(map! {"dangling" => true});
    let ids: Vec<String> = list(&engine, Some(&filters))?
        .iter()
        .filter_map(|one| one.str("Id").map(str::to_owned))
        .collect();
    if !call.flag("prune") {
        return Ok(ids.into_iter().map(Value::from).collect::<Vec<_>>().into());
    }
    let mut found = Map::new();
    for id in ids {
        let ret = remove(&engine, std::slice::from_ref(&id), call.flag("force"), true)?;
        let good = ret.int("retcode") == Some(0);
        let mut one = map! {"Removed" => good};
        if let Some(errors) = ret.get("Errors") {
            one.set("Error", errors.clone());
        }
        found.set(id, one);
    }
    Ok(found.into())
}
