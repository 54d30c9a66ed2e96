//! Regular expressions in templates, which anybody may have written: a search is paid for before it begins.
//!
//! A step is about a hundred nanoseconds. `regex` takes time proportional to the text, times the size of the pattern if its
//! automaton cannot be built; `fancy-regex` tries again for each step back, so it gets few of them first, and more only
//! after those are paid for.

use super::{
    BACKTRACK_LIMIT, DFA_LIMIT, Engine, PyRegex, RegexFlags, RegexReplaced, RegexTemplate,
    SIZE_LIMIT,
};

/// Bytes of text that an automaton reads in one step.
const BYTES_PER_STEP: usize = 128;
/// With more places than this that match several characters, the automaton may have too many states to be built.
const MAX_WILD: usize = 12;
/// Places times bytes that a search without an automaton tests in one step.
const TESTS_PER_STEP: usize = 64;
/// Steps to compile a pattern, a place, and a place that matches several characters: a class of Unicode is large.
const COMPILE: (usize, usize, usize) = (100, 5, 300);
/// Steps back that are tried first, and by how many times they grow.
const FIRST_LIMIT: usize = 1000;
const GROWTH: usize = 4;
/// Bytes of text that one step back may read again without further cost.
const FREE_BYTES: usize = 1024;

/// Positions of a match: the whole, then its groups.
type Spans = Vec<Option<(usize, usize)>>;

/// Who pays for searches.
pub trait RegexMeter {
    /// They cannot.
    type Error;

    /// Pays for steps.
    ///
    /// # Errors
    /// There are not as many left.
    fn steps(&mut self, steps: usize) -> Result<(), Self::Error>;

    /// Called with the length of the new text after each replacement.
    ///
    /// # Errors
    /// It is too long.
    fn grown(&mut self, length: usize) -> Result<(), Self::Error>;
}

/// A pattern whose searches are paid for.
#[derive(Clone, Debug)]
pub struct MeteredRegex {
    /// The pattern.
    pub regex: PyRegex,
    weight: Weight,
}

impl MeteredRegex {
    /// Compiles a pattern. The inner error says why it cannot be used.
    ///
    /// # Errors
    /// Those of the meter.
    pub fn new<M: RegexMeter>(
        pattern: &str,
        mode: RegexFlags,
        meter: &mut M,
    ) -> Result<Result<MeteredRegex, String>, M::Error> {
        let regex = match PyRegex::with_flags(pattern, mode) {
            Ok(regex) => regex,
            Err(why) => return Ok(Err(why)),
        };
        // Of the translated pattern, which has no comments that could hide something.
        let weight = Weight::of(match &regex.0 {
            Engine::Linear(regex) => regex.as_str(),
            Engine::Backtracking(regex) => regex.as_str(),
        });
        meter.steps(weight.compile())?;
        Ok(Ok(MeteredRegex { regex, weight }))
    }

    /// As [`PyRegex::captures`].
    ///
    /// # Errors
    /// Those of the meter, which is asked for too much if the search takes too long.
    pub fn captures<M: RegexMeter>(
        &self,
        text: &str,
        from: usize,
        meter: &mut M,
    ) -> Result<Option<Spans>, M::Error> {
        let length = text.len().saturating_sub(from);
        match &self.regex.0 {
            Engine::Linear(_) => {
                meter.steps(self.weight.search(length))?;
                Ok(self.regex.captures(text, from))
            }
            Engine::Backtracking(regex) => self.try_back(regex.as_str(), text, from, meter),
        }
    }

    fn try_back<M: RegexMeter>(
        &self,
        pattern: &str,
        text: &str,
        from: usize,
        meter: &mut M,
    ) -> Result<Option<Spans>, M::Error> {
        let length = text.len().saturating_sub(from);
        let mut limit = FIRST_LIMIT;
        while limit < BACKTRACK_LIMIT * GROWTH {
            let limited = limit.min(BACKTRACK_LIMIT);
            let again = self.weight.compile() / 8;
            let back = (limited / 4).saturating_mul(1 + length / FREE_BYTES);
            meter.steps(again.saturating_add(back))?;
            let regex = fancy_regex::RegexBuilder::new(pattern)
                .backtrack_limit(limited)
                .delegate_size_limit(SIZE_LIMIT)
                .delegate_dfa_size_limit(DFA_LIMIT)
                .build();
            match regex.map(|regex| spans(&regex, text, from)) {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(())) => limit *= GROWTH,
                // It was compiled before.
                Err(_) => break,
            }
        }
        meter.steps(usize::MAX)?;
        Ok(None)
    }

    /// As [`PyRegex::replace`] of all matches.
    ///
    /// # Errors
    /// Those of the meter.
    pub fn replace<M: RegexMeter>(
        &self,
        text: &str,
        template: &RegexTemplate,
        meter: &mut M,
    ) -> Result<RegexReplaced, M::Error> {
        self.regex.replace_by(
            text,
            template,
            0,
            meter,
            |at, meter| self.captures(text, at, meter),
            |length, meter| meter.grown(length),
        )
    }
}

fn spans(regex: &fancy_regex::Regex, text: &str, from: usize) -> Result<Option<Spans>, ()> {
    let found = regex.captures_from_pos(text, from).map_err(drop)?;
    Ok(found.map(|found| {
        let groups = found.iter();
        groups.map(|m| m.map(|m| (m.start(), m.end()))).collect()
    }))
}

/// How large a pattern is with its counted repetitions written out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weight {
    /// Characters and classes.
    places: usize,
    /// Those of them that match several characters.
    wild: usize,
}

impl Weight {
    fn of(pattern: &str) -> Weight {
        // For each open group, what stands before it, and the item that a quantifier would repeat.
        let mut open = vec![(Weight::default(), Weight::default())];
        let mut chars = pattern.chars().peekable();
        while let Some(c) = chars.next() {
            let item = match c {
                '(' => {
                    open.push(Default::default());
                    continue;
                }
                ')' if open.len() > 1 => {
                    let (before, last) = open.pop().unwrap_or_default();
                    before.plus(last)
                }
                '{' => match repetition(&mut chars) {
                    None => Weight::ONE,
                    Some(count) => {
                        if let Some((_, last)) = open.last_mut() {
                            *last = last.times(count);
                        }
                        continue;
                    }
                },
                '*' | '+' | '?' | '|' | '^' | '$' => continue,
                '[' => {
                    skip_class(&mut chars);
                    Weight::WILD
                }
                '.' => Weight::WILD,
                '\\' => match chars.next() {
                    Some('w' | 'W' | 'd' | 'D' | 's' | 'S' | 'p' | 'P') => Weight::WILD,
                    // A back reference matches anything.
                    Some('1'..='9') => Weight::WILD,
                    _ => Weight::ONE,
                },
                _ => Weight::ONE,
            };
            if let Some((before, last)) = open.last_mut() {
                *before = before.plus(*last);
                *last = item;
            }
        }
        let all = open.into_iter();
        all.fold(Weight::default(), |sum, (before, last)| {
            sum.plus(before).plus(last)
        })
    }

    const ONE: Weight = Weight { places: 1, wild: 0 };
    const WILD: Weight = Weight { places: 1, wild: 1 };

    fn plus(self, other: Weight) -> Weight {
        Weight {
            places: self.places.saturating_add(other.places),
            wild: self.wild.saturating_add(other.wild),
        }
    }

    fn times(self, count: usize) -> Weight {
        Weight {
            places: self.places.saturating_mul(count),
            wild: self.wild.saturating_mul(count),
        }
    }

    /// Steps to compile it.
    fn compile(self) -> usize {
        let (all, place, wild) = COMPILE;
        let places = self.places.saturating_mul(place);
        places.saturating_add(self.wild.saturating_mul(wild)) + all
    }

    /// Steps to search this much text in linear time.
    fn search(self, length: usize) -> usize {
        if self.wild <= MAX_WILD {
            return 1 + length / BYTES_PER_STEP;
        }
        1 + length.saturating_mul(self.places) / TESTS_PER_STEP
    }
}

/// How often the item before an open brace may be repeated; `None` if this is an ordinary brace.
fn repetition(chars: &mut std::iter::Peekable<std::str::Chars>) -> Option<usize> {
    let mut ahead = chars.clone();
    let digits = |c: &char| c.is_ascii_digit() || *c == ',';
    let text: String = std::iter::from_fn(|| ahead.next_if(digits)).collect();
    let numbers = text.split(',').filter(|n| !n.is_empty());
    let most = numbers.map(|n| n.parse().unwrap_or(usize::MAX)).max()?;
    if ahead.next() != Some('}') {
        return None;
    }
    *chars = ahead;
    Some(most.saturating_add(text.ends_with(',').into()).max(1))
}

/// Skips to the end of a class, after its bracket.
fn skip_class(chars: &mut std::iter::Peekable<std::str::Chars>) {
    let _ = chars.next_if_eq(&'^');
    let _ = chars.next_if_eq(&']');
    while let Some(c) = chars.next() {
        match c {
            ']' => return,
            '\\' => drop(chars.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts steps, up to a number.
    struct Purse(usize);

    impl RegexMeter for Purse {
        type Error = &'static str;

        fn steps(&mut self, steps: usize) -> Result<(), &'static str> {
            self.0 = self.0.checked_sub(steps).ok_or("empty")?;
            Ok(())
        }

        fn grown(&mut self, _: usize) -> Result<(), &'static str> {
            self.steps(10)
        }
    }

    const FUEL: usize = 20_000_000;

    /// Steps that a search takes; the error if they are too many.
    fn search(pattern: &str, text: &str) -> Result<usize, &'static str> {
        let mut purse = Purse(FUEL);
        let regex = MeteredRegex::new(pattern, RegexFlags::default(), &mut purse)?;
        let regex = regex.map_err(|_| "not a pattern")?;
        let _ = regex.captures(text, 0, &mut purse)?;
        Ok(FUEL - purse.0)
    }

    #[test]
    fn weights() {
        let weight = |pattern| {
            let Weight { places, wild } = Weight::of(pattern);
            (places, wild)
        };
        assert_eq!(weight(""), (0, 0));
        assert_eq!(weight(r"^ab|c\.*$"), (4, 0));
        assert_eq!(weight(r"(\d{1,3}\.){3}\d+"), (13, 10));
        assert_eq!(weight(r"[]a-z\]]x{5}(.|y)"), (8, 2));
        assert_eq!(weight("((a{1000}){1000}){1000}"), (1_000_000_000, 0));
        assert_eq!(
            weight("(((.{9999999999}){9999999999}){9999999999}").1,
            usize::MAX
        );
        assert_eq!(weight("a)("), (2, 0));
        // Nothing is hidden by a brace, and a repetition without an end counts.
        assert_eq!(weight("{[ab]{900}"), (901, 900));
        assert_eq!(weight("a{0,}b{2,}"), (4, 0));
    }

    #[test]
    fn ordinary_searches_cost_little() {
        let text = "net.ipv4.conf.eth0.forwarding = 1\n".repeat(30);
        for pattern in [
            r"^\s*(\S+)\s*=\s*(\d+)$",
            "eth[0-9]+",
            r"(?<!x)eth0\.(?=forwarding)",
            r"\b([0-9a-f]{8})-([0-9a-f]{4})\b",
        ] {
            let steps = search(pattern, &text).unwrap();
            assert!(steps < 20_000, "{pattern}: {steps}");
        }
    }

    #[test]
    fn searches_that_take_long_are_refused_or_cost_much() {
        let text = "ab".repeat(100_000);
        assert_eq!(search(r"\w{100000}", ""), Err("not a pattern"));
        assert_eq!(search("(?:(?=)|(?=)){18}z|db1", "db1"), Err("empty"));
        assert_eq!(search("(a|b)*a[ab]{900}c", &text.repeat(10)), Err("empty"));
        // More than the states that an automaton could have.
        for pattern in ["(a|b)*a[ab]{90}c", "(?x) #[\n ([ab]{90}) c"] {
            let compiled = search(pattern, "").unwrap();
            let searched = search(pattern, &text[..2000]).unwrap();
            assert!(searched > compiled + 2000, "{pattern}: {searched}");
        }
        // Each match reads to the end of the text.
        let mut purse = Purse(20_000);
        let regex = MeteredRegex::new("a(?:.*c)?", RegexFlags::default(), &mut purse);
        let regex = regex.unwrap().unwrap();
        let template = RegexTemplate::new("x", &regex.regex).unwrap();
        let replaced = regex.replace(&text[..20_000], &template, &mut purse);
        assert_eq!(replaced.err(), Some("empty"));
    }

    #[test]
    fn results_are_those_without_a_meter() {
        let text = "one two  three";
        for (pattern, template) in [(r"\s+", "-"), (r"(?<=t)(.)(.)", r"\2\1"), ("x*", "_")] {
            let mut purse = Purse(FUEL);
            let mode = RegexFlags {
                exact: true,
                ..RegexFlags::default()
            };
            let metered = MeteredRegex::new(pattern, mode, &mut purse)
                .unwrap()
                .unwrap();
            let template = RegexTemplate::new(template, &metered.regex).unwrap();
            let plain = metered
                .regex
                .replace(text, &template, 0, |_| Ok::<(), ()>(()));
            let paid = metered.replace(text, &template, &mut purse).unwrap();
            let plain = plain.unwrap();
            assert_eq!((plain.text, plain.count), (paid.text, paid.count));
            assert_eq!(
                metered.regex.captures(text, 2),
                metered.captures(text, 2, &mut purse).unwrap()
            );
        }
    }
}
