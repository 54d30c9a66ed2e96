//! The public interface of the engine. The template language itself is tested in `tests/corpus.rs` against stock Salt.

use super::super::*;
use halite_wire::Value;
use std::cell::RefCell;
use std::rc::Rc;

fn environment() -> Environment {
    Environment::new(EnvironmentOptions::default())
}

fn render(source: &str) -> Result<String, Error> {
    environment().render(source, "top.sls", Vec::new())
}

fn fails(source: &str) -> Error {
    render(source).expect_err(source)
}

/// Templates by name, and who requested them.
#[derive(Default)]
struct Files(
    Vec<(&'static str, &'static str)>,
    RefCell<Vec<Option<String>>>,
);

impl TemplateLoader for Files {
    fn load(&self, name: &str, from: Option<&str>) -> Result<Option<LoadedTemplate>, String> {
        self.1.borrow_mut().push(from.map(str::to_owned));
        if name == "broken" {
            return Err("the disk is gone".to_owned());
        }
        let found = self.0.iter().find(|(known, _)| *known == name);
        Ok(found.map(|(_, source)| LoadedTemplate {
            source: (*source).to_owned(),
            name: format!("salt://{name}"),
            globals: vec![("tplfile".to_owned(), Obj::from(name))],
        }))
    }
}

fn with_files(files: &[(&'static str, &'static str)], source: &str) -> Result<String, Error> {
    let loader = Files(files.to_vec(), RefCell::default());
    let variables = vec![("given".to_owned(), Obj::from("everywhere"))];
    environment()
        .with_loader(Rc::new(loader))
        .render(source, "top.sls", variables)
}

#[test]
fn limits_end_a_template_and_nothing_else() {
    let deep = |open: &str, close: &str| {
        let (open, close) = (open.repeat(50_000), close.repeat(50_000));
        format!("{{{{ {open}1{close} }}}}")
    };
    let nested = "{% set ns = namespace(l=()) %}{% for i in range(90000) %}\
                  {% set ns.l = (ns.l,) %}{% endfor %}";
    let cases = [
        deep("(", ")"),
        deep("[", "]"),
        deep("-", ""),
        deep("not ", ""),
        deep("1 + ", ""),
        deep("1 if 1 else ", ""),
        "{% if 1 %}".repeat(50_000),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".to_owned(),
        "{% block a %}{{ self.a() }}{% endblock %}".to_owned(),
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}".to_owned(),
        "{{ 'x' * 10 ** 12 }}".to_owned(),
        "{{ [1] * 10 ** 12 }}".to_owned(),
        "{{ 10 ** 10 ** 6 * 10 ** 100000 }}".to_owned(),
        "{% for i in range(100000) %}{% for j in range(100) %}x{{ j }}{% endfor %}{% endfor %}"
            .to_owned(),
        format!("{nested}{{{{ ns.l }}}}"),
        format!("{nested}{{{{ ns.l == (ns.l,) }}}}"),
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}".to_owned(),
        "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"
            .to_owned(),
    ];
    // Regular expressions: of Python, which would search for hours; too large for an automaton; ever new ones.
    let slow = "('ab' * 50000)";
    let large = r"'(a|b)*a[ab]{900}c'";
    let searches = [
        "{{ 'db1'|regex_search('(?:(?=)|(?=)){18}z|db1') }}".to_owned(),
        format!("{{{{ {slow}|regex_search({large}) }}}}"),
        format!("{{{{ {slow} is match({large}) }}}}"),
        format!("{{{{ {slow}|regex_replace({large}, 'x') }}}}"),
        format!("{{{{ {slow}|check_whitelist_blacklist(whitelist=[{large}]) }}}}"),
        "{% for i in range(1000) %}{{ 'x'|regex_match('[ab]{50}' ~ i) }}{% endfor %}".to_owned(),
    ];
    for case in cases.into_iter().chain(searches) {
        let options = EnvironmentOptions {
            fuel: 1_000_000,
            ..EnvironmentOptions::default()
        };
        let result = Environment::new(options).render(&case, "top.sls", Vec::new());
        let error = result.expect_err(case.get(..40).unwrap_or(&case));
        let kind = error.kind();
        let telling = matches!(kind, ErrorKind::Limit | ErrorKind::Syntax);
        assert!(telling, "{error}: {}", case.get(..40).unwrap_or(&case));
    }
    assert_eq!(render(&format!("{nested}done")).unwrap(), "done");
    let around = [("a", "{% include 'a' %}"), ("b", "{% import 'b' as b %}")];
    for name in ["a", "b"] {
        let error = with_files(&around, &format!("{{% include '{name}' %}}")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
    }
    let circle = [("a", "{% extends 'b' %}"), ("b", "{% extends 'a' %}")];
    let error = with_files(&circle, "{% extends 'a' %}").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[test]
fn errors_have_locations_as_in_salt() {
    let error = fails("one\n{{ nope }}\nthree");
    assert_eq!(error.message(), "'nope' is undefined");
    assert_eq!(
        error.salt_text(),
        "Jinja variable 'nope' is undefined; line 2\n\n---\none\n{{ nope }}    \
         <======================\nthree\n---"
    );
    let files = [("lib", "\n{% macro f() %}\n{{ 1 / 0 }}{% endmacro %}")];
    let source = "{% from 'lib' import f %}\n\n{{ f() }}";
    let error = with_files(&files, source).unwrap_err();
    let places: Vec<(&str, usize, bool)> = error
        .places()
        .iter()
        .map(|place| (place.template.as_ref(), place.line, place.root))
        .collect();
    assert_eq!(places, [("salt://lib", 3, false), ("top.sls", 3, true)]);
    let error = with_files(&[], "\n{% include 'broken' %}").unwrap_err();
    assert_eq!(error.salt_message(), "Jinja error: the disk is gone");
    let error = with_files(&[], "\n{% include 'absent' %}").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.salt_message(), "Jinja error: absent");
    assert_eq!(fails("{{ raise('no') }}").kind(), ErrorKind::Raised);
}

#[test]
fn variables_and_the_loader_are_seen_by_imported_templates() {
    let files = [("a", "{{ given }} {{ tplfile }}")];
    assert_eq!(
        with_files(&files, "{% include 'a' without context %}").unwrap(),
        "everywhere a"
    );
    let files = [("a", "{{ x }}{% set y = 2 %}"), ("b", "{{ x }}")];
    let source = "{% set x = 1 %}{% include 'a' %}{% import 'b' as b with context %}{{ b }}";
    assert_eq!(with_files(&files, source).unwrap(), "11");
}

#[test]
fn lenient_undefined_prints_nothing() {
    let options = EnvironmentOptions {
        strict_undefined: false,
        ..EnvironmentOptions::default()
    };
    let environment = Environment::new(options);
    let run = |source: &str| environment.render(source, "top.sls", Vec::new());
    assert_eq!(run("[{{ nope }}{{ {}.nope }}]").unwrap(), "[]");
    assert_eq!(
        run("{{ nope.x }}").unwrap_err().message(),
        "'nope' is undefined"
    );
}

/// A function provided by the caller: `salt['test.add'](1, 2)`.
struct Add;

impl Object for Add {
    fn type_name(&self) -> &str {
        "function"
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, _cx: &mut Cx, args: &Args) -> Result<Obj, Error> {
        let bound = args.bind_required("add", &["a", "b"], 2)?;
        let sum: Option<i64> = bound.iter().flatten().map(Obj::as_int).sum();
        sum.map(Obj::Int)
            .ok_or_else(|| Error::new(ErrorKind::Function, "numbers are needed"))
    }
}

#[test]
fn functions_of_the_caller() {
    let salt: Dict = [("test.add", Obj::native(Add))].into_iter().collect();
    let salt = Obj::dict(salt);
    let run = |source: &str| {
        environment().render(source, "top.sls", vec![("salt".to_owned(), salt.clone())])
    };
    assert_eq!(run("{{ salt['test.add'](1, b=2) }}").unwrap(), "3");
    assert_eq!(
        run("{{ salt['test.add'](1, 'x') }}")
            .unwrap_err()
            .salt_message(),
        "Problem running salt function in Jinja template: numbers are needed"
    );
    assert_eq!(
        run("{{ salt['test.add'](1) }}").unwrap_err().message(),
        "add() missing 1 required positional argument: 'b'"
    );
    assert_eq!(
        run("{{ salt['no.such']() }}").unwrap_err().salt_message(),
        "Jinja variable 'dict object' has no attribute 'no.such'"
    );
}

/// Counts how often it is dropped.
struct Witness(Rc<RefCell<usize>>);

impl Object for Witness {
    fn type_name(&self) -> &str {
        "witness"
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        *self.0.borrow_mut() += 1;
    }
}

#[test]
fn nothing_of_a_run_stays_in_memory() {
    let circles = [
        "{% macro f() %}{{ w }}{% endmacro %}{% set x = [f, w] %}",
        "{% set ns = namespace() %}{% for i in [1] %}{% set ns.l = loop %}{% set ns.w = w %}{% endfor %}",
        "{% macro g(w) %}{% macro f() %}{{ w }}{% endmacro %}{% set ns.f = f %}{% endmacro %}\
         {% set ns = namespace() %}{% do g(w) %}",
        "{% block b %}{% set q = self %}{% set v = w %}{% endblock %}",
    ];
    for source in circles {
        let dropped = Rc::new(RefCell::new(0));
        let witness = Obj::native(Witness(dropped.clone()));
        let variables = vec![("w".to_owned(), witness)];
        environment().render(source, "top.sls", variables).unwrap();
        assert_eq!(*dropped.borrow(), 1, "{source}");
    }
}

#[test]
fn values_of_the_wire_go_through() {
    let value = Value::Map(halite_wire::map! {
        "a" => vec![Value::from(1), Value::from(u64::MAX), Value::from(1.5), Value::Nil],
        "b" => Value::Bytes(vec![0xff, b'\'']),
        "c" => true,
    });
    let obj = Obj::from(&value);
    assert_eq!(
        obj.repr().unwrap(),
        "{'a': [1, 18446744073709551615, 1.5, None], 'b': b\"\\xff'\", 'c': True}"
    );
    assert_eq!(obj.to_value().unwrap(), value);
    let number = Obj::from(1.0);
    let mut dict = Dict::new();
    dict.insert(Obj::from(1), Obj::from("one")).unwrap();
    assert!(dict.contains(&number).unwrap());
    assert!(dict.contains(&Obj::from(true)).unwrap());
    assert!(dict.insert(Obj::list(Vec::new()), Obj::None).is_err());
}

/// CVE-2021-25283: templates cannot reach the program around them.
#[test]
fn templates_cannot_leave_the_sandbox() {
    for source in [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ ().__class__.__base__ }}",
        "{{ ''['__class__']['__mro__'] }}",
        "{{ ''|attr('__class__')|attr('__mro__') }}",
        "{{ self.__init__.__globals__['os'].popen('id').read() }}",
        "{{ cycler.__init__.__globals__.os.popen('id') }}",
        "{{ lipsum.__globals__['os'].popen('id').read() }}",
        "{{ namespace.__init__.__globals__.__builtins__.open('/etc/passwd') }}",
        "{{ '{0.__class__.__mro__}'.format(1) }}",
        "{{ [].append.__self__.__class__.mro() }}",
        "{{ open('/etc/passwd').read() }}",
        "{{ __import__('os').system('id') }}",
        "{% include '/etc/passwd' %}",
        "{% import '../../etc/passwd' as x %}",
    ] {
        fails(source);
    }
}
