//! Who may do what with an object.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::psql::{self, Connection, execute, name as quoted, query_with, succeeded, text};
use halite_wire::Map;

/// The letters of access lists.
const LETTERS: [(char, &str); 14] = [
    ('a', "INSERT"),
    ('C', "CREATE"),
    ('D', "TRUNCATE"),
    ('c', "CONNECT"),
    ('t', "TRIGGER"),
    ('r', "SELECT"),
    ('U', "USAGE"),
    ('T', "TEMPORARY"),
    ('w', "UPDATE"),
    ('X', "EXECUTE"),
    ('x', "REFERENCES"),
    ('d', "DELETE"),
    ('m', "MAINTAIN"),
    ('*', "GRANT"),
];

/// Objects and the letters of what can be allowed on them.
const OBJECTS: [(&str, &str); 7] = [
    ("table", "arwdDxtm"),
    ("tablespace", "C"),
    ("language", "U"),
    ("sequence", "rwU"),
    ("schema", "UC"),
    ("database", "CTc"),
    ("function", "X"),
];

fn privilege(letter: char) -> Option<&'static str> {
    let found = LETTERS.iter().find(|(known, _)| *known == letter);
    found.map(|(_, name)| *name)
}

/// All privileges on a kind of object.
fn of_kind(kind: &str) -> Option<Vec<&'static str>> {
    let (_, letters) = OBJECTS.iter().find(|(known, _)| *known == kind)?;
    Some(letters.chars().filter_map(privilege).collect())
}

/// An object and the privileges in question.
struct Subject {
    role: String,
    name: String,
    kind: String,
    schema: String,
    wanted: Vec<String>,
    with_grant: bool,
    to: Connection,
}

impl Subject {
    fn of(call: &Call<'_>) -> Result<Subject> {
        let arg = |name: &str| call.text(name).unwrap_or_default();
        let given = arg("privileges");
        let subject = Subject {
            role: arg("name"),
            name: arg("object_name"),
            kind: arg("object_type").to_lowercase(),
            schema: arg("prepend"),
            // Python's `\s?,\s?`: one blank at most.
            wanted: split(&given.to_uppercase()),
            with_grant: call.flag("grant_option"),
            to: Connection::of(call),
        };
        subject.check(&given)?;
        Ok(subject)
    }

    fn is_group(&self) -> bool {
        self.kind == "group"
    }

    fn check(&self, given: &str) -> Result<()> {
        if self.is_group() {
            if given.is_empty() {
                return Ok(());
            }
            return Err(CallError::Invocation(
                "The privileges option should not be set for object_type group".to_owned(),
            ));
        }
        let Some(known) = of_kind(&self.kind) else {
            return Err(CallError::raised("KeyError", format!("'{}'", self.kind)));
        };
        if self
            .wanted
            .iter()
            .all(|one| one == "ALL" || known.contains(&one.as_str()))
        {
            return Ok(());
        }
        Err(CallError::Invocation(format!(
            "Invalid privilege(s): {given} provided for object {}",
            self.kind
        )))
    }

    /// Whether the role has the privileges, or owns the object.
    fn is_set(&self, call: &mut Call<'_>) -> Result<bool> {
        if !self.is_group() && owner(call, self)?.is_some_and(|owner| owner == self.role) {
            return Ok(true);
        }
        let all = list(call, &self.to, &self.name, &self.kind, &self.schema)?;
        let Some(has) = all.get(&self.role) else {
            return Ok(false);
        };
        if self.is_group() {
            return Ok(!self.with_grant || has.truthy());
        }
        let has = has.as_map().cloned().unwrap_or_default();
        let known = of_kind(&self.kind).unwrap_or_default();
        let complete = has.len() == known.len() && known.iter().all(|one| has.contains(one));
        if self.with_grant {
            return Ok(complete && has.iter().all(|(_, grant)| grant.truthy()));
        }
        if self.wanted.iter().any(|one| one == "ALL") {
            return Ok(complete);
        }
        Ok(self.wanted.iter().all(|one| has.contains(one)))
    }

    /// The part of a statement after `ON`.
    fn place(&self) -> String {
        let kind = self.kind.to_uppercase();
        match self.kind.as_str() {
            "function" if is_signature(&self.name) => format!("{kind} {}", self.name),
            "table" | "sequence" | "function" => {
                let schema = psql::word(&self.schema);
                format!("{kind} {schema}.{}", quoted(&self.name))
            }
            _ => format!("{kind} {}", quoted(&self.name)),
        }
    }
}

fn split(text: &str) -> Vec<String> {
    let parts: Vec<&str> = text.split(',').collect();
    let last = parts.len() - 1;
    let trimmed = parts.iter().enumerate().map(|(i, part)| {
        let part = if i > 0 {
            part.strip_prefix(char::is_whitespace).unwrap_or(part)
        } else {
            part
        };
        let part = if i < last {
            part.strip_suffix(char::is_whitespace).unwrap_or(part)
        } else {
            part
        };
        part.to_owned()
    });
    trimmed.collect()
}

/// Whether a text is a function with its types as the server writes it: `f(integer, character varying[])`. No other
/// statement can hide in these characters, and quotes only hold words.
fn is_signature(text: &str) -> bool {
    let Some((name, types)) = text.strip_suffix(')').and_then(|t| t.split_once('(')) else {
        return false;
    };
    let plain = |part: &str, more: &[char]| {
        part.chars()
            .all(|c| c.is_alphanumeric() || c == '_' || more.contains(&c))
    };
    let balanced = text.matches('"').count().is_multiple_of(2);
    !name.is_empty()
        && balanced
        && plain(name, &['.', '"', '$'])
        && plain(types, &['.', '"', ' ', ',', '[', ']'])
}

fn owner(call: &mut Call<'_>, of: &Subject) -> Result<Option<String>> {
    let (name, schema) = (text(&of.name), text(&of.schema));
    let statement = match of.kind.as_str() {
        "table" => format!(
            "SELECT tableowner AS name FROM pg_tables WHERE schemaname = {schema} AND tablename = {name}"
        ),
        "sequence" => format!(
            "SELECT rolname AS name FROM pg_catalog.pg_class c JOIN pg_roles r ON c.relowner = r.oid \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE relkind='S' AND nspname={schema} AND relname = {name}"
        ),
        "schema" => format!(
            "SELECT rolname AS name FROM pg_namespace n JOIN pg_roles r ON n.nspowner = r.oid WHERE nspname = {name}"
        ),
        "function" => format!(
            "SELECT rolname AS name FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
             JOIN pg_catalog.pg_roles r ON p.proowner = r.oid WHERE nspname = {schema} \
             AND p.oid::regprocedure::text = {name} ORDER BY proname, proargtypes"
        ),
        "tablespace" => format!(
            "SELECT rolname AS name FROM pg_tablespace t JOIN pg_roles r ON t.spcowner = r.oid WHERE spcname = {name}"
        ),
        "language" => format!(
            "SELECT rolname AS name FROM pg_language l JOIN pg_roles r ON l.lanowner = r.oid WHERE lanname = {name}"
        ),
        _ => format!(
            "SELECT rolname AS name FROM pg_database d JOIN pg_roles r ON d.datdba = r.oid WHERE datname = {name}"
        ),
    };
    let rows = query_with(call, &of.to, &statement, false)?;
    Ok(rows
        .first()
        .and_then(|row| row.str("name"))
        .map(str::to_owned))
}

/// The privileges of all roles on an object.
pub fn list(
    call: &mut Call<'_>,
    to: &Connection,
    name: &str,
    kind: &str,
    schema: &str,
) -> Result<Map> {
    let (name, schema) = (text(name), text(schema));
    let in_class = |kinds: &str| {
        format!(
            "SELECT relacl AS name FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE nspname = {schema} AND relname = {name} AND {kinds} ORDER BY relname"
        )
    };
    let in_catalog = |list: &str, table: &str, key: &str| {
        format!("SELECT {list} AS name FROM pg_catalog.{table} WHERE {key} = {name} ORDER BY {key}")
    };
    let statement = match kind {
        "table" => in_class("relkind in ('r', 'v')"),
        "sequence" => in_class("relkind = 'S'"),
        "schema" => in_catalog("nspacl", "pg_namespace", "nspname"),
        "function" => format!(
            "SELECT proacl AS name FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
             WHERE nspname = {schema} AND p.oid::regprocedure::text = {name} ORDER BY proname, proargtypes"
        ),
        "tablespace" => in_catalog("spcacl", "pg_tablespace", "spcname"),
        "language" => in_catalog("lanacl", "pg_language", "lanname"),
        "database" => in_catalog("datacl", "pg_database", "datname"),
        "group" => format!(
            "SELECT rolname, admin_option FROM pg_catalog.pg_auth_members m JOIN pg_catalog.pg_roles r ON m.member=r.oid \
             WHERE m.roleid IN (SELECT oid FROM pg_catalog.pg_roles WHERE rolname={name}) ORDER BY rolname"
        ),
        _ => {
            return Err(CallError::Invocation(format!(
                "Invalid object_type: {kind} provided"
            )));
        }
    };
    let mut all = Map::new();
    for row in query_with(call, to, &statement, false)? {
        if kind == "group" {
            let admin = row.str("admin_option") == Some("t");
            all.set(row.str("rolname").unwrap_or_default(), admin);
            continue;
        }
        for entry in entries(row.str("name").unwrap_or_default()) {
            let Some((role, rest)) = role_of(&entry) else {
                log::debug!("Skipping malformed ACL entry: {entry}");
                continue;
            };
            let letters = rest.split('/').next().unwrap_or_default();
            all.set(role, granted(letters)?);
        }
    }
    Ok(all)
}

/// The elements of an array as the server writes it.
fn entries(array: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quoted = false;
    let inner = array.strip_prefix('{').unwrap_or(array);
    let mut chars = inner.strip_suffix('}').unwrap_or(inner).chars();
    while let Some(c) = chars.next() {
        match (c, all.last_mut()) {
            ('"', _) => quoted = !quoted,
            (',', _) if !quoted => all.push(String::new()),
            ('\\', Some(last)) if quoted => last.extend(chars.next()),
            (c, Some(last)) => last.push(c),
            (_, None) => {}
        }
    }
    all.retain(|entry| !entry.is_empty());
    all
}

/// The role of an entry, and what follows the sign `=`.
fn role_of(entry: &str) -> Option<(String, &str)> {
    let Some(rest) = entry.strip_prefix('"') else {
        let (role, rest) = entry.split_once('=')?;
        let role = if role.is_empty() { "public" } else { role };
        return Some((role.to_owned(), rest));
    };
    let end = rest.rfind("\"=")?;
    Some((rest[..end].replace("\"\"", "\""), &rest[end + 2..]))
}

/// Each privilege, and whether it may be passed on.
fn granted(letters: &str) -> Result<Map> {
    let mut all = Map::new();
    let mut last = None;
    for letter in letters.chars() {
        let Some(name) = privilege(letter) else {
            return Err(CallError::raised("KeyError", format!("'{letter}'")));
        };
        match last {
            Some(last) if letter == '*' => all.set(last, true),
            _ => {
                all.set(name, false);
                last = Some(name);
            }
        }
    }
    Ok(all)
}

/// `privileges_list`.
pub fn listed(call: &mut Call<'_>) -> Result {
    let arg = |name: &str| python::str(call.arg(name));
    let (name, kind, schema) = (arg("name"), arg("object_type"), arg("prepend"));
    let to = Connection::of(call);
    Ok(list(call, &to, &name, &kind.to_lowercase(), &schema)?.into())
}

/// `has_privileges`.
pub fn has(call: &mut Call<'_>) -> Result {
    Ok(Subject::of(call)?.is_set(call)?.into())
}

/// `privileges_grant`.
pub fn grant(call: &mut Call<'_>) -> Result {
    let mut subject = Subject::of(call)?;
    let with_grant = std::mem::take(&mut subject.with_grant);
    if subject.is_set(call)? {
        log::info!(
            "The object: {} of type: {} already has privileges: {} set",
            subject.name,
            subject.kind,
            subject.wanted.join(",")
        );
        return Ok(false.into());
    }
    let (role, what) = (quoted(&subject.role), subject.wanted.join(","));
    let all = matches!(subject.kind.as_str(), "table" | "sequence" | "function")
        && subject.name.eq_ignore_ascii_case("all");
    let option = match (with_grant, subject.is_group()) {
        (false, _) => "",
        (true, true) => " WITH ADMIN OPTION",
        (true, false) => " WITH GRANT OPTION",
    };
    let statement = if subject.is_group() {
        format!("GRANT {} TO {role}{option}", psql::word(&subject.name))
    } else if all {
        format!(
            "GRANT {what} ON ALL {}S IN SCHEMA {} TO {role}{option}",
            subject.kind.to_uppercase(),
            psql::word(&subject.schema)
        )
    } else {
        format!("GRANT {what} ON {} TO {role}{option}", subject.place())
    };
    Ok(succeeded(&execute(call, &subject.to, &statement)?).into())
}

/// `privileges_revoke`.
pub fn revoke(call: &mut Call<'_>) -> Result {
    let subject = Subject::of(call)?;
    if !subject.is_set(call)? {
        log::info!(
            "The object: {} of type: {} does not have privileges: {} set",
            subject.name,
            subject.kind,
            subject.wanted.join(",")
        );
        return Ok(false.into());
    }
    let role = psql::word(&subject.role);
    let statement = if subject.is_group() {
        format!("REVOKE {} FROM {role}", psql::word(&subject.name))
    } else {
        let what = subject.wanted.join(",");
        format!("REVOKE {what} ON {} FROM {role}", subject.place())
    };
    Ok(succeeded(&execute(call, &subject.to, &statement)?).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::Value;

    #[test]
    fn access_lists_are_read() {
        let array =
            r#"{postgres=arw/postgres,=r/postgres,"\"my-app\"=r*w/postgres","\"a\"\"b\"=r/x"}"#;
        let found: Vec<_> = entries(array)
            .iter()
            .filter_map(|e| role_of(e).map(|(role, rest)| (role, rest.to_owned())))
            .collect();
        let expected = [
            ("postgres", "arw/postgres"),
            ("public", "r/postgres"),
            ("my-app", "r*w/postgres"),
            ("a\"b", "r/x"),
        ];
        assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        let rights = granted("r*w").unwrap();
        assert!(rights.get("SELECT").is_some_and(Value::truthy));
        assert!(rights.get("UPDATE").is_some_and(|grant| !grant.truthy()));
    }

    #[test]
    fn only_functions_are_signatures() {
        assert!(is_signature("f(integer, character varying[])"));
        assert!(is_signature("s.\"F\"()"));
        for text in ["f", "f(a); b()", "f(') ", "f\"()", "f(a) FROM x; g()"] {
            assert!(!is_signature(text), "{text}");
        }
    }

    #[test]
    fn privileges_are_split_as_python_does() {
        assert_eq!(split("A , B,C"), ["A", "B", "C"]);
        assert_eq!(split(" A,  B "), [" A", " B "]);
    }
}
