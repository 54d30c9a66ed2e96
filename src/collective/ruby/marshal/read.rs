//! From bytes to a [`Datum`].

use super::VERSION;
use crate::ruby::error::{DatumError, budget};
use crate::ruby::{Datum, pairs};
use halite_wire::budget::{Budget, Exceeded, MAX_DEPTH, deeper};

/// Reads the output of `Marshal.dump`.
///
/// Strings in UTF-8 or ASCII become [`Datum::Str`], all others [`Datum::Bytes`]. The default of a hash is ignored; of
/// duplicate keys the last is used.
///
/// # Errors
/// Truncated or trailing bytes, types other than data, links to a container that is not complete yet, or an exceeded limit.
pub fn read(data: &[u8]) -> Result<Datum, DatumError> {
    let budget = budget(data.len())?;
    if !data.starts_with(&VERSION) {
        return Err(malformed("it does not start with Marshal's version 4.8"));
    }
    let mut reader = Reader {
        data,
        at: VERSION.len(),
        budget,
        nodes: Vec::new(),
        objects: Vec::new(),
        symbols: Vec::new(),
    };
    let root = reader.value(0)?;
    if reader.at != data.len() {
        return Err(malformed("something follows the value"));
    }
    Ok(build(&reader.nodes, root))
}

fn malformed(what: &str) -> DatumError {
    DatumError::Malformed(format!("as Marshal, {what}"))
}

/// Index of a node; a link repeats the index of its target.
type Id = usize;

enum NodeKind {
    /// An array or hash that is not complete yet.
    Open,
    Leaf(Datum),
    Array(Vec<Id>),
    Hash(Vec<(Id, Id)>),
}

/// A value, and the cost of one more copy of it.
struct Node {
    kind: NodeKind,
    values: usize,
    bytes: usize,
    /// Nesting depth, including itself.
    height: usize,
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    budget: Budget,
    nodes: Vec<Node>,
    /// Targets of links, in Ruby's numbering.
    objects: Vec<Id>,
    symbols: Vec<String>,
}

/// The encoding of a string.
#[derive(Clone, Copy, PartialEq)]
enum Encoding {
    Binary,
    Ascii,
    Utf8,
    /// A superset of ASCII.
    Other,
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, DatumError> {
        let byte = self
            .data
            .get(self.at)
            .ok_or_else(|| malformed("it is cut off"))?;
        self.at += 1;
        Ok(*byte)
    }

    fn left(&self) -> usize {
        self.data.len() - self.at
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8], DatumError> {
        if length > self.left() {
            return Err(malformed("it is cut off"));
        }
        let slice = &self.data[self.at..self.at + length];
        self.at += length;
        Ok(slice)
    }

    /// A packed integer, as used for lengths and Fixnums.
    fn packed(&mut self) -> Result<i32, DatumError> {
        let first = self.byte()? as i8;
        Ok(match first {
            0 => 0,
            5..=127 => i32::from(first) - 5,
            -128..=-5 => i32::from(first) + 5,
            1..=4 | -4..=-1 => {
                let bytes = self.slice(usize::from(first.unsigned_abs()))?;
                let mut wide = [if first < 0 { 0xff } else { 0 }; 8];
                wide[..bytes.len()].copy_from_slice(bytes);
                let number = i64::from_le_bytes(wide);
                i32::try_from(number).map_err(|_| malformed("a number is beyond 32 bits"))?
            }
        })
    }

    /// A count of items of at least `each` bytes; checked before anything is allocated.
    fn count(&mut self, each: usize) -> Result<usize, DatumError> {
        let count = self.packed()?;
        let count = usize::try_from(count).map_err(|_| malformed("a length is negative"))?;
        if count > self.left() / each {
            return Err(malformed(
                "a length exceeds the remaining input, which is cut off",
            ));
        }
        Ok(count)
    }

    fn bytes(&mut self) -> Result<&'a [u8], DatumError> {
        let length = self.count(1)?;
        self.slice(length)
    }

    fn add(&mut self, node: Node) -> Id {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn leaf(&mut self, datum: Datum, bytes: usize) -> Result<Id, DatumError> {
        self.budget.take(1)?;
        self.budget.take_text(bytes)?;
        Ok(self.add(Node {
            kind: NodeKind::Leaf(datum),
            values: 1,
            bytes,
            height: 0,
        }))
    }

    /// A leaf that can be the target of links.
    fn object(&mut self, datum: Datum, bytes: usize) -> Result<Id, DatumError> {
        let id = self.leaf(datum, bytes)?;
        self.objects.push(id);
        Ok(id)
    }

    fn value(&mut self, depth: usize) -> Result<Id, DatumError> {
        match self.byte()? {
            b'0' => self.leaf(Datum::Nil, 0),
            b'T' => self.leaf(Datum::Bool(true), 0),
            b'F' => self.leaf(Datum::Bool(false), 0),
            b'i' => {
                let number = self.packed()?;
                self.leaf(Datum::Int(number.into()), 0)
            }
            b'l' => {
                let number = self.bignum()?;
                self.object(Datum::Int(number), 0)
            }
            b'f' => {
                let number = float(self.bytes()?)?;
                self.object(Datum::Float(number), 0)
            }
            b':' => {
                let name = self.symbol(false)?;
                self.symbol_leaf(name)
            }
            b';' => {
                let name = self.symbol_link()?;
                self.symbol_leaf(name)
            }
            b'"' => {
                let bytes = self.bytes()?;
                self.object(Datum::Bytes(bytes.to_vec()), bytes.len())
            }
            b'/' => self.regexp(false),
            b'I' => self.with_ivars(),
            b'[' => self.array(depth),
            b'{' => self.hash(depth, false),
            b'}' => self.hash(depth, true),
            b'@' => self.link(depth),
            other => Err(dangerous(other)),
        }
    }

    fn symbol_leaf(&mut self, name: usize) -> Result<Id, DatumError> {
        let text = self.symbols[name].clone();
        let length = text.len();
        self.leaf(Datum::Symbol(text), length)
    }

    /// Reads a symbol after its colon; returns its index in the table.
    fn symbol(&mut self, ivars: bool) -> Result<usize, DatumError> {
        let bytes = self.bytes()?;
        let text = std::str::from_utf8(bytes).map_err(|_| malformed("a symbol is not UTF-8"))?;
        self.symbols.push(text.to_owned());
        let place = self.symbols.len() - 1;
        if ivars {
            self.encoding()?;
        }
        Ok(place)
    }

    fn symbol_link(&mut self) -> Result<usize, DatumError> {
        let place = usize::try_from(self.packed()?).ok();
        place
            .filter(|place| *place < self.symbols.len())
            .ok_or_else(|| malformed("a link does not refer to a symbol before it"))
    }

    fn bignum(&mut self) -> Result<i128, DatumError> {
        let negative = match self.byte()? {
            b'+' => false,
            b'-' => true,
            _ => return Err(malformed("a number has no sign")),
        };
        let shorts = self.count(2)?;
        let bytes = self.slice(shorts * 2)?;
        let long = DatumError::TooLarge("127 bits in one number");
        let used = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
        if used > 16 {
            return Err(long);
        }
        let mut wide = [0; 16];
        wide[..used].copy_from_slice(&bytes[..used]);
        let number = i128::try_from(u128::from_le_bytes(wide)).map_err(|_| long)?;
        Ok(if negative { -number } else { number })
    }

    /// What follows an `I`: a value with instance variables, of which only those for the encoding are accepted.
    fn with_ivars(&mut self) -> Result<Id, DatumError> {
        match self.byte()? {
            b'"' => {
                let bytes = self.bytes()?;
                // It is numbered before its variables.
                let id = self.object(Datum::Nil, bytes.len())?;
                let encoding = self.encoding()?;
                self.nodes[id].kind = NodeKind::Leaf(string(bytes, encoding));
                Ok(id)
            }
            b':' => {
                let name = self.symbol(true)?;
                self.symbol_leaf(name)
            }
            b'/' => self.regexp(true),
            b'[' | b'{' | b'}' | b'l' | b'f' | b'0' | b'T' | b'F' | b'i' | b'@' | b';' | b'I' => {
                let what = "instance variables on something other than text";
                Err(DatumError::Dangerous(what.to_owned()))
            }
            other => Err(dangerous(other)),
        }
    }

    /// Instance variables of a text, all of which must be about its encoding.
    fn encoding(&mut self) -> Result<Encoding, DatumError> {
        let mut encoding = Encoding::Binary;
        for _ in 0..self.count(2)? {
            let name = match self.byte()? {
                b':' => self.symbol(false)?,
                b';' => self.symbol_link()?,
                _ => return Err(malformed("an instance variable is not named by a symbol")),
            };
            encoding = match self.symbols[name].as_str() {
                "E" => match self.byte()? {
                    b'T' => Encoding::Utf8,
                    b'F' => Encoding::Ascii,
                    _ => return Err(malformed("an encoding is neither true nor false")),
                },
                "encoding" => self.named_encoding()?,
                _ => {
                    let what = "an instance variable of a text";
                    return Err(DatumError::Dangerous(what.to_owned()));
                }
            };
        }
        Ok(encoding)
    }

    fn named_encoding(&mut self) -> Result<Encoding, DatumError> {
        let name = match self.byte()? {
            b'"' => {
                let bytes = self.bytes()?;
                self.object(Datum::Bytes(bytes.to_vec()), bytes.len())?;
                bytes.to_ascii_uppercase()
            }
            b'@' => {
                let id = self.linked()?;
                match &self.nodes[id].kind {
                    NodeKind::Leaf(datum) => {
                        datum.as_bytes().unwrap_or_default().to_ascii_uppercase()
                    }
                    _ => Vec::new(),
                }
            }
            _ => return Err(malformed("the name of an encoding is not a string")),
        };
        let wide = [&b"UTF-16"[..], b"UTF-32", b"UCS", b"ISO-2022", b"UTF-7"];
        Ok(match name.as_slice() {
            b"UTF-8" => Encoding::Utf8,
            b"US-ASCII" => Encoding::Ascii,
            b"ASCII-8BIT" | b"BINARY" => Encoding::Binary,
            name if wide.iter().any(|w| name.starts_with(w)) => Encoding::Binary,
            _ => Encoding::Other,
        })
    }

    fn regexp(&mut self, ivars: bool) -> Result<Id, DatumError> {
        let source = self.bytes()?;
        // Higher bits are the encoding of the text.
        let options = self.byte()? & 7;
        let id = self.object(Datum::Nil, source.len())?;
        if ivars {
            self.encoding()?;
        }
        let source = std::str::from_utf8(source);
        let source = source.map_err(|_| malformed("a regular expression is not UTF-8"))?;
        self.nodes[id].kind = NodeKind::Leaf(Datum::Regexp {
            source: source.to_owned(),
            options,
        });
        Ok(id)
    }

    fn open(&mut self) -> Result<Id, DatumError> {
        self.budget.take(1)?;
        let id = self.add(Node {
            kind: NodeKind::Open,
            values: 1,
            bytes: 0,
            height: 1,
        });
        self.objects.push(id);
        Ok(id)
    }

    /// Adds the cost of an element to its array or hash.
    fn hold(&mut self, id: Id, part: Id) {
        let Node {
            values,
            bytes,
            height,
            ..
        } = self.nodes[part];
        let node = &mut self.nodes[id];
        node.values += values;
        node.bytes += bytes;
        node.height = node.height.max(height + 1);
    }

    fn array(&mut self, depth: usize) -> Result<Id, DatumError> {
        let depth = deeper(depth)?;
        let id = self.open()?;
        let count = self.count(1)?;
        let mut items = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            let item = self.value(depth)?;
            self.hold(id, item);
            items.push(item);
        }
        self.nodes[id].kind = NodeKind::Array(items);
        Ok(id)
    }

    fn hash(&mut self, depth: usize, default: bool) -> Result<Id, DatumError> {
        let depth = deeper(depth)?;
        let id = self.open()?;
        let count = self.count(2)?;
        let mut pairs = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            let key = self.value(depth)?;
            let value = self.value(depth)?;
            self.hold(id, key);
            self.hold(id, value);
            pairs.push((key, value));
        }
        if default {
            self.value(depth)?;
        }
        self.nodes[id].kind = NodeKind::Hash(pairs);
        Ok(id)
    }

    fn linked(&mut self) -> Result<Id, DatumError> {
        let number = usize::try_from(self.packed()?).ok();
        let id = number.and_then(|number| self.objects.get(number).copied());
        let id = id.ok_or_else(|| malformed("a link does not refer to anything before it"))?;
        match self.nodes[id].kind {
            NodeKind::Open => {
                let what = "an array or hash that contains itself";
                Err(DatumError::Dangerous(what.to_owned()))
            }
            _ => Ok(id),
        }
    }

    fn link(&mut self, depth: usize) -> Result<Id, DatumError> {
        let id = self.linked()?;
        let node = &self.nodes[id];
        self.budget.take(node.values)?;
        self.budget.take_text(node.bytes)?;
        if depth + node.height > MAX_DEPTH {
            return Err(Exceeded::Depth.into());
        }
        Ok(id)
    }
}

/// Builds the value of a node. Cost and depth were checked when the nodes were read.
fn build(nodes: &[Node], id: Id) -> Datum {
    match &nodes[id].kind {
        NodeKind::Open => Datum::Nil,
        NodeKind::Leaf(datum) => datum.clone(),
        NodeKind::Array(items) => Datum::Array(items.iter().map(|id| build(nodes, *id)).collect()),
        NodeKind::Hash(pairs) => {
            let pairs = pairs
                .iter()
                .map(|(key, value)| (build(nodes, *key), build(nodes, *value)));
            Datum::Hash(pairs::unique(pairs))
        }
    }
}

fn string(bytes: &[u8], encoding: Encoding) -> Datum {
    let text = match encoding {
        Encoding::Binary => None,
        Encoding::Utf8 => std::str::from_utf8(bytes).ok(),
        Encoding::Ascii | Encoding::Other => {
            let text = std::str::from_utf8(bytes).ok();
            text.filter(|text| text.is_ascii())
        }
    };
    text.map_or_else(|| Datum::Bytes(bytes.to_vec()), Datum::from)
}

fn float(bytes: &[u8]) -> Result<f64, DatumError> {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    match text {
        "inf" => Ok(f64::INFINITY),
        "-inf" => Ok(f64::NEG_INFINITY),
        "nan" => Ok(f64::NAN),
        _ => {
            // Rust also parses words such as `inf`, which have other letters than an exponent.
            let plain = |b: u8| b.is_ascii_digit() || b"+-.eE".contains(&b);
            let number = text.parse().ok().filter(|_| text.bytes().all(plain));
            number.ok_or_else(|| malformed("a float is not a number"))
        }
    }
}

/// The error for a type that is refused.
fn dangerous(kind: u8) -> DatumError {
    let name = match kind {
        b'o' => "an object",
        b'u' => "an object with a dump of its own (_dump)",
        b'U' => "an object with a dump of its own (marshal_dump)",
        b'c' => "a class",
        b'm' => "a module",
        b'M' => "a class or module",
        b'e' => "an object that is extended by a module",
        b'C' => "an object of a subclass of String, Array, Hash or Regexp",
        b'S' => "a Struct",
        b'd' => "an object of a C library",
        _ => return malformed(&format!("the type {:?} is unknown", char::from(kind))),
    };
    DatumError::Dangerous(format!("{name} of Ruby"))
}
