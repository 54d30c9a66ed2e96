//! `xml`: nested data as XML elements (`salt/utils/jinja.py format_xml`), formatted like `minidom`.

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::Obj;

struct Element {
    tag: String,
    attributes: Vec<(String, String)>,
    text: Option<String>,
    children: Vec<Element>,
}

/// Formats a dict with one key, or a list of pairs, as a document.
///
/// # Errors
/// The value has another structure.
pub fn document(cx: &mut Cx, value: &Obj) -> Result<String, Error> {
    let mut top: Vec<Element> = Vec::new();
    for (tag, item) in entries(value)? {
        // A list at the top level cannot be the root, but its content must still be valid.
        let mut lost = Vec::new();
        let into = match item {
            Obj::List(_) => &mut lost,
            _ => &mut top,
        };
        build(cx, &tag, &item, into, 0)?;
    }
    // As in Salt, the last top-level element that is not a list is the root.
    let root = top.pop().ok_or_else(|| {
        Error::new(
            ErrorKind::Attribute,
            "'NoneType' object has no attribute 'iter'",
        )
    })?;
    let mut out = String::from("<?xml version=\"1.0\" ?>\n");
    write(&root, 0, &mut out);
    Ok(out)
}

/// The pairs of a dict. A list counts as pairs only if its first element is text, as in Salt.
fn entries(value: &Obj) -> Result<Vec<(String, Obj)>, Error> {
    match value {
        Obj::Dict(dict) => {
            let dict = dict.borrow();
            let pairs = dict.iter().map(|(k, v)| Ok((k.to_str()?, v.clone())));
            pairs.collect()
        }
        Obj::List(_) | Obj::Tuple(_) => {
            let items = match value {
                Obj::List(list) => list.borrow().clone(),
                Obj::Tuple(items) => items.to_vec(),
                _ => Vec::new(),
            };
            match items.first() {
                None => Err(Error::new(ErrorKind::Index, "list index out of range")),
                Some(first) if first.as_str().is_some() => Err(Error::value_error(
                    "not enough values to unpack (expected 2, got 1)",
                )),
                Some(_) => Ok(Vec::new()),
            }
        }
        _ => Err(Error::runtime(
            "Value is not a dict or list. Cannot render as XML",
        )),
    }
}

fn build(
    cx: &mut Cx,
    tag: &str,
    value: &Obj,
    into: &mut Vec<Element>,
    depth: usize,
) -> Result<(), Error> {
    cx.charge(4)?;
    if depth > 100 {
        return Err(Error::limit("containers are nested too deeply"));
    }
    if let Obj::List(list) = value {
        for item in list.borrow().iter() {
            build(cx, tag, item, into, depth + 1)?;
        }
        return check_texts(&list.borrow());
    }
    let mut element = Element {
        tag: tag.to_owned(),
        attributes: Vec::new(),
        text: None,
        children: Vec::new(),
    };
    if matches!(
        value,
        Obj::Str(_) | Obj::Markup(_) | Obj::Int(_) | Obj::Big(_) | Obj::Bool(_) | Obj::Float(_)
    ) {
        element.text = Some(value.to_str()?);
        into.push(element);
        return Ok(());
    }
    for (name, item) in entries(value)? {
        match item {
            Obj::Dict(_) | Obj::List(_) => {
                build(cx, &name, &item, &mut element.children, depth + 1)?;
            }
            other => element.attributes.push((name, other.to_str()?)),
        }
    }
    into.push(element);
    Ok(())
}

/// Salt treats the elements of a list of texts as pairs and reads their second item.
fn check_texts(items: &[Obj]) -> Result<(), Error> {
    let index = |what: &str| Error::new(ErrorKind::Index, format!("{what} index out of range"));
    match items.first() {
        None => Err(index("list")),
        Some(first) if first.as_str().is_none() => Ok(()),
        Some(_) => {
            if items
                .iter()
                .filter_map(Obj::as_str)
                .any(|t| t.chars().count() < 2)
            {
                Err(index("string"))
            } else {
                Ok(())
            }
        }
    }
}

fn escaped(text: &str, quoted: bool) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    if quoted {
        text.replace('"', "&quot;")
    } else {
        text
    }
}

fn write(element: &Element, depth: usize, out: &mut String) {
    let indent = " ".repeat(depth);
    out.push_str(&format!("{indent}<{}", element.tag));
    for (name, value) in &element.attributes {
        out.push_str(&format!(" {name}=\"{}\"", escaped(value, true)));
    }
    match (&element.text, element.children.is_empty()) {
        (Some(text), true) if !text.is_empty() => {
            out.push_str(&format!(">{}</{}>\n", escaped(text, false), element.tag));
        }
        (_, true) => out.push_str("/>\n"),
        _ => {
            out.push_str(">\n");
            for child in &element.children {
                write(child, depth + 1, out);
            }
            out.push_str(&format!("{indent}</{}>\n", element.tag));
        }
    }
}
