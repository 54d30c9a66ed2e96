//! The files of routes.

use super::{
    Call, CallError, Result, SCRIPTS, attribute, iface, is_test, key_error, keywords, lines,
    lines_of, lower_case, python, write,
};
use halite_wire::{Map, Value};

/// One route: a line with its name, which is empty if it has none, and one for the kernel.
fn line(route: &Map, iface: &str) -> Result<String> {
    let given = |key: &str| route.get(key).filter(|v| v.truthy()).map(python::str);
    let target = route.get("ipaddr").ok_or_else(|| key_error("ipaddr"))?;
    let mut out = given("name").map_or(String::new(), |name| format!("# {name}"));
    out += &format!("\n{}", python::str(target));
    if let Some(mask) = given("netmask") {
        out += &format!("/{mask}");
    }
    out += &match given("gateway") {
        Some(gateway) => format!(" via {gateway}"),
        None => format!(" dev {iface}"),
    };
    if let Some(metric) = given("metric") {
        out += &format!(" metric {metric}");
    }
    Ok(out + "\n")
}

/// What stock says of a text in place of a route.
fn no_route() -> CallError {
    CallError::Type("string indices must be integers, not 'str'".to_owned())
}

/// The lines of both files.
fn both(four: Value, six: Value) -> Value {
    let mut all = four.str_list();
    all.extend(six.str_list());
    all.into()
}

/// `ip.get_routes`.
pub fn get(call: &mut Call<'_>) -> Result {
    let name = iface(call)?;
    let read = |kind: &str| lines_of(&format!("{SCRIPTS}/{kind}-{name}"));
    Ok(both(read("route")?, read("route6")?))
}

/// `ip.build_routes`.
pub fn build(call: &mut Call<'_>) -> Result {
    let name = iface(call)?;
    let opts = lower_case(keywords(call));
    let Some(routes) = opts.get("routes") else {
        return Err(attribute(format!(
            "Invalid option -- Route interface: {name}, Option: routes, Expected: [List of routes]"
        )));
    };
    if matches!(routes, Value::Str(_)) {
        return Err(no_route());
    }
    let (mut four, mut six) = (String::new(), String::new());
    for route in routes.as_array().unwrap_or_default() {
        let Some(route) = route.as_map() else {
            return Err(no_route());
        };
        let text = line(route, &name)?;
        let target = route.get("ipaddr").map(python::str).unwrap_or_default();
        if target.contains(':') {
            six += &text;
        } else {
            four += &text;
        }
    }
    if is_test(&opts) {
        return Ok(both(lines(&four), lines(&six)));
    }
    write(&format!("route-{name}"), &four)?;
    write(&format!("route6-{name}"), &six)?;
    get(call)
}
