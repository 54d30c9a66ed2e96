//! The description of this service for programs, written from the table of [`crate::routes`].

use crate::lowstate::CLIENTS;
use crate::routes::{Access, Endpoint, ROUTES, Route, Takes};
use halite_wire::{Map, Value};

/// The document, OpenAPI 3.1.
pub fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = route.path.replace("*}", "}");
        let mut item = paths
            .get(&path)
            .and_then(Value::as_map)
            .cloned()
            .unwrap_or_default();
        item.set(route.method.to_ascii_lowercase(), operation(route));
        paths.set(path, item);
    }
    halite_wire::map! {
        "openapi" => "3.1.0",
        "info" => halite_wire::map! {
            "title" => "halite-api", "version" => env!("CARGO_PKG_VERSION"),
            "description" => "The REST service of a halite master, compatible with salt-api (rest_cherrypy).",
            "license" => halite_wire::map! {"name" => "Apache-2.0", "identifier" => "Apache-2.0"},
        },
        "paths" => paths,
        "components" => halite_wire::map! {
            "schemas" => halite_wire::map! {
                "Lowstate" => lowstate(&["client", "fun"]), "Job" => lowstate(&["fun"]),
                "KeyRequest" => key_request(), "Login" => login(),
            },
            "securitySchemes" => halite_wire::map! {
                "token" => scheme("header", "X-Auth-Token"), "session" => scheme("cookie", "session_id"),
            },
        },
    }
    .into()
}

fn list(items: impl IntoIterator<Item = Value>) -> Value {
    Value::Array(items.into_iter().collect())
}

fn scheme(place: &str, name: &str) -> Map {
    halite_wire::map! {"type" => "apiKey", "in" => place, "name" => name}
}

fn operation(route: &Route) -> Map {
    let mut map = halite_wire::map! {
        "summary" => route.summary,
        "operationId" => format!("{}{}", route.method.to_ascii_lowercase(), named(route.path)),
    };
    let mut parameters = Vec::new();
    let in_path = route.path.split('/').filter(|one| one.starts_with('{'));
    for name in in_path.map(|one| one.trim_matches(['{', '}', '*'])) {
        parameters.push(parameter(route, "path", name, None));
    }
    for (name, text) in route.query {
        parameters.push(parameter(route, "query", name, Some(text)));
    }
    if !parameters.is_empty() {
        map.set("parameters", Value::Array(parameters));
    }
    if let Some(body) = body(route) {
        map.set("requestBody", body);
    }
    if route.access != Access::Open {
        let by = |name: &str| Value::Map(halite_wire::map! {name => Value::Array(Vec::new())});
        map.set("security", list([by("token"), by("session")]));
    }
    map.set("responses", responses(route));
    map
}

/// `/jobs/{jid}` as a part of a name: `JobsJid`.
fn named(path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric());
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    let name: String = words.map(capital).collect();
    if name.is_empty() { "Root".into() } else { name }
}

fn parameter(route: &Route, place: &str, name: &str, text: Option<&str>) -> Value {
    let schema = match name {
        "limit" => halite_wire::map! {"type" => "integer", "minimum" => 1},
        "timeout" => halite_wire::map! {"type" => "integer", "minimum" => 0},
        "before" => halite_wire::map! {"type" => "string", "pattern" => "^[0-9]{20}$"},
        "jid" if route.endpoint == Endpoint::JobEvents => {
            halite_wire::map! {"type" => "string", "pattern" => "^[0-9]{20}$"}
        }
        // It becomes the tag of an event.
        "tag" if place == "path" => {
            halite_wire::map! {"type" => "string", "pattern" => "^[!-~]+$"}
        }
        _ => halite_wire::map! {"type" => "string"},
    };
    let mut map = halite_wire::map! {
        "name" => name, "in" => place, "required" => place == "path", "schema" => schema,
    };
    if let Some(text) = text {
        map.set("description", text);
    }
    map.into()
}

fn content(schema: Map) -> Map {
    let media = |schema: &Map| halite_wire::map! {"schema" => schema.clone()};
    halite_wire::map! {
        "application/json" => media(&schema), "application/x-yaml" => media(&schema),
    }
}

fn reference(name: &str) -> Map {
    halite_wire::map! {"$ref" => format!("#/components/schemas/{name}")}
}

fn body(route: &Route) -> Option<Map> {
    let (name, required) = match route.takes {
        Takes::Lowstates if route.endpoint == Endpoint::MakeKeys => ("KeyRequest", true),
        Takes::Lowstates if route.endpoint == Endpoint::Publish => ("Job", true),
        Takes::Nothing => return None,
        Takes::Any => {
            let any = halite_wire::map! {"content" => content(Map::new())};
            return Some(any);
        }
        Takes::Lowstates => ("Lowstate", true),
        Takes::Login => ("Login", true),
    };
    let many = halite_wire::map! {"type" => "array", "items" => reference(name)};
    let one_or_many = list([reference(name).into(), many.into()]);
    let mut content = content(halite_wire::map! {"oneOf" => one_or_many});
    let form = halite_wire::map! {"schema" => reference(name)};
    content.set("application/x-www-form-urlencoded", form);
    Some(halite_wire::map! {"required" => required, "content" => content})
}

fn responses(route: &Route) -> Map {
    let described = |text: &str| halite_wire::map! {"description" => text};
    let page = |text: &str| {
        let html = halite_wire::map! {"schema" => halite_wire::map! {"type" => "string"}};
        halite_wire::map! {
            "description" => text, "content" => halite_wire::map! {"text/html" => html},
        }
    };
    let media = match route.endpoint {
        Endpoint::Events | Endpoint::JobEvents => Some("text/event-stream"),
        Endpoint::MakeKeys => Some("application/x-tar"),
        _ => None,
    };
    let mut done = described("Done");
    let whole = |media: &str| halite_wire::map! {media => Map::new()};
    match media {
        Some(media) => done.set("content", whole(media)),
        None if route.endpoint.has_form() => done.set("content", content(Map::new())),
        None => {}
    }
    let status = match route.endpoint {
        Endpoint::Publish => "202",
        Endpoint::WebSocket => "101",
        _ => "200",
    };
    let mut all = halite_wire::map! {status => done};
    if route.method == "GET" && route.endpoint.has_form() {
        all.set("304", described("The client has it (`If-None-Match`)"));
    }
    for (status, text) in [
        ("400", "The request is wrong; the page says why"),
        ("401", "No session, or the master refuses"),
        ("403", "From an address or an origin that may not use it"),
        ("404", "There is nothing"),
        (
            "405",
            "Not with this method; `Allow` has those that it takes",
        ),
        ("406", "Not in a form that the client takes"),
        ("408", "The body did not arrive in time"),
        ("413", "The body is too large"),
        ("429", "Too many requests"),
        ("503", "The master does not answer, or too much is running"),
        ("504", "It takes longer than the timeout"),
    ] {
        all.set(status, page(text));
    }
    let unforeseen = halite_wire::map! {
        "description" => "Input that stock does not foresee; `reason` says what is wrong", "content" => content(Map::new()),
    };
    all.set("500", unforeseen);
    all
}

/// A part of a lowstate that is a text or a list of them.
fn text_or_list(text: &str) -> Map {
    halite_wire::map! {"description" => text, "type" => vec!["string".to_owned(), "array".to_owned()]}
}

fn lowstate(required: &[&str]) -> Map {
    let text = || halite_wire::map! {"type" => "string"};
    let names: Vec<Value> = CLIENTS.iter().map(|(name, _)| (*name).into()).collect();
    let needs_target = |name: &Value| {
        name.as_str()
            .is_some_and(|name| name.starts_with("local") || name == "ssh")
    };
    let with_target: Vec<Value> = names
        .iter()
        .filter(|name| needs_target(name))
        .cloned()
        .collect();
    let client =
        halite_wire::map! {"client" => halite_wire::map! {"enum" => Value::Array(with_target)}};
    halite_wire::map! {
        "if" => halite_wire::map! {"properties" => client, "required" => vec!["client".to_owned()]},
        "then" => halite_wire::map! {"required" => vec!["tgt".to_owned()]},
        "type" => "object",
        "required" => required.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>(),
        "properties" => halite_wire::map! {
            "client" => halite_wire::map! {"type" => "string", "enum" => Value::Array(names)},
            "fun" => text_or_list("A function, or several"),
            "tgt" => text_or_list("The minions of a job"),
            "tgt_type" => text(),
            "arg" => halite_wire::map! {"description" => "Positional arguments"},
            "kwarg" => halite_wire::map! {"type" => "object", "description" => "Arguments by name"},
            "timeout" => halite_wire::map! {"type" => "integer"},
            "batch" => halite_wire::map! {
                "description" => "Minions at a time, or `10%`",
                "type" => vec!["integer".to_owned(), "string".to_owned()], "minimum" => 1, "pattern" => "^[1-9][0-9]*%?$",
            },
            "full_return" => halite_wire::map! {"description" => "Anything but 0, false, null and nothing counts as yes"},
        },
    }
}

/// What `POST /keys` takes.
fn key_request() -> Map {
    let text = || halite_wire::map! {"type" => "string"};
    halite_wire::map! {
        "type" => "object",
        "required" => vec!["mid".to_owned()],
        "properties" => halite_wire::map! {
            "mid" => halite_wire::map! {"type" => "string", "pattern" => "^[A-Za-z0-9_][A-Za-z0-9._-]*$"},
            "keysize" => halite_wire::map! {"type" => "integer"}, "key_type" => text(), "force" => halite_wire::map! {"type" => "boolean"},
            "token" => text(), "username" => text(), "password" => text(), "eauth" => text(),
        },
    }
}

fn login() -> Map {
    let text = || halite_wire::map! {"type" => "string", "minLength" => 1};
    halite_wire::map! {
        "type" => "object",
        "required" => ["username", "password", "eauth"].map(str::to_owned).to_vec(),
        "properties" => halite_wire::map! {
            "username" => text(), "password" => text(), "eauth" => text(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described() {
        let document = document();
        let paths = document.as_map().unwrap().get("paths").unwrap();
        let paths = paths.as_map().unwrap();
        let mut names = Vec::new();
        for route in ROUTES {
            let item = paths.get(&route.path.replace("*}", "}")).unwrap();
            let method = route.method.to_ascii_lowercase();
            let operation = item.as_map().unwrap().get(&method).unwrap();
            let operation = operation.as_map().unwrap();
            assert_eq!(operation.str("summary"), Some(route.summary));
            names.push(operation.str("operationId").unwrap().to_owned());
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "names are unique");
    }
}
