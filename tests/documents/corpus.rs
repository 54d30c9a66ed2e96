//! Templates and YAML that stock Salt has rendered (`scripts/corpus-render`), rendered again.
//!
//! Every case must come out byte for byte as it did there, messages of errors included. What is
//! known to differ stands with its reason in `tests/corpus/differences.json`, and must differ.
//! `HALITE_CORPUS=text` in the environment shows the cases whose names hold that text.

use halite::jinja::{
    Args, Cx, Dict, Environment, EnvironmentOptions, Error, ErrorKind, LoadedTemplate, Obj, Object,
    TemplateLoader, filters, methods, tests,
};
use halite::wire::{Map, Value, yaml};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// What became of a case, as the corpus tells it.
#[derive(Debug, PartialEq)]
enum Outcome {
    Text(String),
    Data(String),
    Both(String, String),
    /// Message, line, whole text: those that are told.
    Error(String, Option<u64>, Option<String>),
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(i), _) => Value::Int(i),
            (_, Some(f)) => Value::Float(f),
            _ => Value::Nil,
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::Array(items.iter().map(value).collect()),
        Json::Object(map) => Value::Map(
            map.iter()
                .map(|(k, v)| (k.as_str(), value(v)))
                .collect::<Map>(),
        ),
    }
}

fn text<'a>(case: &'a Json, key: &str) -> Option<&'a str> {
    case.get(key).and_then(Json::as_str)
}

/// Files of a case, found as Salt's loader finds them.
struct Files {
    files: BTreeMap<String, String>,
    tpldir: Option<String>,
}

impl TemplateLoader for Files {
    fn load(&self, name: &str, _from: Option<&str>) -> Result<Option<LoadedTemplate>, String> {
        let relative = matches!(name.split('/').next(), Some("." | ".."));
        let found = match (&self.tpldir, relative) {
            (None, true) => return Ok(None),
            (Some(dir), true) => {
                let mut parts: Vec<&str> = dir.split('/').filter(|p| *p != ".").collect();
                for part in name.split('/') {
                    match part {
                        "." | "" => {}
                        ".." if parts.pop().is_none() => return Ok(None),
                        ".." => {}
                        other => parts.push(other),
                    }
                }
                parts.join("/")
            }
            (_, false) => name.to_owned(),
        };
        let Some(source) = self.files.get(&found) else {
            return Ok(None);
        };
        let dir = match (relative, found.rsplit_once('/')) {
            (true, _) => self.tpldir.clone().unwrap_or_default(),
            (false, Some((dir, _))) => dir.to_owned(),
            (false, None) => String::new(),
        };
        let shown = if dir.is_empty() { "." } else { &dir };
        let file = if relative { name } else { &found };
        Ok(Some(LoadedTemplate {
            source: source.clone(),
            name: name.to_owned(),
            globals: vec![
                ("tplfile".to_owned(), Obj::from(file)),
                ("tpldir".to_owned(), Obj::from(shown)),
                ("tpldot".to_owned(), dir.replace('/', ".").into()),
            ],
        }))
    }
}

/// One function of `salt` in a template.
enum Function {
    Echo,
    Args,
    Get(Obj),
    Constant(Obj),
}

impl Object for Function {
    fn type_name(&self) -> &str {
        "function"
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, cx: &mut Cx, args: &Args) -> Result<Obj, Error> {
        let first = args.positional.first().cloned().unwrap_or(Obj::None);
        match self {
            Function::Echo => Ok(first),
            Function::Constant(obj) => Ok(obj.clone()),
            Function::Args => {
                let named = Dict::from_iter(args.keyword.iter().cloned());
                Ok(Obj::list(vec![
                    Obj::list(args.positional.clone()),
                    named.into(),
                ]))
            }
            Function::Get(data) => {
                let default = args.positional.get(1).cloned();
                let default = default.or_else(|| args.named("default").cloned());
                let default = default.unwrap_or_else(|| "".into());
                cx.filter("traverse", data, &Args::positional([first, default]))
            }
        }
    }
}

fn salt(case: &Json) -> Obj {
    let mut functions = Dict::new();
    let mut add = |name: &str, function| functions.set_str(name, Obj::native(function));
    add("test.echo", Function::Echo);
    add("test.args", Function::Args);
    for (name, constant) in case
        .get("salt")
        .and_then(Json::as_object)
        .into_iter()
        .flatten()
    {
        add(name, Function::Constant(Obj::from(value(constant))));
    }
    for name in ["grains", "pillar"] {
        add(&format!("{name}.get"), Function::Get(dict(case, name)));
    }
    functions.into()
}

fn dict(case: &Json, key: &str) -> Obj {
    case.get(key)
        .map_or_else(|| Dict::new().into(), |json| Obj::from(value(json)))
}

fn set_option(options: &mut EnvironmentOptions, name: &str, value: &Json) {
    let flag = value.as_bool().unwrap_or(false);
    let text = value.as_str().unwrap_or_default().to_owned();
    match name.to_lowercase().as_str() {
        "trim_blocks" => options.trim_blocks = flag,
        "lstrip_blocks" => options.lstrip_blocks = flag,
        "keep_trailing_newline" => options.keep_trailing_newline = flag,
        // Salt passes on only what has a default in `jinja2.defaults`.
        "autoescape" => {}
        "newline_sequence" => options.newline_sequence = text,
        "block_start_string" => options.block_start = text,
        "block_end_string" => options.block_end = text,
        "variable_start_string" => options.variable_start = text,
        "variable_end_string" => options.variable_end = text,
        "comment_start_string" => options.comment_start = text,
        "comment_end_string" => options.comment_end = text,
        "line_statement_prefix" => options.line_statement_prefix = Some(text),
        "line_comment_prefix" => options.line_comment_prefix = Some(text),
        other => panic!("no option {other}"),
    }
}

/// The options of a case, and its template without the line that sets some.
fn options(case: &Json) -> (EnvironmentOptions, String) {
    let mut options = EnvironmentOptions::default();
    let given = case.get("opts").cloned().unwrap_or(Json::Null);
    options.strict_undefined = given.get("allow_undefined") != Some(&Json::Bool(true));
    let table = match text(case, "sls") {
        Some(_) => "jinja_sls_env",
        None => "jinja_env",
    };
    if given.get("jinja_trim_blocks") == Some(&Json::Bool(true)) {
        options.trim_blocks = true;
    }
    let mut set = |json: &Json| {
        for (name, value) in json.as_object().into_iter().flatten() {
            set_option(&mut options, name, value);
        }
    };
    set(given.get(table).unwrap_or(&Json::Null));
    let template = text(case, "template").unwrap_or_default();
    let mut lines: Vec<&str> = template.split_inclusive('\n').collect();
    let first = lines.first().copied().unwrap_or_default();
    let at = usize::from(first.starts_with("#!") && !first.starts_with("#!/"));
    let header = lines.get(at).and_then(|line| line.strip_prefix("#jinja2:"));
    if let Some(Ok(header)) = header.map(serde_json::from_str::<Json>) {
        set(&header);
        lines.remove(at);
    }
    (options, lines.concat())
}

/// What Salt tells an SLS file about itself (`salt/utils/templates.py generate_sls_context`).
fn sls_context(sls: &str, files: &BTreeMap<String, String>) -> Vec<(String, Obj)> {
    let path = sls.replace('.', "/");
    let init = format!("{path}/init.sls");
    let file = match files
        .keys()
        .any(|name| name.starts_with(&format!("{path}/")))
    {
        true => init,
        false => format!("{path}.sls"),
    };
    let dir = file.rsplit_once('/').map_or("", |(dir, _)| dir);
    let shown = if dir.is_empty() { "." } else { dir };
    [
        ("sls", sls.to_owned()),
        ("tplpath", format!("ROOT/states/{file}")),
        ("tplfile", file.clone()),
        ("tpldir", shown.to_owned()),
        ("tpldot", dir.replace('/', ".")),
        ("slspath", dir.to_owned()),
        ("slsdotpath", dir.replace('/', ".")),
        ("slscolonpath", dir.replace('/', ":")),
        ("sls_path", dir.replace('/', "_")),
    ]
    .map(|(name, value)| (name.to_owned(), value.into()))
    .to_vec()
}

fn render(case: &Json) -> Result<String, Error> {
    let (options, template) = options(case);
    let files: BTreeMap<String, String> = case
        .get("files")
        .and_then(Json::as_object)
        .into_iter()
        .flatten()
        .map(|(name, text)| (name.clone(), text.as_str().unwrap_or_default().to_owned()))
        .collect();
    let mut opts = match case.get("opts").map(value) {
        Some(Value::Map(map)) => map,
        _ => Map::new(),
    };
    opts.set("id", "corpus");
    opts.set("file_client", "local");
    let mut context: Vec<(String, Obj)> = vec![
        ("opts".to_owned(), Obj::from(opts)),
        ("saltenv".to_owned(), "base".into()),
        ("env".to_owned(), "base".into()),
        ("salt".to_owned(), salt(case)),
        ("grains".to_owned(), dict(case, "grains")),
        ("pillar".to_owned(), dict(case, "pillar")),
    ];
    let mut tpldir = None;
    if let Some(sls) = text(case, "sls") {
        let own = sls_context(sls, &files);
        tpldir = own
            .iter()
            .find(|(name, _)| name == "tpldir")
            .and_then(|(_, dir)| dir.as_str().map(str::to_owned));
        context.extend(own);
    }
    for (name, json) in case
        .get("vars")
        .and_then(Json::as_object)
        .into_iter()
        .flatten()
    {
        context.push((name.clone(), Obj::from(value(json))));
    }
    let loader = Rc::new(Files { files, tpldir });
    let text = Environment::new(options)
        .with_loader(loader)
        .render(&template, "template", context)?;
    Ok(match template.ends_with('\n') {
        true => text + "\n",
        false => text,
    })
}

/// Data as Python prints it; an empty document is an empty dict to Salt.
fn data(source: &str) -> Result<String, String> {
    let value = yaml::parse(source).map_err(|error| error.message)?;
    let value = if value.truthy() {
        value
    } else {
        Value::Map(Map::new())
    };
    Obj::from(&value).repr().map_err(|error| error.to_string())
}

fn run(case: &Json) -> Outcome {
    let yaml_error = |message| Outcome::Error(message, None, None);
    let rendered = match text(case, "kind") {
        Some("yaml") => {
            let template = text(case, "template").unwrap_or_default();
            return data(template).map_or_else(yaml_error, Outcome::Data);
        }
        _ => render(case),
    };
    let rendered = match rendered {
        Ok(rendered) => rendered,
        Err(error) => {
            let line = error.place().map(|place| place.line as u64);
            assert!(error.kind() != ErrorKind::Limit, "{case}: {error}");
            return Outcome::Error(error.salt_message(), line, Some(error.salt_text()));
        }
    };
    match text(case, "kind") {
        Some("sls") => match data(&rendered) {
            Ok(data) => Outcome::Both(rendered, data),
            Err(message) => yaml_error(message),
        },
        _ => Outcome::Text(rendered),
    }
}

fn expected(case: &Json) -> Outcome {
    if let Some(error) = case.get("error") {
        let line = error.get("line").and_then(Json::as_u64);
        let whole = text(error, "text").map(str::to_owned);
        return Outcome::Error(
            text(error, "message").unwrap_or_default().to_owned(),
            line,
            whole,
        );
    }
    let output = text(case, "output").map(str::to_owned);
    let data = text(case, "data").map(str::to_owned);
    match (output, data) {
        (Some(output), Some(data)) => Outcome::Both(output, data),
        (Some(output), None) => Outcome::Text(output),
        (None, Some(data)) => Outcome::Data(data),
        (None, None) => panic!("no outcome: {case}"),
    }
}

/// Whether two outcomes are the same, as far as both tell. Messages of YAML are our own.
fn same(case: &Json, ours: &Outcome, theirs: &Outcome) -> bool {
    let (Outcome::Error(a, a_line, a_text), Outcome::Error(b, b_line, b_text)) = (ours, theirs)
    else {
        return ours == theirs;
    };
    let of_yaml = a_line.is_none() && text(case, "kind") != Some("jinja");
    if of_yaml {
        return true;
    }
    // So they are where a template reads YAML.
    let loading = "Jinja syntax error: Encountered error loading yaml: ";
    if a.starts_with(loading) && b.starts_with(loading) {
        return a_line == b_line;
    }
    // A place in another file stands in Salt's message, and the line is none then.
    if b_line == &Some(0) {
        return b.starts_with(a.as_str());
    }
    a == b && a_line == b_line && (b_text.is_none() || a_text == b_text)
}

fn utc() -> bool {
    jiff::Zoned::now().offset().is_zero()
}

#[test]
fn as_stock_salt() {
    let differences = fs::read_to_string(corpus().join("differences.json")).unwrap();
    let differences: BTreeMap<String, String> = serde_json::from_str(&differences).unwrap();
    let wanted = std::env::var("HALITE_CORPUS").ok();
    let mut files: Vec<PathBuf> = fs::read_dir(corpus().join("render"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let (mut failures, mut stale, mut count) = (Vec::new(), Vec::new(), 0);
    for file in files {
        let subject = file.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).unwrap();
        let json: Json = serde_json::from_str(&text).unwrap();
        for case in json["cases"].as_array().unwrap() {
            let name = format!("{subject}: {}", case["name"].as_str().unwrap());
            let shown = wanted.as_ref().is_some_and(|wanted| name.contains(wanted));
            if (wanted.is_some() && !shown) || (name.contains("strftime") && !utc()) {
                continue;
            }
            count += 1;
            let (ours, theirs) = (run(case), expected(case));
            let same = same(case, &ours, &theirs);
            match (same, differences.contains_key(&name)) {
                (false, false) => {
                    failures.push(format!("{name}\n  ours {ours:?}\n  Salt {theirs:?}"))
                }
                (true, true) => stale.push(name),
                _ if shown => println!("{name}\n  {ours:?}"),
                _ => {}
            }
        }
    }
    assert!(
        failures.is_empty() && stale.is_empty(),
        "{} of {count} cases differ:\n{}\nno longer different: {stale:?}",
        failures.len(),
        failures.join("\n")
    );
    assert!(wanted.is_some() || count > 800, "only {count} cases");
}

/// Values that filters, tests and methods may be given in any place.
const ANYTHING: [&str; 18] = [
    "none",
    "true",
    "0",
    "-7",
    "10 ** 30",
    "1.5",
    "inf",
    "''",
    "'%(a)s {0[b]} \\\\1 é日😀 10.0.0.1/8'",
    "'(a*)*[$'",
    "[]",
    "[3, 'a', none, 1.5]",
    "{}",
    "{'a': [1], 2: 'x', (1,): none, ('a',): 1}",
    "(1, 2)",
    "range(3)",
    "'é'.encode('latin-1')",
    "missing",
];

/// Whatever a template gives to whatever there is: an answer or an error, soon.
#[test]
fn nothing_panics() {
    let options = EnvironmentOptions {
        fuel: 200_000,
        max_size: 100_000,
        strict_undefined: false,
        ..EnvironmentOptions::default()
    };
    let environment = Environment::new(options);
    let try_all = |call: &str| {
        let context = vec![("inf".to_owned(), Obj::Float(f64::INFINITY))];
        // Both outcomes are fine; what counts is that there is one.
        let _ = environment.render(call, "anything", context);
    };
    let arguments: Vec<String> = std::iter::once(String::new())
        .chain(ANYTHING.iter().map(|one| (*one).to_owned()))
        .chain(["1, 2", "'a', 'b', 3", "'a', 10 ** 9", "-1, -1, -1"].map(str::to_owned))
        .collect();
    for value in ANYTHING {
        for given in &arguments {
            let filters = filters::names().map(|name| format!("({value}|{name}({given}))"));
            let tests = tests::names()
                .filter(|name| name.starts_with(|c: char| c.is_alphabetic()))
                .map(|name| format!("({value} is {name}({given}))"));
            for call in filters.chain(tests) {
                try_all(&format!("{{{{ {call}|pprint }}}}"));
            }
        }
    }
    for (value, kind) in [
        ("'aé %s'", Obj::from("")),
        ("7", Obj::Int(7)),
        ("2.5", Obj::Float(2.5)),
        ("[1, 'a']", Obj::list(Vec::new())),
        ("(1, 'a')", Obj::tuple(Vec::new())),
        ("{'a': 1}", Dict::new().into()),
        ("(1, 2)|unique", Obj::set(Default::default())),
        ("'é'.encode()", Obj::Bytes([].into())),
    ] {
        for name in methods::names(&kind) {
            for given in &arguments {
                try_all(&format!("{{{{ ({value}).{name}({given})|pprint }}}}"));
            }
        }
    }
}
