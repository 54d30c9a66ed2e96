one:
  st_plain.changed:
    - parallel: true
two:
  st_dunders.known:
    - parallel: true
raises:
  st_raise.value:
    - parallel: true
after:
  st_plain.present:
    - require:
      - st_plain: one
