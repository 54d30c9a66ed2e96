//! Variables and functions of templates, the same for pillars, SLS files of the master and files of minions.

use super::RenderError;
use super::files::FileTree;
use super::functions::{FunctionLoader, LazyMap, SaltVariable};
use super::template::{TemplateEngine, sls_context};
use halite_jinja::Obj;
use halite_wire::Map;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

/// Gives the files of an environment.
pub type Trees = dyn Fn(&str) -> Rc<dyn FileTree>;

/// What the templates of one rendering can see, and where they load other templates from.
pub struct Scene {
    /// Jinja.
    pub engine: Rc<TemplateEngine>,
    /// The variable `opts`; its `grains` are replaced by [`Scene::grains`].
    pub opts: Rc<LazyMap>,
    /// The variable `grains`.
    pub grains: Arc<Map>,
    /// The variable `pillar`.
    pub pillar: Arc<Map>,
    /// The functions behind the variable `salt`.
    pub functions: Rc<dyn FunctionLoader>,
    /// Where templates find others.
    pub trees: Rc<Trees>,
}

/// One template of a [`Scene`].
pub struct SceneTemplate<'a> {
    /// The text.
    pub text: &'a str,
    /// The environment, which is also where it finds other templates.
    pub saltenv: &'a str,
    /// Path and SLS name, if the variables for them (`tplpath`, `slspath`, ...) are wanted.
    pub place: Option<(&'a str, &'a str)>,
    /// Variables that override those of the scene.
    pub variables: &'a Map,
}

/// Renders the templates of a scene. They share their variables: a change that one makes to `pillar`, say, is
/// visible to the next, as in stock Salt.
pub struct SceneRenderer {
    scene: Scene,
    salt: Obj,
    pillar: OnceCell<Obj>,
    grains: OnceCell<Obj>,
    opts: OnceCell<Obj>,
}

impl SceneRenderer {
    /// A renderer; variables are built when a template first uses them.
    pub fn new(scene: Scene) -> SceneRenderer {
        SceneRenderer {
            salt: Obj::native(SaltVariable(scene.functions.clone())),
            scene,
            pillar: OnceCell::new(),
            grains: OnceCell::new(),
            opts: OnceCell::new(),
        }
    }

    /// The scene.
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// Renders a template. `more` are variables that neither the scene nor [`SceneTemplate::variables`] has.
    ///
    /// # Errors
    /// In Salt's wording, with the lines around the location.
    pub fn render(
        &self,
        template: &SceneTemplate,
        more: Vec<(&str, Obj)>,
    ) -> Result<String, RenderError> {
        let text = template.text;
        let mut context = vec![
            ("salt".to_owned(), self.salt.clone()),
            ("saltenv".to_owned(), Obj::str_from(template.saltenv)),
        ];
        context.extend(
            more.into_iter()
                .map(|(name, value)| (name.to_owned(), value)),
        );
        // These are large, and most templates use at most one of them.
        if may_use(text, "pillar") {
            context.push(("pillar".to_owned(), self.pillar()));
        }
        if may_use(text, "grains") {
            context.push(("grains".to_owned(), self.grains()));
        }
        if may_use(text, "opts") {
            context.push(("opts".to_owned(), self.opts()));
        }
        for (name, value) in template.variables.iter() {
            let Some(name) = name.as_str() else { continue };
            context.retain(|(known, _)| known != name);
            context.push((name.to_owned(), Obj::from(value)));
        }
        let (path, sls) = template.place.unwrap_or_default();
        if template.place.is_some() {
            for (name, value) in sls_context(path, sls) {
                if !context.iter().any(|(known, _)| *known == name) {
                    context.push((name, value));
                }
            }
        }
        let files = (self.scene.trees)(template.saltenv);
        self.scene.engine.render(text, sls, files, context)
    }

    fn pillar(&self) -> Obj {
        let make = || Obj::from(&*self.scene.pillar);
        self.pillar.get_or_init(make).clone()
    }

    fn grains(&self) -> Obj {
        let make = || Obj::from(&*self.scene.grains);
        self.grains.get_or_init(make).clone()
    }

    fn opts(&self) -> Obj {
        let make = || {
            let opts: &Map = &self.scene.opts;
            let opts = Obj::from(opts);
            if let Obj::Dict(dict) = &opts {
                dict.borrow_mut().set_str("grains", self.grains());
            }
            opts
        };
        self.opts.get_or_init(make).clone()
    }
}

/// Whether a template can see a variable: its text has the name, it loads another template, or it shows all
/// variables.
fn may_use(text: &str, variable: &str) -> bool {
    const OTHERS: [&str; 4] = ["import", "include", "extends", "context"];
    text.contains(variable) || OTHERS.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{FileCache, RootsTree};
    use halite_wire::map;
    use std::cell::LazyCell;

    struct NoFunctions;

    impl FunctionLoader for NoFunctions {
        fn function(&self, _: &str) -> Option<Obj> {
            None
        }

        fn has_module(&self, _: &str) -> bool {
            false
        }
    }

    /// Without a master, a minion or a file: the scene is all that a rendering needs.
    #[test]
    fn a_scene_needs_no_configuration() {
        let options = halite_config::JinjaOptions::of_minion(&Map::new()).unwrap();
        let tree: Rc<dyn FileTree> = Rc::new(RootsTree {
            files: Rc::new(FileCache::default()),
            roots: Vec::new(),
        });
        let renderer = SceneRenderer::new(Scene {
            engine: Rc::new(TemplateEngine::new(&options)),
            opts: Rc::new(LazyCell::new(Box::new(|| map! {"id" => "m"}))),
            grains: Arc::new(map! {"os" => "Debian"}),
            pillar: Arc::new(map! {"seen" => map! {}}),
            functions: Rc::new(NoFunctions),
            trees: Rc::new(move |_| tree.clone()),
        });
        let none = Map::new();
        let render = |text: &str, variables: &Map| {
            let template = SceneTemplate {
                text,
                saltenv: "base",
                place: None,
                variables,
            };
            renderer.render(&template, vec![("sls", Obj::str_from("a.b"))])
        };
        let text = "{{ opts.id }} {{ opts.grains.os }} {{ saltenv }} {{ sls }} {{ 'x.y' in salt }}";
        assert_eq!(render(text, &none).unwrap(), "m Debian base a.b False");
        render("{% do pillar.seen.update({'x': 1}) %}", &none).unwrap();
        assert_eq!(render("{{ pillar.seen.x }}", &none).unwrap(), "1");
        assert_eq!(render("{{ grains }}", &map! {"grains" => 5}).unwrap(), "5");
    }
}
