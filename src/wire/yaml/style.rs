//! The styles a scalar can be written in (libyaml `yaml_emitter_analyze_scalar`,
//! `yaml_emitter_select_scalar_style`).

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Without quotes.
    Plain,
    /// In single quotes.
    Single,
    /// In double quotes, with escapes.
    Double,
    /// A block after `|`.
    Literal,
}

/// The styles that the characters of a scalar allow.
#[derive(Debug, Default)]
pub struct Analysis {
    empty: bool,
    multiline: bool,
    flow_plain: bool,
    block_plain: bool,
    single: bool,
    block: bool,
}

/// Whether a character ends a line.
pub fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Characters that libyaml writes unescaped; those beyond the basic plane are not among them.
pub(crate) fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && c != '\u{feff}'
}

/// What a scan of the text found.
#[derive(Default)]
struct Seen {
    block_indicators: bool,
    flow_indicators: bool,
    line_breaks: bool,
    special: bool,
    space_at_start: bool,
    space_at_end: bool,
    break_at_start: bool,
    break_at_end: bool,
    break_then_space: bool,
    space_then_break: bool,
}

impl Seen {
    fn indicator(&mut self, c: char, first: bool, after_blank: bool, before_blank: bool) {
        match c {
            ',' | '[' | ']' | '{' | '}' if !first => self.flow_indicators = true,
            '#' if !first && !after_blank => {}
            '#' | ',' | '[' | ']' | '{' | '}' => self.both(),
            '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' if first => self.both(),
            '?' | ':' => {
                self.flow_indicators = true;
                self.block_indicators |= before_blank && (first || c == ':');
            }
            '-' if first && before_blank => self.both(),
            _ => {}
        }
    }

    fn both(&mut self) {
        self.block_indicators = true;
        self.flow_indicators = true;
    }
}

impl Analysis {
    /// Analyzes a scalar.
    pub fn of(text: &str) -> Analysis {
        if text.is_empty() {
            return Analysis {
                empty: true,
                block_plain: true,
                single: true,
                ..Analysis::default()
            };
        }
        let blank = |c: char| c == ' ' || c == '\t' || c == '\0' || is_break(c);
        let mut seen = Seen::default();
        if text.starts_with("---") || text.starts_with("...") {
            seen.both();
        }
        let mut before: Option<char> = None;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let first = before.is_none();
            let last = chars.peek().is_none();
            let before_blank = chars.peek().is_none_or(|n| blank(*n));
            seen.indicator(c, first, before.is_none_or(blank), before_blank);
            seen.special |= !is_printable(c);
            if c == ' ' {
                seen.space_at_start |= first;
                seen.space_at_end |= last;
                seen.break_then_space |= before.is_some_and(is_break);
            } else if is_break(c) {
                seen.line_breaks = true;
                seen.break_at_start |= first;
                seen.break_at_end |= last;
                seen.space_then_break |= before == Some(' ');
            }
            before = Some(c);
        }
        Analysis::from_seen(&seen)
    }

    fn from_seen(seen: &Seen) -> Analysis {
        let edges =
            seen.space_at_start || seen.space_at_end || seen.break_at_start || seen.break_at_end;
        let double = seen.space_then_break || seen.special;
        let plain = !edges && !seen.break_then_space && !double && !seen.line_breaks;
        Analysis {
            empty: false,
            multiline: seen.line_breaks,
            flow_plain: plain && !seen.flow_indicators,
            block_plain: plain && !seen.block_indicators,
            single: !seen.break_then_space && !double,
            block: !seen.space_at_end && !double,
        }
    }

    /// Plain if the text allows it, else quoted.
    pub fn plain_style(&self, simple_key: bool, flow: bool) -> Style {
        if simple_key && self.multiline {
            return Style::Double;
        }
        let allowed = if flow {
            self.flow_plain
        } else {
            self.block_plain
        };
        if !allowed || (self.empty && (simple_key || flow)) {
            return self.quoted_style(simple_key);
        }
        Style::Plain
    }

    /// Single quotes if the text allows them, else double.
    pub fn quoted_style(&self, simple_key: bool) -> Style {
        if !self.single || (simple_key && self.multiline) {
            return Style::Double;
        }
        Style::Single
    }

    /// A literal block if the text and its context allow it, else double quotes.
    pub fn block_style(&self, inline: bool) -> Style {
        if !self.block || inline {
            return Style::Double;
        }
        Style::Literal
    }
}

/// The escape of a character within double quotes.
pub fn escape(c: char) -> String {
    let short = match c {
        '\0' => '0',
        '\x07' => 'a',
        '\x08' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\x0b' => 'v',
        '\x0c' => 'f',
        '\r' => 'r',
        '\x1b' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        other => {
            return match other as u32 {
                n @ ..=0xff => format!("\\x{n:02X}"),
                n @ ..=0xffff => format!("\\u{n:04X}"),
                n => format!("\\U{n:08X}"),
            };
        }
    };
    format!("\\{short}")
}
