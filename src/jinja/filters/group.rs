//! `groupby`.

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::value::{Args, Obj, Object};
use super::access::{Path, folded};
use super::sort::sorted;
use super::{FilterFn, flag};

pub(super) const TABLE: &[(&str, FilterFn)] = &[("groupby", groupby)];

/// A pair that also has names: `group.grouper` and `group.list`.
struct Group(Obj, Obj);

impl Group {
    fn tuple(&self) -> Obj {
        Obj::tuple(vec![self.0.clone(), self.1.clone()])
    }
}

impl Object for Group {
    fn type_name(&self) -> &str {
        "_GroupTuple"
    }

    fn get_attr(&self, _: &mut Cx, name: &str) -> Result<Option<Obj>, Error> {
        Ok(match name {
            "grouper" => Some(self.0.clone()),
            "list" => Some(self.1.clone()),
            _ => None,
        })
    }

    fn get_item(&self, _: &mut Cx, key: &Obj) -> Result<Option<Obj>, Error> {
        Ok(match key.as_int() {
            Some(0 | -2) => Some(self.0.clone()),
            Some(1 | -1) => Some(self.1.clone()),
            _ => None,
        })
    }

    fn iter(&self, _: &mut Cx) -> Result<Option<Vec<Obj>>, Error> {
        Ok(Some(vec![self.0.clone(), self.1.clone()]))
    }

    fn len(&self) -> Option<usize> {
        Some(2)
    }

    fn repr(&self) -> String {
        self.tuple().repr().unwrap_or_default()
    }

    fn as_data(&self) -> Option<Obj> {
        Some(self.tuple())
    }
}

fn groupby(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let names = ["attribute", "default", "case_sensitive"];
    let bound = args.bind_required("do_groupby", &names, 1)?;
    let path = Path::new(bound[0].as_ref());
    let default = bound[1].as_ref();
    let case_sensitive = flag(&bound[2], false)?;
    let items = cx.iterate(value)?;
    let mut keys = Vec::with_capacity(items.len());
    for item in &items {
        let key = path.get(cx, item, default)?;
        if let Obj::Undefined(missing) = &key {
            missing.check()?;
        }
        keys.push(folded(key, case_sensitive));
    }
    let mut groups: Vec<(Obj, Obj, Vec<Obj>)> = Vec::new();
    for item in sorted(cx, items, keys, false)? {
        let own = path.get(cx, &item, default)?;
        let key = folded(own.clone(), case_sensitive);
        match groups.last_mut() {
            Some((last, _, members)) if last.equals(&key)? => members.push(item),
            _ => groups.push((key, own, vec![item])),
        }
    }
    let groups = groups.into_iter();
    let groups = groups.map(|(_, own, members)| Obj::native(Group(own, Obj::list(members))));
    Ok(Obj::list(groups.collect()))
}
