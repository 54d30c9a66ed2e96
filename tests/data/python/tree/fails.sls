bad:
  st_plain.failed: []
needs bad:
  st_plain.present:
    - require:
      - st_plain: bad
on fail:
  st_plain.present:
    - onfail:
      - st_plain: bad
raises:
  st_raise.value: []
after:
  st_plain.present:
    - order: last
