//! A reader for XML data: elements with their text. No document types, and no entities except
//! the five of XML and numeric character references.

use crate::budget::{Budget, deeper};

/// What an element costs compared to other values, which it is larger than.
const ELEMENT: usize = 2;

/// An element.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Element {
    /// Its name without the namespace prefix.
    pub name: String,
    /// Its attributes in document order, with their full names.
    pub attributes: Vec<(String, String)>,
    /// The text before its first child, if there is any.
    pub text: Option<String>,
    /// Its child elements.
    pub children: Vec<Element>,
}

impl Element {
    /// The value of an attribute; empty if it is missing.
    pub fn attribute(&self, name: &str) -> &str {
        let mut all = self.attributes.iter();
        all.find(|(n, _)| n == name).map_or("", |(_, v)| v)
    }

    /// All elements of that name below this one, at any depth, in document order.
    pub fn all(&self, name: &str) -> Vec<&Element> {
        let mut found = Vec::new();
        for child in &self.children {
            if child.name == name {
                found.push(child);
            }
            found.extend(child.all(name));
        }
        found
    }
}

/// Parses a document.
///
/// # Errors
/// What is wrong, and at which byte offset.
pub fn parse(text: &str) -> Result<Element, String> {
    let budget = Budget::of(text.len());
    let mut reader = Reader {
        text,
        at: 0,
        budget,
    };
    reader.between()?;
    let root = reader.element(0)?;
    reader.between()?;
    if reader.at == text.len() {
        Ok(root)
    } else {
        Err(reader.wrong("junk after document element"))
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    budget: Budget,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn wrong(&self, what: &str) -> String {
        format!("{what} after {} bytes", self.at)
    }

    fn take(&mut self, mark: &str) -> bool {
        let there = self.rest().starts_with(mark);
        if there {
            self.at += mark.len();
        }
        there
    }

    /// The text before `mark`, which is consumed, too.
    fn until(&mut self, mark: &str) -> Result<&'a str, String> {
        let rest = self.rest();
        let end = rest
            .find(mark)
            .ok_or_else(|| self.wrong("no element found"))?;
        self.at += end + mark.len();
        Ok(&rest[..end])
    }

    fn blank(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Skips a comment or a processing instruction; whether there was one.
    fn passed(&mut self) -> Result<bool, String> {
        if self.take("<!--") {
            self.until("-->")?;
        } else if self.take("<?") {
            self.until("?>")?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Skips what may precede or follow the root element.
    fn between(&mut self) -> Result<(), String> {
        self.take("\u{feff}");
        loop {
            self.blank();
            if self.rest().starts_with("<!DOCTYPE") {
                let declared = self.until(">")?;
                if declared.contains('[') {
                    return Err(self.wrong("entity declarations are not supported"));
                }
            } else if !self.passed()? {
                return Ok(());
            }
        }
    }

    fn name(&mut self) -> Result<&'a str, String> {
        let rest = self.rest();
        let is_end = |c: char| c.is_whitespace() || "/>=<\"'".contains(c);
        let end = rest.find(is_end).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.wrong("not well-formed (invalid token)"));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    fn element(&mut self, depth: usize) -> Result<Element, String> {
        let depth = deeper(depth).map_err(|limit| self.wrong(&limit.to_string()))?;
        let spent = self.budget.take(ELEMENT);
        spent.map_err(|limit| self.wrong(&limit.to_string()))?;
        if !self.take("<") {
            return Err(self.wrong("syntax error"));
        }
        let tag = self.name()?;
        let mut element = Element {
            name: tag.rsplit(':').next().unwrap_or_default().to_owned(),
            ..Element::default()
        };
        if !self.attributes(&mut element)? {
            self.content(&mut element, depth)?;
            let close = self.name()?;
            self.blank();
            if close != tag || !self.take(">") {
                return Err(self.wrong("mismatched tag"));
            }
        }
        Ok(element)
    }

    /// Reads the rest of a start tag; whether it also ends the element (`/>`).
    fn attributes(&mut self, element: &mut Element) -> Result<bool, String> {
        loop {
            self.blank();
            if self.take("/>") {
                return Ok(true);
            }
            if self.take(">") {
                return Ok(false);
            }
            let name = self.name()?.to_owned();
            self.blank();
            let equals = self.take("=");
            self.blank();
            let raw = match equals {
                true if self.take("\"") => self.until("\"")?,
                true if self.take("'") => self.until("'")?,
                _ => return Err(self.wrong("not well-formed (invalid token)")),
            };
            // In attribute values, line ends and tabs count as spaces.
            let value = self.plain(&raw.replace("\r\n", " ").replace(['\n', '\t', '\r'], " "))?;
            element.attributes.push((name, value));
        }
    }

    /// Reads text and elements up to the end tag, whose `</` is consumed.
    fn content(&mut self, element: &mut Element, depth: usize) -> Result<(), String> {
        let mut text = String::new();
        loop {
            if self.take("</") {
                break;
            }
            if self.take("<![CDATA[") {
                let raw = self.until("]]>")?;
                if element.children.is_empty() {
                    text.push_str(raw);
                }
            } else if self.passed()? {
                continue;
            } else if self.rest().starts_with('<') {
                element.children.push(self.element(depth)?);
            } else {
                let rest = self.rest();
                let end = rest
                    .find('<')
                    .ok_or_else(|| self.wrong("no element found"))?;
                let plain = self.plain(&rest[..end])?;
                if element.children.is_empty() {
                    text.push_str(&plain);
                }
                self.at += end;
            }
        }
        element.text = (!text.is_empty()).then_some(text);
        Ok(())
    }

    /// Text with its entities replaced.
    fn plain(&self, raw: &str) -> Result<String, String> {
        let mut parts = raw.split('&');
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let found = part.split_once(';').and_then(|(name, rest)| {
                let letter = match name {
                    "lt" => '<',
                    "gt" => '>',
                    "amp" => '&',
                    "quot" => '"',
                    "apos" => '\'',
                    name => {
                        let number = name.strip_prefix('#')?;
                        let code = match number.strip_prefix('x') {
                            Some(digits) => u32::from_str_radix(digits, 16),
                            None => number.parse(),
                        };
                        char::from_u32(code.ok()?)?
                    }
                };
                Some((letter, rest))
            });
            let (letter, rest) = found.ok_or_else(|| self.wrong("undefined entity"))?;
            out.push(letter);
            out.push_str(rest);
        }
        Ok(out.replace("\r\n", "\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements() {
        let root = parse(
            "<?xml version='1.0'?>\n<!DOCTYPE a>\n<!-- c -->\n<n:a x=\"1\" y='>'>t&lt;&#65;<![CDATA[<&]]>\
             <b/>tail<c>\n</c ></n:a>\n",
        )
        .unwrap();
        assert_eq!(
            (root.name.as_str(), root.text.as_deref()),
            ("a", Some("t<A<&"))
        );
        assert_eq!(
            (
                root.attribute("y"),
                root.attribute("z"),
                root.all("c").len()
            ),
            (">", "", 1)
        );
        let names: Vec<&str> = root.children.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(root.children[0].text, None);
        let deep = "<a>".repeat(1000);
        for bad in [
            "",
            "x",
            "<a>",
            "<a></b>",
            "<a b></a>",
            "<a>&x;</a>",
            "<a/><b/>",
            &deep,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
