before:
  st_plain.present: []
unknown:
  st_plain.present:
    - unknown: x
after:
  st_plain.present: []
