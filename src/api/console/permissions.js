// What a user is offered, from the permissions in the answer of a login. The master decides what is allowed; this only keeps buttons
// away that would end in a refusal.

/** A pattern as the master reads it: anchored at the start; one that is invalid matches nothing. */
function fits(pattern, text) {
  try {
    return new RegExp(`^(?:${pattern.replaceAll('(?P<', '(?<')})`).test(text);
  } catch {
    return false;
  }
}

/** The pattern of a rule, which may have conditions on arguments. */
function nameOf(rule) {
  return typeof rule === 'string' ? rule : Object.keys(rule ?? {})[0] ?? '';
}

export class Permissions {
  /** `perms` of the session, and `clients`, those that the service lets run. */
  constructor(perms, clients) {
    this.entries = Array.isArray(perms) ? perms : [];
    this.clients = clients ?? [];
  }

  /** The maps among the entries, as pairs of scope and rules. */
  scopes() {
    const maps = this.entries.filter((entry) => entry && typeof entry === 'object');
    return maps.flatMap((map) => Object.entries(map).map(([scope, rules]) => [scope, [rules].flat()]));
  }

  words() {
    return this.entries.filter((entry) => typeof entry === 'string');
  }

  /** Whether a function may run on some minions. */
  mayRun(fun) {
    if (!this.clients.includes('local_async')) return false;
    return this.words().some((word) => !word.startsWith('@') && fits(word, fun))
      || this.scopes().some(([scope, rules]) => !scope.startsWith('@') && rules.some((rule) => fits(nameOf(rule), fun)));
  }

  /** Whether any function may run on minions. */
  mayRunAny() {
    if (!this.clients.includes('local_async')) return false;
    return this.words().some((word) => !word.startsWith('@'))
      || this.scopes().some(([scope]) => !scope.startsWith('@'));
  }

  /** Whether a runner or wheel function may be called; `form` is `runner` or `wheel`. */
  mayCall(form, fun) {
    if (!this.clients.includes(form)) return false;
    const [module, name] = fun.split('.');
    const isForm = (word) => word === form || word === `${form}s`;
    return this.words().some((word) => word.startsWith('@') && (isForm(word.slice(1)) || word.slice(1) === module))
      || this.scopes().some(([scope, rules]) => {
        if (!scope.startsWith('@')) return false;
        const word = scope.slice(1);
        return rules.some((rule) => (isForm(word) && fits(nameOf(rule), fun)) || (word === module && fits(nameOf(rule), name)));
      });
  }

  runner(fun) {
    return this.mayCall('runner', fun);
  }

  wheel(fun) {
    return this.mayCall('wheel', fun);
  }

  /** Whether the bus of events may be followed. */
  mayListen() {
    const words = this.words();
    return words.includes('@events') || ['.*', '@runner', '@wheel'].every((word) => words.includes(word));
  }

  /** Patterns of functions, for a user who cannot get the list of functions. */
  patterns() {
    const words = this.words().filter((word) => !word.startsWith('@'));
    const scoped = this.scopes().filter(([scope]) => !scope.startsWith('@'));
    return [...words, ...scoped.flatMap(([scope, rules]) => rules.map((rule) => `${nameOf(rule)} (${scope})`))];
  }
}
