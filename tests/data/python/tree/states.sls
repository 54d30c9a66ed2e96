managed.txt:
  st_states.managed: []
positional:
  st_states.positional: []
own:
  st_states.own: []
contains:
  st_states.contains: []
missing:
  st_states.missing: []
tested.txt:
  st_states.test_mode: []
made:
  st_states.directory: []
