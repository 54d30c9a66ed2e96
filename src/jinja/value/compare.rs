//! Python's equality, ordering and hashing.

use super::containers::hash_str;
use super::{Obj, Range};
use crate::error::Error;
use num_bigint::BigInt;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// Maximum nesting of containers in comparisons, printing and hashing.
pub const DEPTH: usize = 120;
/// Maximum number of elements visited by one comparison.
const STEPS: usize = 20_000_000;

/// The remaining work allowed for one operation on nested containers.
///
/// Containers that contain each other several times are small in memory but take forever to walk.
pub struct Budget {
    depth: usize,
    steps: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            depth: DEPTH,
            steps: STEPS,
        }
    }
}

impl Budget {
    /// Enters a nested container.
    ///
    /// # Errors
    /// The containers are nested too deeply, or too large.
    pub fn enter(&mut self) -> Result<(), Error> {
        self.step()?;
        if self.depth == 0 {
            return Err(Error::limit("containers are nested too deeply"));
        }
        self.depth -= 1;
        Ok(())
    }

    /// Leaves a nested container.
    pub fn leave(&mut self) {
        self.depth += 1;
    }

    /// Visits one element.
    ///
    /// # Errors
    /// Too many elements.
    pub fn step(&mut self) -> Result<(), Error> {
        match self.steps.checked_sub(1) {
            Some(rest) => self.steps = rest,
            None => return Err(Error::limit("containers hold too many elements")),
        }
        Ok(())
    }
}

/// An order comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmpOp {
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl CmpOp {
    fn sign(self) -> &'static str {
        match self {
            CmpOp::Lt => "<",
            CmpOp::Le => "<=",
            CmpOp::Gt => ">",
            CmpOp::Ge => ">=",
        }
    }

    /// Whether the ordering of two values satisfies the comparison.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            CmpOp::Lt => order == Ordering::Less,
            CmpOp::Le => order != Ordering::Greater,
            CmpOp::Gt => order == Ordering::Greater,
            CmpOp::Ge => order != Ordering::Less,
        }
    }
}

pub(super) fn big_to_f64(big: &BigInt) -> f64 {
    // Parsing the digits gives the nearest float, or infinity.
    big.to_string().parse().unwrap_or(f64::INFINITY)
}

/// Compares two numbers of any types; `None` if one is not a number or NaN.
fn compare_numbers(a: &Obj, b: &Obj) -> Option<Ordering> {
    match (a, b) {
        (Obj::Float(_), _) | (_, Obj::Float(_)) => {
            let exact = |f: &Obj, i: &Obj| match (f, i.as_int()) {
                // Above 53 bits, converting to float would round.
                (Obj::Float(f), Some(i)) if f.is_finite() && f.abs() < 9.3e18 => {
                    Some((f.trunc() as i128, i128::from(i), f.fract()))
                }
                _ => None,
            };
            let order = |(whole, i, fract): (i128, i128, f64)| {
                whole
                    .cmp(&i)
                    .then(fract.partial_cmp(&0.0).unwrap_or(Ordering::Equal))
            };
            if let Some(parts) = exact(a, b) {
                return Some(order(parts));
            }
            if let Some(parts) = exact(b, a) {
                return Some(order(parts).reverse());
            }
            a.as_float()?.partial_cmp(&b.as_float()?)
        }
        (Obj::Big(_), _) | (_, Obj::Big(_)) => Some(a.as_bigint()?.cmp(&b.as_bigint()?)),
        _ => Some(a.as_int()?.cmp(&b.as_int()?)),
    }
}

fn is_number(obj: &Obj) -> bool {
    matches!(
        obj,
        Obj::Bool(_) | Obj::Int(_) | Obj::Big(_) | Obj::Float(_)
    )
}

fn ranges_equal(a: &Range, b: &Range) -> bool {
    a.len() == b.len() && a.at(0) == b.at(0) && (a.len() < 2 || a.step == b.step)
}

impl Obj {
    /// `self == other`.
    ///
    /// # Errors
    /// A strict undefined value, or endless containers.
    pub fn equals(&self, other: &Obj) -> Result<bool, Error> {
        self.equals_within(other, &mut Budget::default())
    }

    /// [`Obj::equals`] as part of a larger operation.
    ///
    /// # Errors
    /// A strict undefined value, or the budget is used up.
    pub fn equals_within(&self, other: &Obj, budget: &mut Budget) -> Result<bool, Error> {
        if let (Some(a), Some(b)) = (self.as_str(), other.as_str()) {
            return Ok(a == b);
        }
        if is_number(self) && is_number(other) {
            return Ok(compare_numbers(self, other) == Some(Ordering::Equal));
        }
        match (self, other) {
            (Obj::Undefined(a), b) => {
                a.check()?;
                Ok(b.is_undefined())
            }
            (_, Obj::Undefined(b)) => {
                b.check()?;
                Ok(false)
            }
            (Obj::None, Obj::None) => Ok(true),
            (Obj::Bytes(a), Obj::Bytes(b)) => Ok(a == b),
            (Obj::List(a), Obj::List(b)) => {
                if std::rc::Rc::ptr_eq(a, b) {
                    return Ok(true);
                }
                slices_equal(&a.borrow(), &b.borrow(), budget)
            }
            (Obj::Tuple(a), Obj::Tuple(b)) => slices_equal(a, b, budget),
            (Obj::Dict(a), Obj::Dict(b)) => {
                if std::rc::Rc::ptr_eq(a, b) {
                    return Ok(true);
                }
                dicts_equal(&a.borrow(), &b.borrow(), budget)
            }
            (Obj::Set(a), Obj::Set(b)) => {
                let (a, b) = (a.borrow(), b.borrow());
                if a.len() != b.len() {
                    return Ok(false);
                }
                for item in a.iter() {
                    budget.step()?;
                    if !b.contains(item)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Obj::Range(a), Obj::Range(b)) => Ok(ranges_equal(a, b)),
            (Obj::View(a), Obj::View(b)) => {
                if a.kind == super::ViewKind::Values || b.kind == super::ViewKind::Values {
                    return Ok(std::rc::Rc::ptr_eq(a, b));
                }
                let (a, b) = (super::Set::of(a.items())?, super::Set::of(b.items())?);
                Obj::set(a).equals_within(&Obj::set(b), budget)
            }
            _ => Ok(self.same(other)),
        }
    }

    /// `self < other` and the other comparisons.
    ///
    /// # Errors
    /// The types cannot be ordered.
    pub fn compare(&self, op: CmpOp, other: &Obj) -> Result<bool, Error> {
        // Sets are partially ordered, by inclusion.
        if let (Obj::Set(a), Obj::Set(b)) = (self, other) {
            return sets_compare(&a.borrow(), op, &b.borrow());
        }
        let order = self.order_within(op, other, &mut Budget::default())?;
        Ok(order.is_some_and(|order| op.holds(order)))
    }

    /// The ordering of two values for sorting: by Python's `<`.
    ///
    /// # Errors
    /// The types cannot be ordered.
    pub fn order(&self, other: &Obj) -> Result<Ordering, Error> {
        let order = self.order_within(CmpOp::Lt, other, &mut Budget::default())?;
        Ok(order.unwrap_or(Ordering::Equal))
    }

    fn order_within(
        &self,
        op: CmpOp,
        other: &Obj,
        budget: &mut Budget,
    ) -> Result<Option<Ordering>, Error> {
        if let (Some(a), Some(b)) = (self.as_str(), other.as_str()) {
            return Ok(Some(a.cmp(b)));
        }
        if is_number(self) && is_number(other) {
            return Ok(compare_numbers(self, other));
        }
        match (self, other) {
            (Obj::Undefined(missing), _) | (_, Obj::Undefined(missing)) => Err(missing.error()),
            (Obj::Bytes(a), Obj::Bytes(b)) => Ok(Some(a.cmp(b))),
            (Obj::List(a), Obj::List(b)) => slices_order(&a.borrow(), op, &b.borrow(), budget),
            (Obj::Tuple(a), Obj::Tuple(b)) => slices_order(a, op, b, budget),
            _ => Err(Error::type_error(format!(
                "'{}' not supported between instances of '{}' and '{}'",
                op.sign(),
                self.type_name(),
                other.type_name()
            ))),
        }
    }

    /// Checks that the value can be a dict key.
    ///
    /// # Errors
    /// Lists, dicts, sets and strict undefined values.
    pub fn check_hashable(&self) -> Result<(), Error> {
        self.check_hashable_within(&mut Budget::default())
    }

    fn check_hashable_within(&self, budget: &mut Budget) -> Result<(), Error> {
        match self {
            Obj::List(_) | Obj::Dict(_) | Obj::Set(_) => Err(Error::type_error(format!(
                "unhashable type: '{}'",
                self.type_name()
            ))),
            Obj::Undefined(missing) => missing.check(),
            Obj::Tuple(items) => {
                budget.enter()?;
                for item in items.iter() {
                    item.check_hashable_within(budget)?;
                }
                budget.leave();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn hash_into<H: Hasher>(&self, state: &mut H) {
        match self {
            Obj::Str(text) | Obj::Markup(text) => hash_str(text, state),
            Obj::Bool(_) | Obj::Int(_) => (2u8, self.as_int()).hash(state),
            Obj::Float(f) if f.fract() == 0.0 && f.abs() < 9.2e18 => {
                (2u8, Some(*f as i64)).hash(state);
            }
            Obj::Float(f) => (3u8, f.to_bits()).hash(state),
            Obj::Big(big) => (3u8, big_to_f64(big).to_bits()).hash(state),
            Obj::Bytes(bytes) => (4u8, bytes).hash(state),
            Obj::Tuple(items) => {
                (5u8, items.len()).hash(state);
                items.iter().for_each(|item| item.hash_into(state));
            }
            Obj::None => state.write_u8(6),
            Obj::Undefined(_) => state.write_u8(7),
            Obj::Range(range) => (8u8, range.len(), range.at(0)).hash(state),
            _ => state.write_u8(9),
        }
    }
}

fn slices_equal(a: &[Obj], b: &[Obj], budget: &mut Budget) -> Result<bool, Error> {
    if a.len() != b.len() {
        return Ok(false);
    }
    budget.enter()?;
    for (x, y) in a.iter().zip(b) {
        budget.step()?;
        if !x.same(y) && !x.equals_within(y, budget)? {
            budget.leave();
            return Ok(false);
        }
    }
    budget.leave();
    Ok(true)
}

fn dicts_equal(a: &super::Dict, b: &super::Dict, budget: &mut Budget) -> Result<bool, Error> {
    use super::DictKind::Ordered;
    if a.len() != b.len() {
        return Ok(false);
    }
    budget.enter()?;
    let in_order = a.kind == Ordered && b.kind == Ordered;
    for (n, (key, value)) in a.iter().enumerate() {
        budget.step()?;
        let other = match b.at(n) {
            Some((same, other)) if in_order => same.equals(key)?.then_some(other),
            _ => b.get(key)?,
        };
        let equal = match other {
            Some(other) => value.same(other) || value.equals_within(other, budget)?,
            None => false,
        };
        if !equal {
            budget.leave();
            return Ok(false);
        }
    }
    budget.leave();
    Ok(true)
}

fn slices_order(
    a: &[Obj],
    op: CmpOp,
    b: &[Obj],
    budget: &mut Budget,
) -> Result<Option<Ordering>, Error> {
    budget.enter()?;
    for (x, y) in a.iter().zip(b) {
        budget.step()?;
        if x.same(y) || x.equals_within(y, budget)? {
            continue;
        }
        let order = x.order_within(op, y, budget)?;
        budget.leave();
        return Ok(order);
    }
    budget.leave();
    Ok(Some(a.len().cmp(&b.len())))
}

fn sets_compare(a: &super::Set, op: CmpOp, b: &super::Set) -> Result<bool, Error> {
    let within = |small: &super::Set, large: &super::Set| -> Result<bool, Error> {
        for item in small.iter() {
            if !large.contains(item)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    Ok(match op {
        CmpOp::Le => within(a, b)?,
        CmpOp::Lt => a.len() < b.len() && within(a, b)?,
        CmpOp::Ge => within(b, a)?,
        CmpOp::Gt => b.len() < a.len() && within(b, a)?,
    })
}
